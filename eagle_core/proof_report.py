"""A proof in words: the verdict, and the numbers that it rests on.

Knows proofs. Knows nothing of how they were come by.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagle_core.proving import ERROR, POWER

if TYPE_CHECKING:
    from eagle_core.chi_square import Fit
    from eagle_core.compare import Divergence
    from eagle_core.options import RunOptions
    from eagle_core.proving import Proof


def report(proof: Proof, options: RunOptions, *, where: str) -> str:
    """The verdict, with the numbers that it rests on."""
    greedy, sampled = proof.greedy, proof.sampled
    num_equal = greedy.num_prompts - len(greedy.divergences)
    lines = [
        where,
        f"greedy   {num_equal} of {greedy.num_prompts} texts of up to {greedy.num_tokens} tokens "
        "are equal",
        *(f"         {_told(divergence)}" for divergence in greedy.divergences),
        f"sampled  rule {options.resolved_rule}, T = {options.temperature:g}: "
        f"{sampled.num_samples:,} tokens against {len(sampled.fits)} exact laws",
    ]
    lines += [f"         {_fitted(each, sampled.error)}" for each in sampled.fits]
    reach = sampled.smallest_deviation
    lines += [
        f"         a first token whose law is off by a total variation of {reach:.3f} or more",
        f"         would have been noticed {POWER:.0%} of the time; false alarms {ERROR:.1%}",
        _verdict(proof),
    ]
    return "\n".join(lines)


def _fitted(fit: Fit, error: float) -> str:
    if fit.num_cells < 2 and fit.p_value == 1.0:
        return f"n = {fit.num_samples:,}: too few tokens to tell this law from another"
    verdict = "follows its law" if fit.p_value >= error else "DOES NOT FOLLOW ITS LAW"
    return (
        f"χ² {fit.statistic:.1f} over {fit.num_cells} cells, n = {fit.num_samples:,}, "
        f"p = {fit.p_value:.2g}: {verdict}"
    )


def _told(divergence: Divergence) -> str:
    kind = "numerics" if divergence.is_numerics else "A FAULT"
    return (
        f"first difference at token {divergence.position}, where the two best logits are "
        f"{divergence.logit_gap:.2g} apart (tolerance {divergence.tolerance:g}): {kind}"
    )


def _verdict(proof: Proof) -> str:
    if not proof.holds:
        return "FAILED: drafting changes the text"
    if proof.greedy.divergences:
        return "HOLDS UP TO NUMERICS: texts part only where two logits are as good as equal"
    return "HOLDS: no difference between decoding with and without drafts was found"
