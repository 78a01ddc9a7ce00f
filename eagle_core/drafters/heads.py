"""The front door of heads: a folder or a hub id in, a head that fits the target out.

Layouts are those of `layouts`; beside them our own EAGLE-1 heads may have

    draft_vocabulary.safetensors     `tokens`, (V',) int32 that rise: all that the head drafts

Knows files, heads and what a target says of itself. Knows nothing of drafting.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from eagle_core.drafters import files
from eagle_core.drafters.eagle3 import Eagle3Config, Eagle3Head
from eagle_core.drafters.exports import Layout, own_layout, write_out
from eagle_core.drafters.files import VOCABULARY
from eagle_core.drafters.fit import check_declared_target, check_sizes, check_tokenizer
from eagle_core.drafters.head import EagleHead
from eagle_core.drafters.layouts import (
    EMBEDDING,
    AnyConfig,
    Checkpoint,
    check_vocabulary,
    understand,
)
from eagle_core.drafters.medusa import MedusaConfig, MedusaHead
from eagle_core.drafters.small import SmallConfig, SmallModel
from eagle_core.errors import HeadError
from eagle_core.targets.base import Taps, TargetSpec

LayerHead = EagleHead | Eagle3Head | SmallModel
Head = LayerHead | MedusaHead
MAX_FILE_BYTES = 10_000_000
COPY_TOLERANCE = 0.01  # of the largest number; a copy in bfloat16 is off by half of that


@dataclass(frozen=True, eq=False)
class LoadedHead:
    """A head, the tokens it drafts, and the states of its target that it reads."""

    head: Head
    vocabulary: Tensor | None  # (V',) int64 target ids, None for all V
    folder: Path
    taps: Taps

    def embedding(self, of_target: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        """The head's own token embeddings, where it brings them; else the target's."""
        own = self.head.embed_tokens
        return of_target if own is None else own

    def unembedding(
        self, of_target: Callable[[Tensor | None], Callable[[Tensor], Tensor]]
    ) -> Callable[[Tensor], Tensor]:
        """What reads the head's estimates, (…, D) to (…, V'): its own rows, else the target's."""
        own = self.head.lm_head
        return of_target(self.vocabulary) if own is None else own


def load_head(
    folder: Path,
    *,
    spec: TargetSpec,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
    embedding: Callable[[Tensor], Tensor] | None = None,
    tokenizer: Mapping[str, int] | None = None,
) -> LoadedHead:
    """Read a head that fits the target; raises HeadError in one sentence.

    dtype and device are the target's unless given. `embedding` is the target's; a mere copy of it
    among the head's weights is left aside. `tokenizer` holds the target's tokens and their ids,
    which a tokenizer that lies beside the head must not contradict.
    """
    checkpoint = read_head(folder)
    name = files.name_of(folder)
    check_sizes(name, checkpoint.config, spec)
    check_declared_target(name, checkpoint.config, spec)
    check_tokenizer(folder, tokenizer)
    if embedding is not None and EMBEDDING in checkpoint.weights:
        every_token = torch.arange(spec.vocab_size, device=spec.device)
        checkpoint = _without_copy(checkpoint, embedding(every_token))
    head = _module(name, checkpoint)
    taps = head.taps(spec.num_layers)
    weights = {
        name: weight.to(dtype=dtype or spec.dtype, device=device or spec.device)
        for name, weight in checkpoint.weights.items()
    }
    head.load_state_dict(weights, assign=True)
    head.eval().requires_grad_(False)
    vocabulary = checkpoint.vocabulary
    return LoadedHead(
        head, None if vocabulary is None else vocabulary.to(spec.device), folder, taps
    )


def read_head(folder: Path) -> Checkpoint:
    """A head in our names, whatever layout it lies in; raises HeadError in one sentence."""
    config = files.read_config(folder)
    try:
        checkpoint = understand(files.read_weights(folder), config)
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        # A config may hold anything where an object, a list or a number belongs.
        raise HeadError(
            f"the config of head {files.name_of(folder)} cannot be understood ({error})",
            expected="that of an EAGLE-1, EAGLE-2, EAGLE-3 or Medusa head, or of a small Llama",
        ) from error
    if not (folder / VOCABULARY).exists():
        return checkpoint
    vocabulary = _read_vocabulary(folder, checkpoint.config.vocab_size)
    if checkpoint.vocabulary is not None or checkpoint.config.owns_unembedding:
        raise HeadError(
            f"head {files.name_of(folder)} has an unembedding of its own and {VOCABULARY}",
            expected="one of them",
        )
    return Checkpoint(checkpoint.config, checkpoint.weights, vocabulary)


def save_head(
    folder: Path,
    head: Head,
    *,
    vocabulary: Tensor | None = None,
    dtype: torch.dtype | None = None,
) -> torch.dtype:
    """Write the folder's files, each put in place whole; gives the dtype of the weights.

    Without `dtype` the half precision with the smaller largest error is taken. Weights that do not
    fit into one file of `MAX_FILE_BYTES` become shards.
    """
    weights = {name: weight.detach().cpu() for name, weight in head.state_dict().items()}
    chosen = dtype or closest_half(weights)
    stored = {name: weight.to(chosen) for name, weight in weights.items()}
    checkpoint = Checkpoint(head.config, stored, vocabulary)
    write_head(folder, checkpoint, layout=own_layout(head.config), max_file_bytes=MAX_FILE_BYTES)
    return chosen


def write_head(
    folder: Path, checkpoint: Checkpoint, *, layout: Layout, max_file_bytes: int = sys.maxsize
) -> None:
    """Write a head in a published layout, in the dtype of its weights."""
    tensors, config = write_out(checkpoint, layout)
    dtypes = {t.dtype for t in checkpoint.weights.values()}
    named = {str(dtype).removeprefix("torch.") for dtype in dtypes}
    folder.mkdir(parents=True, exist_ok=True)
    files.put_config(folder, config | ({"torch_dtype": named.pop()} if len(named) == 1 else {}))
    stored = {name: tensor.contiguous() for name, tensor in tensors.items()}
    files.put_weights(folder, stored, max_file_bytes=max_file_bytes)
    vocabulary = checkpoint.vocabulary
    if vocabulary is not None and not isinstance(checkpoint.config, Eagle3Config):
        files.put_tensors(folder / VOCABULARY, {"tokens": vocabulary.to("cpu", torch.int32)})


def closest_half(weights: dict[str, Tensor]) -> torch.dtype:
    """float16 or bfloat16, whichever changes these weights less."""

    def error(dtype: torch.dtype) -> float:
        worst = (float((w - w.to(dtype).to(w)).abs().max()) for w in weights.values())
        return max(worst, default=0.0)

    return min((torch.float16, torch.bfloat16), key=error)


def head_of(config: AnyConfig) -> Head:
    """The head of these sizes, its weights random."""
    if isinstance(config, MedusaConfig):
        return MedusaHead(config)
    if isinstance(config, SmallConfig):
        return SmallModel(config)
    return Eagle3Head(config) if isinstance(config, Eagle3Config) else EagleHead(config)


def _without_copy(checkpoint: Checkpoint, of_target: Tensor) -> Checkpoint:
    """Many heads carry the target's embeddings, (V, D), in the precision of their file."""
    own, config = checkpoint.weights[EMBEDDING], checkpoint.config
    if isinstance(config, MedusaConfig):  # has no place for one, as is said once it is built
        return checkpoint
    if of_target.shape != own.shape or not _is_close(own, of_target):
        return checkpoint
    rest = {name: weight for name, weight in checkpoint.weights.items() if name != EMBEDDING}
    return replace(checkpoint, config=replace(config, owns_embedding=False), weights=rest)


def _is_close(own: Tensor, other: Tensor) -> bool:
    other = other.to("cpu", torch.float32)
    distance = (own.float() - other).abs().max()
    return bool(distance <= COPY_TOLERANCE * other.abs().max())


def _module(called: str, checkpoint: Checkpoint) -> Head:
    """The head without its weights, which are checked to be all there and of its shapes."""
    config = checkpoint.config
    with torch.device("meta"):
        head = head_of(config)
    found, expected = checkpoint.weights, head.state_dict()
    missing, unexpected = sorted(set(expected) - set(found)), sorted(set(found) - set(expected))
    if missing or unexpected:
        parts = [f"lacks {', '.join(missing)}"] if missing else []
        parts += [f"also holds {', '.join(unexpected)}"] if unexpected else []
        raise HeadError(
            f"head {called} {' and '.join(parts)}",
            expected=f"the tensors {', '.join(sorted(expected))}",
            hint="an EAGLE-1, EAGLE-2 or EAGLE-3 head of one Llama layer, Medusa, or a small Llama",
        )
    for name, weight in expected.items():
        if found[name].shape != weight.shape:
            raise HeadError(
                f"{name} of head {called} has shape {tuple(found[name].shape)}",
                expected=f"{tuple(weight.shape)}, as its config says",
            )
    return head


def _read_vocabulary(folder: Path, vocab_size: int) -> Tensor:
    path = folder / VOCABULARY
    tensors = files.read_tensors(path)
    if set(tensors) != {"tokens"} or tensors["tokens"].dim() != 1 or not len(tensors["tokens"]):
        raise HeadError(f"{path} holds {sorted(tensors)}", expected="`tokens`, a row of token ids")
    tokens = tensors["tokens"].to(torch.int64)
    if not bool((tokens[1:] > tokens[:-1]).all()):
        raise HeadError(f"{path} is not sorted", expected="ids that rise, each once")
    check_vocabulary(tokens, vocab_size=vocab_size, where=str(path))
    return tokens
