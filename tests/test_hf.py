"""Trees through a tiny seeded transformers model, against its own plain forward."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from eagle_core.errors import PromptError, TargetError
from eagle_core.targets import hf, probe
from eagle_core.targets.graphs import GraphTarget
from eagle_core.targets.hf import HfRun, HfTarget
from eagle_core.targets.llama import LlamaTarget
from eagle_core.targets.loading import load_target, load_tokenizer
from eagle_core.targets.masks import ancestor_mask, causal_bias, tree_bias
from eagle_core.targets.store import resolve
from eagle_core.tree import DraftTree

SIZES = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 640,
    "initializer_range": 0.3,  # large enough for attention to matter
    "eos_token_id": [5, 6],
    "bos_token_id": 1,
}
CLOSE = {"atol": 1e-4, "rtol": 1e-4}  # kernels differ with the number of rows
PROMPT = torch.tensor([3, 14, 15, 92, 65, 35, 89, 79])

#   7 ─┬─ 8 ─┬─ 10
#      │     └─ 11 ── 12
#      └─ 9 ──── 13
TREE = DraftTree((7, 8, 9, 10, 11, 12, 13), (None, 0, 0, 1, 1, 4, 2), (0.0,) * 7)


@pytest.fixture(scope="module")
def model() -> LlamaForCausalLM:
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**SIZES))


@pytest.fixture(scope="module", params=[HfTarget, LlamaTarget, GraphTarget])
def target(model: LlamaForCausalLM, request: pytest.FixtureRequest) -> HfTarget:
    """The plain path, the fast one, and that in passes of fixed shape: the same holds for all."""
    tiny: HfTarget = request.param(model, name="tiny", end_tokens=frozenset({7}))
    return tiny


def prefilled(target: HfTarget, prompt: Tensor = PROMPT) -> HfRun:
    run = target.open()
    run.prefill(prompt)
    return run


def text_to(node: int) -> Tensor:
    return torch.cat([PROMPT, torch.tensor(TREE.tokens_on(TREE.path_to(node)))])


def plain(target: HfTarget, tokens: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Logits, (P, V), and all hidden states, (P, D) each, of the model's own forward."""
    output = target.model(input_ids=tokens[None], use_cache=False, output_hidden_states=True)
    return output.logits[0], tuple(state[0] for state in output.hidden_states)


def test_every_tree_node_gets_the_logits_of_its_own_path(target: HfTarget) -> None:
    read = prefilled(target).score_tree(TREE)
    assert read.logits.shape == (7, 97)
    assert read.features.shape == (7, 0)
    for node in range(len(TREE)):
        torch.testing.assert_close(read.logits[node], plain(target, text_to(node))[0][-1], **CLOSE)


def test_prefill_gives_one_row_of_logits_and_a_feature_row_per_token(target: HfTarget) -> None:
    read = target.open().prefill(PROMPT, taps=(2,))
    assert read.logits.shape == (1, 97)
    assert read.features.shape == (8, 32)
    torch.testing.assert_close(read.logits[0], plain(target, PROMPT)[0][-1], **CLOSE)


@pytest.mark.parametrize("taps", [(0,), (1,), (2,), (2, 0), (0, 1, 2)])
def test_taps_are_the_states_entering_a_layer_or_leaving_the_final_norm(
    target: HfTarget, taps: tuple[int, ...]
) -> None:
    states = plain(target, text_to(5))[1]  # index 2 of 2 layers is post-norm in transformers
    run = target.open()
    seen = [run.prefill(PROMPT, taps=taps).features]
    seen.append(run.score_tree(TREE, taps=taps).features[list(TREE.path_to(5))])
    torch.testing.assert_close(
        torch.cat(seen), torch.cat([states[tap] for tap in taps], dim=-1), **CLOSE
    )


def test_the_first_tap_is_the_embedding_and_the_last_unembeds_to_the_logits(
    target: HfTarget,
) -> None:
    read = target.open().prefill(PROMPT, taps=(0, target.spec.last_state))
    embedded, feature = read.features.split(32, dim=-1)
    torch.testing.assert_close(embedded, target.embedding()(PROMPT))
    torch.testing.assert_close(target.unembedding()(feature[-1:]), read.logits, **CLOSE)


def test_an_unembedding_of_some_tokens_is_those_columns_in_their_order(target: HfTarget) -> None:
    features = torch.randn(3, 32, generator=torch.Generator().manual_seed(1))
    some = torch.tensor([40, 2, 96])
    whole = target.unembedding()(features)
    torch.testing.assert_close(target.unembedding(some)(features), whole[:, some])


@pytest.mark.parametrize("path", [(0,), (0, 1), (0, 2, 6), (0, 1, 4, 5)])
def test_a_kept_path_leaves_the_cache_of_a_fresh_prefill(
    target: HfTarget, path: tuple[int, ...]
) -> None:
    run, fresh = prefilled(target), target.open()
    run.score_tree(TREE)
    run.keep_path(path)
    fresh.prefill(torch.cat([PROMPT, torch.tensor(TREE.tokens_on(path))]))
    assert run.num_cached == fresh.num_cached == len(PROMPT) + len(path)
    ours, theirs = run.score_tree(TREE, taps=(0, 1, 2)), fresh.score_tree(TREE, taps=(0, 1, 2))
    torch.testing.assert_close(ours.logits, theirs.logits, **CLOSE)
    torch.testing.assert_close(ours.features, theirs.features, **CLOSE)


def test_many_kept_paths_in_a_row_follow_the_plain_forward(target: HfTarget) -> None:
    run, text = prefilled(target), PROMPT.tolist()
    for _ in range(80):  # past the first capacity of the buffers
        run.score_tree(TREE)
        run.keep_path((0, 2, 6))
        text += [7, 9, 13]
    logits = run.score_tree(DraftTree.root_only(7)).logits[0]
    torch.testing.assert_close(logits, plain(target, torch.tensor([*text, 7]))[0][-1], **CLOSE)


def test_a_tree_scored_again_without_keeping_reads_the_same(target: HfTarget) -> None:
    run = prefilled(target)
    first = run.score_tree(TREE).logits
    run.score_tree(DraftTree.root_only(50))
    assert torch.equal(run.score_tree(TREE).logits, first)
    assert run.num_cached == len(PROMPT)


def test_two_runs_over_the_same_weights_do_not_disturb_each_other(target: HfTarget) -> None:
    alone = prefilled(target)
    alone.score_tree(TREE)
    alone.keep_path((0, 1, 4))
    expected = alone.score_tree(TREE).logits

    ours, other = prefilled(target), prefilled(target, PROMPT.flip(0))
    ours.score_tree(TREE)
    other.score_tree(TREE)
    ours.keep_path((0, 1, 4))
    other.keep_path((0, 2))
    other.score_tree(TREE)
    assert torch.equal(ours.score_tree(TREE).logits, expected)


def test_a_long_prompt_read_in_chunks_equals_one_read_whole(
    target: HfTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = torch.randint(97, (600,), generator=torch.Generator().manual_seed(2))
    whole = plain(target, tokens)
    for rows in (512, 7):
        monkeypatch.setattr(hf, "PREFILL_ROWS", rows)
        read = target.open().prefill(tokens, taps=(1, 2))
        torch.testing.assert_close(read.logits[0], whole[0][-1], **CLOSE)
        torch.testing.assert_close(read.features, torch.cat(whole[1][1:], dim=-1), **CLOSE)


def test_a_prompt_that_is_empty_or_fills_the_context_is_refused(target: HfTarget) -> None:
    for num_tokens, words in ((0, "empty"), (640, "640 tokens")):
        with pytest.raises(PromptError, match=words):
            target.open().prefill(torch.zeros(num_tokens, dtype=torch.int64))
    assert target.open().prefill(torch.zeros(639, dtype=torch.int64)).logits.isfinite().all()


def test_the_spec_names_sizes_limits_and_every_end_token(target: HfTarget) -> None:
    spec = target.spec
    assert (spec.vocab_size, spec.width, spec.num_layers, spec.max_positions) == (97, 32, 2, 640)
    assert spec.end_tokens == {5, 6, 7}
    assert spec.dtype == torch.float32
    assert not any(weight.requires_grad for weight in target.model.parameters())


def test_masks_show_the_cache_and_ancestors_only() -> None:
    drawn = ["100000", "110000", "101000", "110100", "110010", "110011"]
    parents = (None, 0, 0, 1, 1, 4)
    assert ["".join(str(int(x)) for x in row) for row in ancestor_mask(parents)] == drawn
    seen = tree_bias(parents, 3, dtype=torch.float32) == 0
    assert seen[:, :3].all()
    assert torch.equal(seen[:, 3:], ancestor_mask(parents))
    assert torch.equal(causal_bias(3, 2, dtype=torch.float32) == 0, torch.ones(3, 5).tril(2) == 1)


def test_the_probe_passes_a_model_that_honours_masks(target: HfTarget) -> None:
    probe.check(target)
    assert probe.worst_difference(target) < 1e-5


class MaskDeafLlama(LlamaForCausalLM):
    """A model that puts its own causal mask in the place of any it is given."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__(config)
        decoder_forward = self.model.forward

        def forward(
            *args: object, attention_mask: Tensor | None = None, **kwargs: object
        ) -> object:
            return decoder_forward(*args, attention_mask=None, **kwargs)

        self.model.forward = forward


class PositionDeafLlama(LlamaForCausalLM):
    """A model that counts positions itself."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__(config)
        decoder_forward = self.model.forward

        def forward(*args: object, position_ids: Tensor | None = None, **kwargs: object) -> object:
            return decoder_forward(*args, position_ids=None, **kwargs)

        self.model.forward = forward


@pytest.mark.parametrize("deaf", [MaskDeafLlama, PositionDeafLlama])
def test_the_probe_refuses_a_model_deaf_to_mask_or_positions(deaf: type) -> None:
    torch.manual_seed(0)
    with pytest.raises(TargetError, match=r"^deaf cannot be decoded in trees: [^\n]*$"):
        probe.check(HfTarget(deaf(LlamaConfig(**SIZES)), name="deaf"))


def test_logits_that_a_family_scales_or_caps_are_the_models_own() -> None:
    class Shaping:
        logit_scale, logits_scaling, final_logit_softcapping = 3.0, 2.0, 30.0

    logits = torch.tensor([-50.0, 0.0, 20.0])
    expected = torch.tanh(logits * 1.5 / 30.0) * 30.0
    torch.testing.assert_close(hf.logit_shaping(Shaping())(logits), expected)


def test_a_saved_folder_loads_probed_and_a_missing_tokenizer_is_said_in_one_sentence(
    model: LlamaForCausalLM, tmp_path: Path
) -> None:
    model.save_pretrained(tmp_path / "tiny")
    with pytest.raises(TargetError, match=r"tiny cannot be loaded: [^\n]*$"):
        load_target(resolve(str(tmp_path / "tiny")), device="cpu")


def test_a_folder_of_something_else_or_a_damaged_one_is_said_in_one_sentence(
    model: LlamaForCausalLM, tmp_path: Path
) -> None:
    other, damaged = tmp_path / "other", tmp_path / "damaged"
    other.mkdir()
    (other / "config.json").write_text(json.dumps({"model_type": "nothing-known"}))
    model.save_pretrained(damaged)
    weights = damaged / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:5000])
    for folder in (other, damaged):
        with pytest.raises(TargetError, match=rf"{folder.name} cannot be loaded: [^\n]*$"):
            load_target(folder, device="cpu")


@pytest.mark.weights
def test_the_default_target_reads_its_template_and_answers() -> None:
    source = resolve()
    target, tokenizer = load_target(source, device="cpu"), load_tokenizer(source)
    turn = [{"role": "user", "content": "What is the capital of France?"}]
    text = tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True)
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert tokenizer.convert_ids_to_tokens(ids).count("<|im_start|>") == 3
    assert target.spec.end_tokens == {tokenizer.convert_tokens_to_ids("<|im_end|>")}
    run = target.open()
    token, answer = int(run.prefill(torch.tensor(ids)).logits[0].argmax()), []
    while token not in target.spec.end_tokens and len(answer) < 12:
        answer.append(token)
        token = int(run.score_tree(DraftTree.root_only(token)).logits[0].argmax())
        run.keep_path((0,))
    assert tokenizer.decode(answer) == "The capital of France is Paris."


@pytest.mark.weights
def test_the_default_tokenizer_splits_digits_and_comes_back_from_odd_text() -> None:
    tokenizer = load_tokenizer(resolve())
    assert tokenizer.tokenize("so:\n\n12.") == ["so", ":", "ĊĊ", "1", "2", "."]
    for text in ("héllo 😀🇩🇪 日本語\u200d\u00a0z", "a\r\n\t b  \n\n1", "e\u0301 ½ ١٢", "\x00\x7f"):
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids, clean_up_tokenization_spaces=False) == text
