"""What users of other engines reported, each with the test that would notice it here.

 1  greedy EAGLE and greedy plain text differ in half precision    bench.a_divergence_has_the_gap_of_the_two_best_logits_where_it_begins
 2  greedy scores differ, since both modes stop differently        engine.a_stop_string_cuts_both_lanes_alike_wherever_it_crosses_steps
 3  a mismatch is reported and is numerics                         proving.the_verdict_follows_the_greedy_gap
 4  the residual is used again after a fully accepted path         verify.the_bonus_below_an_accepted_last_sibling_comes_from_its_own_law
 5  greedy drafts are judged by their softmax                      verify.one_hot_siblings_leave_the_target_law
 6  the draft law is not the one the draft was drawn from          symptoms.drafts_come_from_the_very_law_they_are_judged_by
 7  is a draft law of one, or a conditional one, lossless?         lossless.a_step_over_a_whole_tree_leaves_the_targets_law
 8  texts are compared token by token at a temperature             lossless.whole_texts_of_several_steps_have_the_targets_law
 9  the most probable token is taken at a temperature              symptoms.no_lane_takes_the_most_probable_token_at_a_temperature
10  min-p is not applied to every token of a step                  symptoms.no_token_of_a_step_escapes_the_processors
11  top-p crashes on logits without a batch                        sampling.rows_are_processed_alike_together_and_alone
12  a bad head changes the text                                    lossless.greedy_text_equals_plain_text
13  the cache's positions drift from the text's                    proofs.the_cache_is_that_of_a_fresh_prefill
14  the cap masks a stop inside an accepted run                    sequence.the_earliest_stop_wins
15  an end token inside an accepted run is overrun                 engine.a_stop_within_a_path_cuts_cache_counters_and_drafter_alike
16  a stop string early in a long accepted run is missed           text.the_token_that_completes_a_stop_string_is_found_wherever_steps_end
17  usage counts tokens past the stop                              trace.figures_follow_the_cut_of_a_stop
18  tokens past an end token or the cap are validated              sequence.what_is_committed_is_the_text_scanned_token_by_token
19  the cap is overshot by the depth of the tree                   lossless.never_more_than_max_new_tokens_are_written
20  a head made for 2,048 positions crashes on longer prompts      engine.a_prompt_past_the_drafters_limit_is_answered_plainly_and_says_so_at_once
21  the head's limit is nowhere shown                              workbench.past_the_heads_limit_both_lanes_still_agree_and_a_notice_is_given
22  the draft cache keeps estimated features                       engine.stable_rows_equal_one_pass_over_all_true_features
23  tokens are not shifted against features                        layouts.tokens_not_shifted_against_features_are_told
24  a custom mask breaks with a release of transformers            hf.every_tree_node_gets_the_logits_of_its_own_path
25  the head has a norm too many or a residual too few             layouts.draft_logits_are_those_of_a_naive_computation
26  fc.bias is dropped because the config says so                  heads.biases_are_taken_from_the_weights_and_not_from_the_config
27  a Qwen 2 head has biases at its queries and keys               layouts.draft_logits_are_those_of_a_naive_computation
28  head_dim is not width / heads                                  layouts.draft_logits_are_those_of_a_naive_computation
29  EAGLE-1 heads fail, since EAGLE-3 is the default               head_formats.the_tensors_tell_the_kind_whatever_the_config_says
30  a single-file or tied target has no index, or no lm_head       symptoms.a_tied_target_in_a_single_file_needs_no_index_and_no_lm_head
31  a head's own embedding is overwritten by the target's          heads.a_copy_of_the_targets_embedding_is_left_aside_and_another_embedding_is_kept
32  the wrong layers are tapped                                    layouts.taps_one_layer_off_are_told
33  a config field that changes the head is ignored                head_formats.a_setting_that_would_make_another_head_is_refused_in_one_sentence
34  vocabularies or tokenizers of target and head differ           head_files.a_head_whose_tokenizer_numbers_tokens_otherwise_is_refused
35  index tensors are on another device than the cache             devices.rows_are_kept_where_their_layer_lives
36  there is no way to run on a CPU                                proofs.greedy_texts_are_equal
37  a batch of prompts ends in an error of shapes                  -  a run decodes one prompt, and nothing takes a batch
38  half precision overflows: all "!", nothing accepted            symptoms.an_overflow_in_half_precision_drafts_nothing_and_changes_no_text
39  a prompt begins with its beginning-of-text token twice         text.no_beginning_of_text_is_added_to_what_the_template_renders
40  another chat template than the target's own is used            text.a_prompt_becomes_one_user_turn_up_to_the_answer
41  τ cannot be recounted                                          summary.the_rest_says_depths_machine_speedup_equality_and_formulas
42  depths and tree sizes are off by one                           plans.the_tree_of_25_is_the_published_one
43  the tree cannot be changed, or made a chain                    plans.a_name_stands_for_its_plan
44  a large tree is slower than plain decoding                     optimum.of_all_sizes_the_one_with_most_tokens_per_millisecond_is_taken
"""  # noqa: E501  a table: a report and its test stand on one line

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from benches import tiny_bench
from proofs import BUSHY, PROMPT, World, planned, text_of, world
from safetensors import safe_open
from test_lossless import PROCESSORS
from torch import Tensor
from toys import TableTarget, eagle_drafter, enumerate_outcomes, perfect_drafter, written
from transformers import LlamaConfig, LlamaForCausalLM

from eagle_core.compare import as_lane
from eagle_core.decoding import Decoding
from eagle_core.engine import Engine
from eagle_core.errors import TargetError
from eagle_core.options import RunOptions
from eagle_core.plans import chain
from eagle_core.rules import RULES, Rule
from eagle_core.sampling import Chance, LawMaker
from eagle_core.targets.hf import HfRun, HfTarget

ROW = re.compile(r"^ ?(\d+)  (\S.*?)  +(?:(\w+)\.(\w+)|-  (\S.*))$", re.MULTILINE)
REPORTS = [match.groups() for match in ROW.finditer(__doc__ or "")]
SAMPLED: list[Rule] = [rule for rule in RULES if rule not in {"greedy", "block"}]


def test_every_report_has_a_test_that_exists_or_a_reason_to_have_none() -> None:
    assert [int(number) for number, *_ in REPORTS] == list(range(1, 45))
    here = Path(__file__).parent
    for number, _, module, name, reason in REPORTS:
        if reason is None:
            source = (here / f"test_{module}.py").read_text(encoding="utf-8")
            assert f"\ndef test_{name}(" in source, (
                f"report {number}: test_{module}.py, test_{name}"
            )


@pytest.mark.parametrize("processors", PROCESSORS, ids=str)
def test_drafts_come_from_the_very_law_they_are_judged_by(
    processors: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Report 6; the law of a draft, over every draw, is what the tree says and what options say."""
    target, options = TableTarget(seed=2), RunOptions(**processors)
    text, drafter = written(PROMPT[:-1], PROMPT[-1:]), eagle_drafter(TableTarget(seed=2))
    laws = LawMaker(options).after(text)
    before = torch.tensor(PROMPT[:-1])
    drafter.begin(before, target.open().prefill(before, taps=drafter.taps))
    read, raw, told = drafter._logits, [], []

    def noted(estimates: Tensor) -> Tensor:
        raw.append(read(estimates))
        return raw[-1]

    monkeypatch.setattr(drafter, "_logits", noted)

    def draft(chance: Chance) -> int:
        plan = chain(1, "without_replacement")
        tree = drafter.grow_tree(PROMPT[-1], plan=plan, laws=laws, chance=chance)
        told.append(tree.laws[0])
        return tree.tokens[1]

    drawn = enumerate_outcomes(draft)
    seen = torch.tensor([drawn.get(token, 0.0) for token in range(len(told[0]))])
    torch.testing.assert_close(seen, told[0].float())
    torch.testing.assert_close(told[0], laws.law(raw[0])[0])


@pytest.mark.parametrize("rule", SAMPLED)
def test_no_lane_takes_the_most_probable_token_at_a_temperature(rule: Rule) -> None:
    """Report 9; ten seeds would write one text."""
    bench = tiny_bench()
    prompt = bench.encode("why")
    for lane in (bench.plain, bench.eagle):
        texts = {
            as_lane("any", lane(prompt, RunOptions(8, temperature=2.0, rule=rule, seed=s))).tokens
            for s in range(10)
        }
        assert len(texts) > 5


@pytest.mark.parametrize("processors", [{"min_p": 0.4}, {"top_p": 0.5}, {"top_k": 2}], ids=str)
@pytest.mark.parametrize("rule", SAMPLED)
def test_no_token_of_a_step_escapes_the_processors(rule: Rule, processors: dict[str, Any]) -> None:
    """Report 10; accepted drafts at every depth, and bonus tokens."""
    target, num_accepted = TableTarget(vocab_size=8, seed=3), 0
    for seed in range(12):
        options = RunOptions(16, temperature=1.5, rule=rule, seed=seed, **processors)
        engine = Engine(
            Decoding.open(target, options), perfect_drafter(target), plan=planned(BUSHY, rule)
        )
        events = list(engine.steps(PROMPT))
        num_accepted += sum(len(event.committed) - 1 for event in events)
        assert_allowed(target, options, text_of(events))
    assert num_accepted > 20


def assert_allowed(target: TableTarget, options: RunOptions, answer: Sequence[int]) -> None:
    for end, token in enumerate(answer):
        text = (*PROMPT, *answer[:end])
        assert LawMaker(options).law(target.logits_after(text))[token] > 0


def test_a_tied_target_in_a_single_file_needs_no_index_and_no_lm_head(tmp_path: Path) -> None:
    """Report 30."""
    sizes = dict.fromkeys(("num_attention_heads", "num_key_value_heads", "num_hidden_layers"), 2)
    config = LlamaConfig(
        **sizes,
        vocab_size=23,
        hidden_size=16,
        intermediate_size=24,
        tie_word_embeddings=True,
        eos_token_id=None,
    )
    LlamaForCausalLM(config).save_pretrained(tmp_path)
    assert [path.name for path in tmp_path.glob("*.safetensors*")] == ["model.safetensors"]
    with safe_open(tmp_path / "model.safetensors", "pt") as file:
        assert "lm_head.weight" not in file.keys()  # noqa: SIM118  it is no mapping
    target = HfTarget(LlamaForCausalLM.from_pretrained(tmp_path), name="tied")
    features = torch.randn(3, 16)
    every_token = target.embedding()(torch.arange(23))
    torch.testing.assert_close(target.unembedding()(features), features @ every_token.T)
    bench, options = tiny_bench(World(target, world(0).head)), RunOptions(16, tree="tree:8")
    plain, eagle = (as_lane("any", lane([3, 1], options)) for lane in (bench.plain, bench.eagle))
    assert plain.tokens == eagle.tokens


@pytest.mark.parametrize("number", [torch.nan, torch.inf], ids=str)
@pytest.mark.parametrize("processors", PROCESSORS[::3], ids=str)
@pytest.mark.parametrize("rule", ["greedy", *SAMPLED, "block"])
def test_an_overflow_in_half_precision_drafts_nothing_and_changes_no_text(
    rule: Rule, processors: dict[str, Any], number: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Report 38; a law of no numbers would keep whatever it drafts."""
    real = HfRun._read

    def overflown(self: HfRun, *args: Any, **more: Any) -> tuple[Tensor, Tensor]:
        states, features = real(self, *args, **more)
        return states, torch.full_like(features, number)

    monkeypatch.setattr(HfRun, "_read", overflown)
    bench = tiny_bench()
    temperature = 0.0 if rule == "greedy" else processors["temperature"]
    options = RunOptions(**processors | {"temperature": temperature}, max_new_tokens=8, rule=rule)
    prompt = bench.encode("why")
    plain, eagle = (as_lane("any", lane(prompt, options)) for lane in (bench.plain, bench.eagle))
    assert [len(step.nodes) for step in eagle.steps] == [1] * 7
    assert eagle.tokens == plain.tokens


def test_a_target_that_overflows_itself_is_told_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Report 38; else every token would be the vocabulary's last or first."""
    bench = tiny_bench()
    monkeypatch.setattr(
        HfRun,
        "_read",
        lambda self, tokens, *_, **__: (torch.full((len(tokens), 16), torch.nan),) * 2,
    )
    for lane in (bench.plain, bench.eagle):
        with pytest.raises(TargetError, match="no numbers in float32; expected numbers; try"):
            list(lane(bench.encode("why"), RunOptions(8, temperature=1.0)))
