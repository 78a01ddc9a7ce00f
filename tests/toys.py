"""Small seeded pretend models, and a chance that takes every branch."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TypeVar

import torch
from torch import Tensor

from eagle_core.decoding import Decoding
from eagle_core.drafters.eagle import EagleDrafter
from eagle_core.drafters.eagle3 import Eagle3Config, Eagle3Head
from eagle_core.drafters.growth import Growth
from eagle_core.drafters.head import EagleHead, HeadConfig
from eagle_core.options import RunOptions
from eagle_core.sampling import Chance, LawMaker
from eagle_core.sequence import Sequence as Text
from eagle_core.targets.base import Taps, TargetRead, TargetSpec
from eagle_core.text import Decode
from eagle_core.tree import DraftTree, TreePlan
from eagle_core.verify import Acceptance

CPU = torch.device("cpu")


class TableTarget:
    """A target whose next-token logits are a seeded table over the last two tokens."""

    def __init__(
        self,
        vocab_size: int = 4,
        *,
        seed: int = 0,
        sharpness: float = 1.5,
        width: int = 8,
        dtype: torch.dtype = torch.float64,
        end_tokens: frozenset[int] = frozenset(),
        max_positions: int = 64,
        num_layers: int = 2,
    ) -> None:
        generator = torch.Generator().manual_seed(seed)

        def table(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

        self.logits = table(vocab_size, vocab_size, vocab_size) * sharpness
        self.features = table(vocab_size, vocab_size, width)
        self.embeddings = table(vocab_size, width)
        self.states = table(num_layers, vocab_size, vocab_size, width)  # entering each layer
        self.spec = TargetSpec(
            name="table",
            vocab_size=vocab_size,
            width=width,
            num_layers=num_layers,
            max_positions=max_positions,
            end_tokens=end_tokens,
            dtype=dtype,
            device=CPU,
        )

    def embedding(self) -> Callable[[Tensor], Tensor]:
        return lambda tokens: self.embeddings[tokens]

    def unembedding(
        self, tokens: Tensor | None = None, *, dtype: torch.dtype | None = None
    ) -> Callable[[Tensor], Tensor]:
        rows = self.embeddings if tokens is None else self.embeddings[tokens]
        return lambda features: features @ rows.T

    def open(self) -> TableRun:
        return TableRun(self)

    def logits_after(self, text: Sequence[int]) -> Tensor:
        return self.logits[text[-2] if len(text) > 1 else 0, text[-1]]

    def feature_after(self, text: Sequence[int], taps: Taps | None = None) -> Tensor:
        """(K·D,), by default the last state alone."""
        of_layers = [*self.states, self.features]
        before = text[-2] if len(text) > 1 else 0
        return torch.cat(
            [of_layers[tap][before, text[-1]] for tap in taps or (self.spec.last_state,)]
        )

    def law_of_texts(
        self, prompt: Sequence[int], length: int, laws: LawMaker, *, answer: Sequence[int] = ()
    ) -> Law:
        """The exact law of the next `length` tokens after `answer`, stopping at end tokens."""
        law: dict[tuple[int, ...], float] = {(): 1.0}
        for _ in range(length):
            law = self._one_longer(law, prompt, answer, laws)
        return law

    def _one_longer(
        self, law: Law, prompt: Sequence[int], answer: Sequence[int], laws: LawMaker
    ) -> Law:
        longer: dict[tuple[int, ...], float] = {}
        for text, prob in law.items():
            if text and text[-1] in self.spec.end_tokens:
                longer[text] = prob
                continue
            whole = written(prompt, (*answer, *text))
            following = laws.after(whole).law(self.logits_after(whole.tokens)).tolist()
            longer |= {(*text, token): prob * p for token, p in enumerate(following) if p > 0}
        return longer


def written(prompt: Sequence[int], answer: Sequence[int]) -> Text:
    """The committed text of a run."""
    text = Text(prompt)
    text.commit(answer)
    return text


Law = dict[tuple[int, ...], float]


class TableRun:
    def __init__(self, target: TableTarget) -> None:
        self._target = target
        self.cached: list[int] = []
        self._tree: DraftTree | None = None

    @property
    def num_cached(self) -> int:
        return len(self.cached)

    def prefill(self, tokens: Tensor, *, taps: Taps = ()) -> TargetRead:
        self.cached = tokens.tolist()
        texts = [self.cached[: end + 1] for end in range(len(self.cached))]
        return self._read(texts[-1:], texts if taps else [], taps)

    def score_tree(self, tree: DraftTree, *, taps: Taps = ()) -> TargetRead:
        self._tree = tree
        texts = [[*self.cached, *tree.tokens_on(tree.path_to(node))] for node in range(len(tree))]
        return self._read(texts, texts if taps else [], taps)

    def keep_path(self, path: Sequence[int]) -> None:
        assert self._tree is not None
        self.cached.extend(self._tree.tokens_on(path))

    def _read(self, texts: list[list[int]], tapped: list[list[int]], taps: Taps) -> TargetRead:
        features = [self._target.feature_after(text, taps) for text in tapped]
        return TargetRead(
            logits=torch.stack([self._target.logits_after(text) for text in texts]),
            features=torch.stack(features) if features else torch.zeros(len(texts), 0),
        )


class KnowingDrafter:
    """Drafts from a function of the text so far; perfect, hopeless or anything between."""

    max_positions: int | None = None

    def __init__(self, target: TableTarget, guess: Callable[[Sequence[int]], Tensor]) -> None:
        self._guess = guess
        self._vocab_size = target.spec.vocab_size
        self.taps: Taps = ()
        self._text: list[int] = []

    def begin(self, tokens: Tensor, read: TargetRead) -> None:
        self._text = tokens.tolist()

    def observe(self, taken: Acceptance, read: TargetRead) -> None:
        self._text.extend(taken.tokens)

    def grow_tree(self, root: int, *, plan: TreePlan, laws: LawMaker, chance: Chance) -> DraftTree:
        growth = Growth(root, plan=plan, laws=laws, chance=chance, vocab_size=self._vocab_size)
        while growth.frontier:
            texts = [
                [*self._text, *map(growth.token, growth.path(node))] for node in growth.frontier
            ]
            growth.add_level(torch.stack([self._guess(text) for text in texts]))
        return growth.finish()


def perfect_drafter(target: TableTarget) -> KnowingDrafter:
    return KnowingDrafter(target, target.logits_after)


def hopeless_drafter(target: TableTarget) -> KnowingDrafter:
    """Holds the target's least probable token for certain."""
    return KnowingDrafter(target, lambda text: -50.0 * target.logits_after(text))


def eagle_drafter(
    target: TableTarget, *, seed: int = 0, vocabulary: Tensor | None = None
) -> EagleDrafter:
    """The real drafter around a head of random weights."""
    spec = target.spec
    config = HeadConfig(
        width=spec.width,
        num_heads=2,
        num_kv_heads=1,
        head_dim=4,
        intermediate_size=12,
        vocab_size=spec.vocab_size,
        max_positions=spec.max_positions,
    )
    return EagleDrafter(
        _random_head(config, spec.dtype, seed),
        spec,
        embedding=target.embedding(),
        unembedding=target.unembedding(vocabulary),
        vocabulary=vocabulary,
    )


def eagle3_drafter(target: TableTarget, *, seed: int = 0) -> EagleDrafter:
    """The real drafter around an EAGLE-3 head of random weights over three states.

    It drafts all tokens but the last, in an order of its own.
    """
    spec = target.spec
    config = Eagle3Config(
        width=spec.width,
        num_heads=2,
        num_kv_heads=1,
        head_dim=4,
        intermediate_size=12,
        vocab_size=spec.vocab_size,
        max_positions=spec.max_positions,
        draft_vocab_size=spec.vocab_size - 1,
        feature_width=spec.width,
        taps=(0, 1, spec.num_layers - 1),
    )
    head = _random_eagle3_head(config, spec.dtype, seed)
    assert head.lm_head is not None
    return EagleDrafter(
        head,
        spec,
        embedding=target.embedding(),
        unembedding=head.lm_head,
        vocabulary=torch.arange(spec.vocab_size - 1).flip(0),
    )


@lru_cache(maxsize=8)
def _random_eagle3_head(config: Eagle3Config, dtype: torch.dtype, seed: int) -> Eagle3Head:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Eagle3Head(config).to(dtype)


@lru_cache(maxsize=8)
def _random_head(config: HeadConfig, dtype: torch.dtype, seed: int) -> EagleHead:
    """One head for all drafters of a proof: weights are read-only, and dear to make."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return EagleHead(config).to(dtype)


def open_decoding(
    target: TableTarget,
    options: RunOptions,
    chance: Chance | None = None,
    *,
    decode: Decode | None = None,
) -> Decoding:
    """A decoding like the product's, with another chance where one is given."""
    decoding = Decoding.open(target, options, decode=decode)
    return decoding if chance is None else replace(decoding, chance=chance)


Outcome = TypeVar("Outcome", bound=Hashable)


class EveryBranch:
    """A chance that follows a script of choices and notes where it could have gone otherwise."""

    def __init__(self, script: Sequence[int]) -> None:
        self._script = list(script)
        self._taken: list[int] = []
        self.prob = 1.0
        self.unexplored: list[list[int]] = []

    def uniform(self) -> float:
        return _Coin(self)

    def draw(self, law: Tensor, *, tokens: Tensor | None = None) -> int:
        assert law.sum() > 0, "a draw from a law without any mass"
        probs = (law / law.sum()).tolist()
        return self.fork({token: prob for token, prob in enumerate(probs) if prob > 0})

    def ahead(self, num_tokens: int) -> EveryBranch:
        return self

    def fork(self, options: dict[int, float]) -> int:
        position = len(self._taken)
        if position < len(self._script):
            choice = self._script[position]
        else:
            choice, *others = options
            self.unexplored.extend([*self._taken, other] for other in others)
        self._taken.append(choice)
        self.prob *= options[choice]
        return choice


class _Coin(float):
    """A uniform number that is not yet decided: comparing it takes both branches."""

    def __new__(cls, chance: EveryBranch) -> _Coin:
        coin = super().__new__(cls, 0.0)
        coin._chance = chance
        return coin

    _chance: EveryBranch

    def __lt__(self, threshold: float) -> bool:
        options = {1: threshold, 0: 1.0 - threshold}
        return bool(self._chance.fork({k: p for k, p in options.items() if p > 0}))

    def __le__(self, threshold: float) -> bool:
        raise AssertionError("a draw is compared with <: at probability 0 nothing is accepted")


class AlwaysZero:
    """The chance that tells `<` from `<=`: it accepts whatever has any probability at all."""

    def uniform(self) -> float:
        return 0.0

    def draw(self, law: Tensor, *, tokens: Tensor | None = None) -> int:
        return int(law.argmax())

    def ahead(self, num_tokens: int) -> AlwaysZero:
        return self


def enumerate_outcomes(play: Callable[[Chance], Outcome]) -> dict[Outcome, float]:
    """The exact law of what `play` returns, over every outcome of its chance."""
    law: dict[Outcome, float] = defaultdict(float)
    scripts: list[list[int]] = [[]]
    while scripts:
        chance = EveryBranch(scripts.pop())
        law[play(chance)] += chance.prob
        scripts.extend(chance.unexplored)
    return dict(law)


def total_variation(one: Law, other: Law) -> float:
    return sum(abs(one.get(key, 0.0) - other.get(key, 0.0)) for key in {*one, *other}) / 2


def all_texts(vocab_size: int, length: int) -> list[tuple[int, ...]]:
    return list(itertools.product(range(vocab_size), repeat=length))
