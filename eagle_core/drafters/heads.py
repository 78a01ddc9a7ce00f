"""Heads on disk: EAGLE-1's published layout, in a folder.

    config.json                      sizes, under the published key names
    model.safetensors                weights, under the published parameter names
    draft_vocabulary.safetensors     optional: `tokens`, (V',) int32, all that it drafts

Knows files and heads. Knows nothing of drafting.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from eagle_core.drafters.head import EagleHead, HeadConfig
from eagle_core.errors import HeadError
from eagle_core.targets.base import TargetSpec

CONFIG, WEIGHTS, VOCABULARY = "config.json", "model.safetensors", "draft_vocabulary.safetensors"
MAX_FILE_BYTES = 10_000_000
TARGETS_OWN = frozenset({"embed_tokens.weight"})  # a frozen copy that published heads carry


@dataclass(frozen=True, eq=False)
class LoadedHead:
    """A head and the tokens it drafts."""

    head: EagleHead
    vocabulary: Tensor | None  # (V',) int64 sorted target ids, None for all V
    folder: Path


def save_head(
    folder: Path,
    head: EagleHead,
    *,
    vocabulary: Tensor | None = None,
    dtype: torch.dtype | None = None,
) -> torch.dtype:
    """Write the folder's files, each put in place whole; gives the dtype of the weights.

    Without `dtype` the half precision with the smaller largest error is taken.
    """
    weights = {name: weight.detach().cpu() for name, weight in head.state_dict().items()}
    chosen = dtype or closest_half(weights)
    stored = {name: weight.to(chosen).contiguous() for name, weight in weights.items()}
    num_bytes = sum(weight.nbytes for weight in stored.values())
    if num_bytes > MAX_FILE_BYTES:
        raise HeadError(f"a head of {num_bytes} bytes", expected=f"at most {MAX_FILE_BYTES}")
    folder.mkdir(parents=True, exist_ok=True)
    config = head.config.to_json() | {"torch_dtype": str(chosen).removeprefix("torch.")}
    _put_text(folder / CONFIG, json.dumps(config, indent=2) + "\n")
    _put_tensors(folder / WEIGHTS, stored)
    if vocabulary is not None:
        _put_tensors(folder / VOCABULARY, {"tokens": vocabulary.to("cpu", torch.int32)})
    return chosen


def closest_half(weights: dict[str, Tensor]) -> torch.dtype:
    """float16 or bfloat16, whichever changes these weights less."""

    def error(dtype: torch.dtype) -> float:
        worst = (float((w - w.to(dtype).to(w)).abs().max()) for w in weights.values())
        return max(worst, default=0.0)

    return min((torch.float16, torch.bfloat16), key=error)


def load_head(
    folder: Path,
    *,
    spec: TargetSpec,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
) -> LoadedHead:
    """Read a head that fits the target; raises HeadError in one sentence.

    dtype and device are the target's unless given.
    """
    config = HeadConfig.from_json(_read_config(folder))
    _check_fit(folder, config, spec)
    weights = _read_tensors(folder / WEIGHTS)
    # A config may keep silent about biases; the weights cannot.
    config = dataclasses.replace(
        config,
        fc_bias="fc.bias" in weights,
        qkv_bias="layers.0.self_attn.q_proj.bias" in weights,
    )
    with torch.device("meta"):
        head = EagleHead(config)
    _check_weights(folder, weights, head.state_dict())
    wanted = {
        name: weight.to(dtype=dtype or spec.dtype, device=device or spec.device)
        for name, weight in weights.items()
        if name not in TARGETS_OWN
    }
    head.load_state_dict(wanted, assign=True)
    head.eval().requires_grad_(False)
    return LoadedHead(head, _read_vocabulary(folder, spec), folder)


def _check_fit(folder: Path, config: HeadConfig, spec: TargetSpec) -> None:
    if config.width != spec.width:
        raise HeadError(
            f"head {folder.name} has width {config.width}",
            expected=f"{spec.width}, the width of target {spec.name}",
            hint="a head trained on this target",
        )
    if config.vocab_size != spec.vocab_size:
        raise HeadError(
            f"head {folder.name} has a vocabulary of {config.vocab_size} tokens",
            expected=f"{spec.vocab_size}, that of target {spec.name}",
            hint="a head trained on this target",
        )


def _check_weights(folder: Path, found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    missing = sorted(set(expected) - set(found))
    unexpected = sorted(set(found) - set(expected) - TARGETS_OWN)
    if missing or unexpected:
        parts = [f"lacks {', '.join(missing)}"] if missing else []
        parts += [f"also holds {', '.join(unexpected)}"] if unexpected else []
        raise HeadError(
            f"head {folder.name} {' and '.join(parts)}",
            expected=f"the tensors {', '.join(sorted(expected))}",
            hint="an EAGLE-1 or EAGLE-2 head",
        )
    for name, weight in expected.items():
        if found[name].shape != weight.shape:
            raise HeadError(
                f"{name} of head {folder.name} has shape {tuple(found[name].shape)}",
                expected=f"{tuple(weight.shape)}, as its config says",
            )


def _read_vocabulary(folder: Path, spec: TargetSpec) -> Tensor | None:
    path = folder / VOCABULARY
    if not path.exists():
        return None
    tensors = _read_tensors(path)
    if set(tensors) != {"tokens"} or tensors["tokens"].dim() != 1 or not len(tensors["tokens"]):
        raise HeadError(f"{path} holds {sorted(tensors)}", expected="`tokens`, a row of token ids")
    tokens = tensors["tokens"].to(torch.int64)
    if not bool((tokens[1:] > tokens[:-1]).all()):
        raise HeadError(f"{path} is not sorted", expected="ids that rise, each once")
    if int(tokens[0]) < 0 or int(tokens[-1]) >= spec.vocab_size:
        raise HeadError(
            f"{path} holds token ids from {int(tokens[0])} to {int(tokens[-1])}",
            expected=f"ids below {spec.vocab_size}, the vocabulary of target {spec.name}",
            hint="a head trained on this target",
        )
    return tokens.to(spec.device)


def _read_config(folder: Path) -> dict[str, object]:
    path = folder / CONFIG
    try:
        config = json.loads(path.read_text())
    except FileNotFoundError:
        raise HeadError(
            f"{folder} holds no {CONFIG}",
            expected="a head folder",
            hint="--head with such a folder",
        ) from None
    except (OSError, ValueError) as error:
        raise HeadError(f"{path} cannot be read ({error})") from None
    if not isinstance(config, dict):
        raise HeadError(f"{path} holds a {type(config).__name__}", expected="an object")
    return config


def _read_tensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except FileNotFoundError:
        raise HeadError(f"{path.parent} holds no {path.name}", expected="a head folder") from None
    except (OSError, SafetensorError) as error:
        raise HeadError(
            f"{path} cannot be read ({error})", hint="a fresh copy of the head"
        ) from None


def _put_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    staged = path.with_name(f".{path.name}.part")
    save_file(tensors, staged)
    staged.replace(path)


def _put_text(path: Path, text: str) -> None:
    staged = path.with_name(f".{path.name}.part")
    staged.write_text(text)
    staged.replace(path)
