"""`prove` on tiny models: it holds for what is exact and fails for what is not."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest
import torch
from benches import tiny_bench
from torch import Tensor
from toys import written

from eagle_core import cli, contests
from eagle_core.chi_square import Fit
from eagle_core.compare import Divergence
from eagle_core.drafters.eagle import EagleDrafter
from eagle_core.errors import PromptError
from eagle_core.options import RunOptions
from eagle_core.plans import plan_named
from eagle_core.progress import no_progress
from eagle_core.proof_report import report
from eagle_core.proving import GreedyProof, Proof, SampledProof, prove
from eagle_core.sampled_steps import SampledSteps, most_telling
from eagle_core.sampling import LawMaker, SeededChance
from eagle_core.targets.base import TargetRead
from eagle_core.targets.hf import HfRun

PROMPTS = ("why is the sky blue", "hello there", "tell me")


def proved(num_samples: int = 120, **options: object) -> Proof:
    wanted = RunOptions(**({"max_new_tokens": 12, "temperature": 1.5, "tree": "tree:4"} | options))  # type: ignore[arg-type]
    return prove(tiny_bench(), PROMPTS, wanted, num_samples=num_samples, progress=no_progress)


@pytest.mark.parametrize(
    "options",
    [
        {"rule": "one_hot"},
        {"rule": "without_replacement", "top_p": 0.9},
        {"rule": "iid", "frequency_penalty": 0.5},
        {"rule": "block", "tree": "chain:2"},
        {"rule": "seeded", "min_p": 0.05},
    ],
    ids=lambda options: options["rule"],
)
def test_every_lossless_rule_is_proved(options: dict[str, object]) -> None:
    proof = proved(**options)
    assert proof.holds, report(proof, RunOptions(temperature=1.5), where="")
    assert proof.greedy.divergences == ()
    assert [fit.num_samples for fit in proof.sampled.fits[::2]] == [120, 120]
    assert all(fit.num_samples > 10 for fit in proof.sampled.fits[1::2])
    assert 0.0 < proof.sampled.smallest_deviation < 0.5


def test_a_lossy_rule_fails() -> None:
    assert not proved(rule="lossy_typical").holds


def test_a_biased_rule_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The target law stays as it was after a refusal."""
    monkeypatch.setattr(contests.IidContest, "refuse", lambda self, token: None)
    proof = proved(num_samples=500, rule="iid")
    assert not proof.sampled.holds
    assert proof.greedy.holds


def test_a_greedy_fault_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eagle_core.contests.GreedyContest.bonus", lambda self, chance: 3)
    monkeypatch.setattr("eagle_core.targets.hf.tree_bias", _all_seeing)
    assert not proved(num_samples=50).greedy.holds


def _all_seeing(parents: tuple[int | None, ...], num_cached: int, *, dtype: torch.dtype) -> Tensor:
    return torch.zeros(len(parents), num_cached + len(parents), dtype=dtype)


def test_the_context_ends_where_target_and_draft_leave_most_open_twice_in_a_row() -> None:
    bench = tiny_bench()
    prompt, answer = [3, 1, 4], [1, 5, 9, 2, 6]
    wanted = RunOptions(temperature=0.7, top_k=5, frequency_penalty=0.5)
    off = []
    for end in range(1, len(answer) + 1):
        text, laws = [*prompt, *answer[:end]], LawMaker(wanted).after(written(prompt, answer[:end]))
        law = laws.law(bench.target.open().prefill(torch.tensor(text)).logits[-1])
        drafter = bench.open_drafter()
        before = torch.tensor(text[:-1])
        drafter.begin(before, bench.target.open().prefill(before, taps=drafter.taps))
        one_draft = plan_named("chain:1", siblings="iid")
        tree = drafter.grow_tree(text[-1], plan=one_draft, laws=laws, chance=SeededChance(3))
        kept = float(torch.minimum(law, tree.laws[0]).sum())
        off.append(abs(float(law.max()) - 0.5) + abs(kept - 0.5))
    sums = [this + following for this, following in itertools.pairwise(off)]
    assert most_telling(bench, prompt, answer, wanted) == sums.index(min(sums))
    assert most_telling(bench, prompt, answer[:1], wanted) == 0


def test_every_sampled_step_starts_from_one_prefill_and_one_pass_of_the_head(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, prefilled = [], []
    begin, prefill = EagleDrafter.begin, HfRun.prefill
    monkeypatch.setattr(EagleDrafter, "begin", lambda *args: begun.append(begin(*args)))

    def counted(run: HfRun, tokens: Tensor, **taps: Any) -> TargetRead:
        prefilled.append(len(tokens))
        return prefill(run, tokens, **taps)

    monkeypatch.setattr(HfRun, "prefill", counted)
    bench = tiny_bench()
    steps = SampledSteps(bench, [3, 1, 4], [1, 5, 9, 2, 6], RunOptions(temperature=1.5))
    num_before = len(begun), len(prefilled)
    steps.fits(40, lambda share: None)
    assert (len(begun), len(prefilled)) == num_before


def test_steps_asked_for_again_from_one_place_are_those_of_fresh_drafters() -> None:
    """Same chance, same tree, whether the drafter has drafted from here before or not."""
    bench, wanted = tiny_bench(), RunOptions(temperature=1.5)
    prompt = torch.tensor([3, 1, 4, 1])
    plan = plan_named("tree:8", siblings="without_replacement")

    def grown(drafter: EagleDrafter, seed: int) -> tuple[object, ...]:
        laws, chance = LawMaker(wanted), SeededChance(seed)
        tree = drafter.grow_tree(5, plan=plan, laws=laws, chance=chance)
        return tree.tokens, tree.parents, tree.log_probs

    def begun() -> EagleDrafter:
        drafter = bench.open_drafter()
        drafter.begin(prompt, bench.target.open().prefill(prompt, taps=drafter.taps))
        return drafter

    seasoned = begun()
    trees = [grown(seasoned, seed) for seed in range(6)]
    assert trees == [grown(begun(), seed) for seed in range(6)]
    assert len({tree[0] for tree in trees}) > 1


def test_a_prompt_behind_which_no_sampled_step_fits_is_refused_before_any_work() -> None:
    limit = tiny_bench().target.spec.max_positions
    with pytest.raises(PromptError, match=f"a prompt of {limit - 1} tokens; expected at most"):
        prove(
            tiny_bench(),
            ["a" * (limit - 1)],
            RunOptions(max_new_tokens=12, temperature=1.0),
            num_samples=1,
            progress=no_progress,
        )


@pytest.mark.parametrize("num_new", [1, 2])
def test_a_proof_over_very_short_answers_and_one_sample_ends_in_words(num_new: int) -> None:
    proof = proved(num_samples=1, max_new_tokens=num_new)
    text = report(proof, RunOptions(temperature=1.5), where="")
    assert "too few tokens to tell this law from another" in text
    assert proof.sampled.smallest_deviation == 1.0


def sampled(*p_values: float) -> SampledProof:
    return SampledProof(tuple(Fit(1000, 9, 8.1, p) for p in p_values))


@pytest.mark.parametrize(
    ("gap", "said", "holds"),
    [
        (None, "HOLDS: no difference", True),
        (0.1, "HOLDS UP TO NUMERICS", True),
        (0.9, "FAILED", False),
    ],
)
def test_the_verdict_follows_the_greedy_gap(gap: float | None, said: str, holds: bool) -> None:
    found = () if gap is None else (Divergence(7, gap, 0.25),)
    proof = Proof(GreedyProof(3, 32, found), sampled(0.5, 0.3))
    text = report(proof, RunOptions(temperature=1.0), where="toy in bfloat16")
    assert proof.holds == holds
    assert text.splitlines()[-1].startswith(said)
    if gap is not None:
        assert f"first difference at token 7, where the two best logits are {gap:g} apart" in text


def test_one_law_that_is_not_followed_fails_the_whole() -> None:
    proof = Proof(GreedyProof(1, 8, ()), sampled(0.5, 1e-6))
    assert not proof.holds
    assert "DOES NOT FOLLOW ITS LAW" in report(proof, RunOptions(temperature=1.0), where="")


def test_a_law_of_one_cell_is_not_said_to_be_followed() -> None:
    proof = Proof(
        GreedyProof(1, 8, ()), SampledProof((Fit(1000, 9, 8.1, 0.5), Fit(20, 1, 0.0, 1.0)))
    )
    text = report(proof, RunOptions(temperature=1.0), where="")
    assert "n = 20: too few tokens to tell this law from another" in text
    assert text.count("follows its law") == 1


def test_the_report_states_sample_size_and_smallest_deviation() -> None:
    proof = Proof(GreedyProof(1, 8, ()), sampled(0.5, 0.5))
    text = report(proof, RunOptions(temperature=1.0), where="")
    assert "n = 1,000, p = 0.5" in text
    reach = re.search(r"total variation of (\d\.\d+) or more", text)
    assert reach is not None
    assert float(reach[1]) == pytest.approx(proof.sampled.smallest_deviation, abs=1e-3)


@pytest.mark.parametrize(("rule", "code"), [("one_hot", 0), ("lossy_typical", 1)])
def test_the_command_ends_with_its_verdict(
    rule: str,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(cli, "load_workbench", lambda options, **more: tiny_bench())
    flags = f"--rule {rule} --samples 300 --temperature 1.5 --max-new-tokens 8 --prompt hello"
    assert cli.main(["prove", *flags.split()]) == code
    out, err = capsys.readouterr()
    assert out.splitlines()[-1].startswith("FAILED" if code else "HOLDS")
    assert "error" not in err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--temperature 0", "temperature 0; expected the temperature of the sampled steps"),
        ("--samples 0", "--samples 0; expected 1 to 1,000,000"),
        ("--rule block --tree tree:8", "rule block with tree tree:8"),
    ],
)
def test_a_wrong_flag_ends_in_one_sentence_before_anything_is_loaded(
    flags: str,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(cli, "load_workbench", lambda options: pytest.fail("loaded"))
    assert cli.main(["prove", *flags.split()]) == 1
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
