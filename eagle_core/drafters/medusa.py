"""Medusa: blocks that each guess one token further ahead, all from the newest true feature.

    feature i ─┬─ block 0 ─▶ law of token i+2
               ├─ block 1 ─▶ law of token i+3
               └─ …

A block is one residual layer of the feature's own width. The original gives each block an
unembedding of its own (Medusa, section 2.1.1); here the target's reads them all. No guess knows of
another, so every node of a level has the same law, and nothing is kept from step to step.

Knows tensors, features and trees. Knows nothing of the target that they come from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
import torch.nn.functional as F  # noqa: N812  its usual name
from torch import Tensor, nn

from eagle_core.drafters.growth import Growth
from eagle_core.errors import HeadError

if TYPE_CHECKING:
    from eagle_core.planning import Plan
    from eagle_core.sampling import Chance, LawMaker
    from eagle_core.targets.base import Taps, TargetRead, TargetSpec
    from eagle_core.tree import DraftTree
    from eagle_core.verify import Acceptance

NUM_BLOCKS = "medusa_num_heads"  # the key that tells a Medusa config
_KEYS = {
    "width": "hidden_size",
    "vocab_size": "vocab_size",
    "num_blocks": NUM_BLOCKS,
    "target": "base_model_name_or_path",
}
_FIXED = {"medusa_num_layers": 1, "shares_unembedding": True}
_WITHOUT_EFFECT = {"torch_dtype", "dtype", "transformers_version", "model_type"}


@dataclass(frozen=True, kw_only=True)
class MedusaConfig:
    """Sizes of a head; `to_json` and `from_json` speak Medusa's key names where there are any."""

    owns_embedding: ClassVar[bool] = False
    owns_unembedding: ClassVar[bool] = False
    max_positions: ClassVar[int | None] = None  # it sees no positions

    width: int  # D
    vocab_size: int  # V, the target's
    num_blocks: int
    target: str | None = None

    def __post_init__(self) -> None:
        for name in ("width", "vocab_size", "num_blocks"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise HeadError(f"a head with {name} {value!r}", expected="a whole number above 0")

    def to_json(self) -> dict[str, Any]:
        return {key: getattr(self, name) for name, key in _KEYS.items()} | _FIXED

    @classmethod
    def from_json(cls, config: Mapping[str, Any]) -> MedusaConfig:
        said = {key: value for key, value in config.items() if key not in _WITHOUT_EFFECT}
        fixed = {key: said.pop(key, None) for key in _FIXED}
        if fixed != _FIXED or set(said) != set(_KEYS.values()):
            raise HeadError(
                f"a Medusa config of the keys {', '.join(sorted(config))}",
                expected=", ".join([*_KEYS.values(), *(f"{k} = {v}" for k, v in _FIXED.items())]),
            )
        return cls(**{name: said[key] for name, key in _KEYS.items()})


class MedusaBlock(nn.Module):
    """x + SiLU(linear(x)); the identity until it is trained."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        return x + F.silu(self.linear(x))


class MedusaHead(nn.Module):
    """All blocks; block k makes of feature i what an unembedding reads as the law of i+2+k."""

    embed_tokens = None
    lm_head = None

    def __init__(self, config: MedusaConfig) -> None:
        super().__init__()
        self.config = config
        self.blocks = nn.ModuleList(MedusaBlock(config.width) for _ in range(config.num_blocks))

    def taps(self, num_layers: int) -> Taps:
        """The state after the final norm of a target of so many layers."""
        return (num_layers,)

    def readable(self, estimates: Tensor) -> Tensor:
        """What an unembedding reads, (R, D); here the estimates themselves."""
        return estimates


class MedusaDrafter:
    """One lane's drafter: shares the head's weights and remembers one feature.

    vocabulary: (V',) target ids in the order of `unembedding`'s rows, None for all V. Trees end
    where the blocks do.
    """

    def __init__(
        self,
        head: MedusaHead,
        spec: TargetSpec,
        *,
        unembedding: Callable[[Tensor], Tensor],
        vocabulary: Tensor | None = None,
    ) -> None:
        self._head = head
        self._spec = spec
        self._unembedding = unembedding
        self._vocabulary = vocabulary
        self._feature: Tensor | None = None  # (1, D), the newest

    @property
    def taps(self) -> Taps:
        return self._head.taps(self._spec.num_layers)

    @property
    def max_positions(self) -> int | None:
        return None

    def begin(self, tokens: Tensor, read: TargetRead) -> None:
        self._feature = read.features[-1:]

    def observe(self, taken: Acceptance, read: TargetRead) -> None:
        self._feature = read.features[taken.path[-1], None]

    def grow_tree(self, root: int, *, plan: Plan, laws: LawMaker, chance: Chance) -> DraftTree:
        growth = Growth(
            root,
            plan=plan,
            laws=laws,
            chance=chance,
            vocab_size=self._spec.vocab_size,
            vocabulary=self._vocabulary,
        )
        for block in self._head.blocks:
            if not growth.frontier:
                break
            growth.add_level(self._logits(block).expand(len(growth.frontier), -1))
        return growth.finish()

    @torch.inference_mode()
    def _logits(self, block: nn.Module) -> Tensor:
        """(1, V') in the order of `vocabulary`."""
        assert self._feature is not None, "begin comes before grow_tree"
        feature = self._feature.to(self._spec.device, self._spec.dtype)
        return self._unembedding(block(feature))
