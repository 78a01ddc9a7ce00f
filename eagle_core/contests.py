"""One node's children against its target law: a contest per acceptance rule.

Children stand trial in the order in which they were chosen; the first to win is kept. If none
wins, the bonus token comes from what the contest left of the target law.

Knows laws and tokens. Knows nothing of trees.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from eagle_core.sampling import most_probable, without

if TYPE_CHECKING:
    from torch import Tensor

    from eagle_core.rules import Rule
    from eagle_core.sampling import Chance


@dataclass(frozen=True)
class Trial:
    """draw: the uniform number it was decided by, None where no coin was flipped."""

    is_kept: bool
    draw: float | None = None


class Contest(Protocol):
    """Built from a node's target law, (V,), and the draft law of its children, (V,) or None."""

    def accept_prob(self, token: int) -> float:
        """Chance that the next child, `token`, is kept, all before it having been refused."""
        ...

    def trial(self, token: int, chance: Chance) -> Trial:
        """Decide the next child, `token`."""
        ...

    def refuse(self, token: int) -> None:
        """Take note that `token` was refused; the law left over changes."""
        ...

    def bonus(self, chance: Chance) -> int:
        """The target's own token, from the law left over."""
        ...


class GreedyContest:
    """Temperature 0: only the target's most probable token is kept."""

    def __init__(self, law: Tensor, draft_law: Tensor | None) -> None:
        self._mode = most_probable(law)

    def accept_prob(self, token: int) -> float:
        return 1.0 if token == self._mode else 0.0

    def trial(self, token: int, chance: Chance) -> Trial:
        return Trial(token == self._mode)

    def refuse(self, token: int) -> None:
        """A refused token is not the mode, so nothing is left to change."""

    def bonus(self, chance: Chance) -> int:
        return self._mode


class OneHotContest:
    """Siblings that are a function of the context, such as a top-k: each is drawn for certain.

    Keep x with the target's probability of x; after a refusal that probability becomes zero and
    the rest is scaled up (EAGLE-2, released code).
    """

    def __init__(self, law: Tensor, draft_law: Tensor | None) -> None:
        self._left = law.clone()

    def accept_prob(self, token: int) -> float:
        mass = float(self._left.sum())
        return float(self._left[token]) / mass if mass > 0 else 0.0

    def trial(self, token: int, chance: Chance) -> Trial:
        return flip(self.accept_prob(token), chance)

    def refuse(self, token: int) -> None:
        self._left[token] = 0.0

    def bonus(self, chance: Chance) -> int:
        return chance.draw(self._left)


class SeededContest(OneHotContest):
    """The target draws its own token first; the child that matches it is kept.

    A child's chance is the one-hot rule's, but all children share one draw. Where that draw is
    keyed by seed and place, the text is that of plain sampling, token for token, whatever is
    drafted.
    """

    def __init__(self, law: Tensor, draft_law: Tensor | None) -> None:
        super().__init__(law, draft_law)
        self._law = law
        self._choice: int | None = None

    def trial(self, token: int, chance: Chance) -> Trial:
        return Trial(token == self.bonus(chance))

    def bonus(self, chance: Chance) -> int:
        if self._choice is None:
            self._choice = chance.draw(self._law)
        return self._choice


class IidContest:
    """Siblings drawn from the draft law independently; a token may come twice.

    Keep x with min(1, target / draft). After a refusal the target law becomes its excess over the
    draft law, scaled up again (SpecInfer, multi-step speculative sampling).
    """

    def __init__(self, law: Tensor, draft_law: Tensor | None) -> None:
        self._left = law
        self._draft_law = draft_law

    def accept_prob(self, token: int) -> float:
        return min(1.0, float(self._left[token]) / float(self._drawn_from[token]))

    def trial(self, token: int, chance: Chance) -> Trial:
        return flip(self.accept_prob(token), chance)

    def refuse(self, token: int) -> None:
        excess = (self._left - self._drawn_from).clamp_min(0.0)
        mass = excess.sum()
        if mass > 0:  # else both laws are equal, and the refusal was a rounding error
            self._left = excess / mass

    def bonus(self, chance: Chance) -> int:
        return chance.draw(self._left)

    @property
    def _drawn_from(self) -> Tensor:
        assert self._draft_law is not None, "drawn siblings come with their draft law"
        return self._draft_law


class WithoutReplacementContest(IidContest):
    """Siblings drawn from the draft law one after the other, never the same twice.

    As for independent ones, and after a refusal the draft law loses x and is scaled up again, as
    the next draw was made (EAGLE-1, algorithm 1; Sequoia, section 4.2).
    """

    def refuse(self, token: int) -> None:
        super().refuse(token)
        self._draft_law = without(self._drawn_from, token)


class TypicalContest:
    """Lossy: keeps whatever the target finds probable enough, so the text's law changes.

    Keep x where target(x) > min(ε, δ·exp(-entropy of the target law)), with ε = 0.09 and δ = 0.3
    (Medusa, section 2.3.1 and released code). The bonus token comes from the whole target law.
    """

    EPSILON = 0.09
    DELTA = 0.3

    def __init__(self, law: Tensor, draft_law: Tensor | None) -> None:
        self._law = law
        entropy = -float(law.xlogy(law).sum())
        self._threshold = min(self.EPSILON, self.DELTA * math.exp(-entropy))

    def accept_prob(self, token: int) -> float:
        return 1.0 if float(self._law[token]) > self._threshold else 0.0

    def trial(self, token: int, chance: Chance) -> Trial:
        return Trial(self.accept_prob(token) == 1.0)

    def refuse(self, token: int) -> None:
        """What is not typical does not become so by being refused."""

    def bonus(self, chance: Chance) -> int:
        return chance.draw(self._law)


CONTESTS: Mapping[Rule, Callable[[Tensor, Tensor | None], Contest]] = {
    "greedy": GreedyContest,
    "one_hot": OneHotContest,
    "without_replacement": WithoutReplacementContest,
    "iid": IidContest,
    "seeded": SeededContest,
    "lossy_typical": TypicalContest,
}


def flip(accept_prob: float, chance: Chance) -> Trial:
    """Keep with this probability: never at 0, always at 1, since a draw lies in [0, 1)."""
    draw = chance.uniform()
    return Trial(draw < accept_prob, draw)
