"""Block verification: judge a drafted chain as a whole (Sun et al., arXiv 2403.10444).

    root ── x1 ── x2 ── x3      weight 1, w1, w2, w3     w = min(1, w before · target(x) / draft(x))

The longest block whose coin wins is kept, so a token that token-wise verification would refuse
can be saved by those after it; never fewer tokens are kept on average.

Knows laws of a chain. Knows nothing of trees, drafters or text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eagle_core.contests import Trial, flip

if TYPE_CHECKING:
    from torch import Tensor

    from eagle_core.sampling import Chance


@dataclass(frozen=True, eq=False)
class Link:
    """One drafted token, and both laws of its place, (V,)."""

    token: int
    law: Tensor
    draft_law: Tensor


@dataclass(frozen=True)
class BlockVerdict:
    """What became of a chain of drafts.

    accept_probs: of each link, that the kept block ends with it, given that no longer one was kept.
    trials: of each link; None for those before the kept block's last, whose coins lie unflipped.
    """

    num_kept: int
    bonus: int
    accept_probs: tuple[float, ...]
    trials: tuple[Trial | None, ...]


def verify_block(links: Sequence[Link], last_law: Tensor, chance: Chance) -> BlockVerdict:
    """Keep a prefix of `links` and add the bonus token, so that the target's law comes out.

    last_law: (V,), of the token after the last link.
    """
    if not links:
        return BlockVerdict(0, chance.draw(last_law), (), ())
    weights = _weights(links)
    leftovers = [_Leftover.of(w, link) for w, link in zip(weights[:-1], links, strict=True)]
    accept_probs = [leftover.accept_prob for leftover in leftovers[1:]] + weights[-1:]
    trials: list[Trial | None] = [None] * len(links)
    num_kept = len(links)
    while num_kept > 0:
        trials[num_kept - 1] = trial = flip(accept_probs[num_kept - 1], chance)
        if trial.is_kept:
            break
        num_kept -= 1
    law = leftovers[num_kept].law if num_kept < len(links) else last_law
    return BlockVerdict(num_kept, chance.draw(law), tuple(accept_probs), tuple(trials))


@dataclass(frozen=True, eq=False)
class _Leftover:
    """What a block leaves for the token after it.

    law: (V,), not normalised, of the bonus token should the block end here.
    accept_prob: that it does, given that it does not end later.
    """

    law: Tensor
    accept_prob: float

    @classmethod
    def of(cls, weight: float, follower: Link) -> _Leftover:
        excess = (weight * follower.law - follower.draft_law).clamp_min(0.0)
        mass = float(excess.sum())
        if mass == 0.0 and weight == 1.0:  # both laws are equal: only rounding ends a block here
            return cls(follower.law, 1.0)
        return cls(excess, mass / (mass + 1.0 - weight))


def _weights(links: Sequence[Link]) -> list[float]:
    """How much of each block's draft probability the target backs, the empty block's first."""
    weights = [1.0]
    for link in links:
        ratio = float(link.law[link.token]) / float(link.draft_law[link.token])
        weights.append(min(1.0, weights[-1] * ratio))
    return weights
