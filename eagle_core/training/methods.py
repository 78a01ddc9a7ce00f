"""Which head a run trains: made anew for a target, or made again from a checkpoint.

Knows the heads there are and what each is usually trained with. Knows nothing of runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from eagle_core.drafters.eagle3 import Eagle3Config, Eagle3Head, usual_taps
from eagle_core.drafters.head import EagleHead, HeadConfig, Inputs
from eagle_core.drafters.heads import Head, head_of
from eagle_core.drafters.medusa import NUM_BLOCKS, MedusaConfig, MedusaHead
from eagle_core.drafters.small import SmallConfig, SmallModel
from eagle_core.targets.base import Taps, Target, TargetSpec
from eagle_core.training.feature_store import FeatureStore

Method = Literal["eagle", "eagle3", "medusa", "small"]
METHODS: tuple[Method, ...] = get_args(Method)
USUAL: dict[Method, dict[str, Any]] = {
    "eagle": {"feature_weight": 1.0, "noise": "paper", "self_fed_steps": 0, "step_decay": 1.0},
    "eagle3": {"feature_weight": 0.0, "noise": "none", "self_fed_steps": 4, "step_decay": 0.8},
    "medusa": {"feature_weight": 0.0, "noise": "none", "self_fed_steps": 4, "step_decay": 0.8},
    "small": {"feature_weight": 0.0, "noise": "none", "self_fed_steps": 0, "step_decay": 1.0},
}
"""What a method is trained with where nobody says otherwise: as its paper has it."""

HEAD_DIM = 64
SCALE_TOKENS = 8192  # of the corpus, to see how large features are
RIDGE = 0.01  # of the mean square
DEVIATIONS_PER_MEDIAN = 1.4826  # of what a normal law gives, taken without its sign


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """What may be chosen about a head; the rest follows from its target."""

    kv_heads: int | None = None
    intermediate_size: int | None = None
    rope_theta: float = 10000.0
    max_positions: int = 2048
    inputs: Inputs = "feature+token"  # of an EAGLE-1 head
    taps: Taps | None = None  # of an EAGLE-3 head
    num_blocks: int = 5  # of a Medusa head
    num_layers: int = 2  # of a small model


def new_head(method: Method, sizes: Sizes, spec: TargetSpec, *, num_drafted: int) -> Head:
    """A head with random weights; an EAGLE-3 head drafts `num_drafted` tokens, V'."""
    if method == "medusa":
        return MedusaHead(
            MedusaConfig(
                width=spec.width,
                vocab_size=spec.vocab_size,
                num_blocks=sizes.num_blocks,
                target=spec.name,
            )
        )
    layer = _layer_sizes(sizes, spec)
    if method == "small":
        return SmallModel(SmallConfig(**layer, num_layers=sizes.num_layers))
    if method == "eagle":
        return EagleHead(HeadConfig(**layer, inputs=sizes.inputs))
    config = Eagle3Config(
        **layer,
        draft_vocab_size=num_drafted,
        feature_width=spec.width,
        taps=sizes.taps or usual_taps(spec.num_layers),
        norm_before_fc=True,
    )
    return Eagle3Head(config)


def states_for(method: Method, spec: TargetSpec) -> Taps:
    """What a new head of the method reads and is judged by, each state once."""
    read = usual_taps(spec.num_layers) if method == "eagle3" else ()
    return tuple(sorted({*read, spec.last_state}))


def head_again(config: Mapping[str, Any]) -> Head:
    """The head of a config that `to_json` made, its weights random."""
    if NUM_BLOCKS in config:
        return head_of(MedusaConfig.from_json(config))
    if SmallConfig.is_of(config):
        return head_of(SmallConfig.from_json(config))
    if "draft_vocab_size" in config:
        return head_of(Eagle3Config.from_json(config))
    return head_of(HeadConfig.from_json(config))


@torch.no_grad()
def fit_to_target(head: Head, target: Target, store: FeatureStore, vocabulary: Tensor) -> None:
    """Let an EAGLE-3 head begin near its target, as far as that is known without training.

    Its unembedding begins as the target's own rows, its last norm with the last state's columns.
    Each column of the tapped states comes to `fc` at the same size, where they differ by hundreds,
    and `fc` makes of them what comes nearest to the last state.
    """
    if not isinstance(head, Eagle3Head):
        return
    assert head.lm_head is not None, "a new head has rows of its own"
    assert head.input_norm is not None, "a new head norms what it taps"
    rows = slice(1, min(SCALE_TOKENS, store.num_tokens_done))
    tapped = store.rows(rows, taps=head.taps(target.spec.num_layers))
    typical = tapped.square().mean(1).sqrt().median()
    head.input_norm.weight.copy_(typical / _size_of_columns(tapped))
    last = store.rows(rows)
    head.norm.weight.copy_(_size_of_columns(last))
    head.fc.weight.copy_(_fitted(head.input_norm(tapped), last / head.norm.weight))
    read = target.unembedding(vocabulary.to(target.spec.device))
    ones = torch.eye(target.spec.width, device=target.spec.device, dtype=target.spec.dtype)
    head.lm_head.weight.copy_((read(ones) - read(torch.zeros_like(ones))).T)


def _fitted(read: Tensor, wanted: Tensor) -> Tensor:
    """The matrix, (D, K·D), that comes nearest from what is read to what is wanted; ridged."""
    squares = read.T @ read
    ridge = RIDGE * squares.diagonal().mean()
    squares.diagonal().add_(ridge)
    fitted: Tensor = torch.linalg.solve(squares, read.T @ wanted).T
    return fitted


def _size_of_columns(states: Tensor) -> Tensor:
    """The deviation of each column, by its median: a few tokens are hundreds of times larger."""
    return (states.abs().median(0).values * DEVIATIONS_PER_MEDIAN).clamp_min(1e-6)


def _layer_sizes(sizes: Sizes, spec: TargetSpec) -> dict[str, Any]:
    """The shape of one of the default target's own layers, for any width."""
    num_heads = max(spec.width // HEAD_DIM, 1)
    num_kv_heads = num_heads // 3 if num_heads % 3 == 0 else num_heads
    return {
        "width": spec.width,
        "num_heads": num_heads,
        "num_kv_heads": sizes.kv_heads or num_kv_heads,
        "head_dim": spec.width // num_heads,
        "intermediate_size": sizes.intermediate_size or -(-spec.width * 8 // 3 // 64) * 64,
        "vocab_size": spec.vocab_size,
        "rope_theta": sizes.rope_theta,
        "max_positions": min(sizes.max_positions, spec.max_positions),
        "target": spec.name,
    }
