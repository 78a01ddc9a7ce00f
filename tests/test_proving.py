"""`prove` on tiny models: it holds for what is exact and fails for what is not."""

from __future__ import annotations

import re

import pytest
import torch
from benches import tiny_bench
from torch import Tensor

from eagle_core import cli, contests
from eagle_core.chi_square import Fit
from eagle_core.compare import Divergence
from eagle_core.options import RunOptions
from eagle_core.progress import no_progress
from eagle_core.proving import GreedyProof, Proof, SampledProof, least_certain, prove, report

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
    assert 0.0 < proof.sampled.smallest_deviation < 0.5


def test_a_lossy_rule_fails() -> None:
    assert not proved(rule="lossy_typical").holds


def test_a_biased_rule_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The target law stays as it was after a refusal."""
    monkeypatch.setattr(contests.IidContest, "refuse", lambda self, token: None)
    proof = proved(rule="iid", temperature=3.0)
    assert not proof.sampled.holds
    assert proof.greedy.holds


def test_a_greedy_fault_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eagle_core.contests.GreedyContest.bonus", lambda self, chance: 3)
    monkeypatch.setattr("eagle_core.targets.hf.tree_bias", _all_seeing)
    assert not proved(num_samples=50).greedy.holds


def _all_seeing(parents: tuple[int | None, ...], num_cached: int, *, dtype: torch.dtype) -> Tensor:
    return torch.zeros(len(parents), num_cached + len(parents), dtype=dtype)


def test_the_context_ends_where_the_target_is_least_certain() -> None:
    bench = tiny_bench()
    prompt, answer = [3, 1, 4], [1, 5, 9, 2, 6]
    entropies = []
    for end in range(1, len(answer) + 1):
        read = bench.target.open().prefill(torch.tensor([*prompt, *answer[:end]]))
        law = read.logits[-1].softmax(-1)
        entropies.append(float(-(law * law.log()).sum()))
    assert least_certain(bench.target, prompt, answer) == entropies.index(max(entropies))


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
    monkeypatch.setattr(cli, "load_workbench", lambda options: tiny_bench())
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
