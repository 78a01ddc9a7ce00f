"""Load a target and its tokenizer from a folder or a hub id, quietly, or say why not.

Knows transformers' loaders and their complaints. Knows nothing of decoding.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import torch
from huggingface_hub.utils import logging as hub_logging
from huggingface_hub.utils.tqdm import enable_progress_bars
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase
from transformers.utils import logging

from eagle_core.errors import TargetError
from eagle_core.packed import pack_linears
from eagle_core.quantised import Quantisation, is_available, quantise
from eagle_core.targets import llama, probe
from eagle_core.targets.graphs import GraphTarget
from eagle_core.targets.hf import HfTarget
from eagle_core.targets.llama import LlamaTarget

DeviceMap = str | dict[str, str | int]


def load_target(
    source: Path | str,
    *,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
    quantisation: Quantisation | None = None,
    device_map: DeviceMap | None = None,
    path: Literal["fast", "graphs", "plain"] = "fast",
) -> HfTarget:
    """A probed target from `store.resolve`'s answer.

    Without a device CUDA if there is one; without a dtype bf16 on CUDA and fp32 elsewhere. A
    quantised target computes in bf16, on a CPU, whatever `dtype` says. A `device_map` is
    transformers': "auto", or where each part of the model goes; then `device` is of no effect.
    The plain path keeps the model's own layers, for who runs them himself; `graphs` is the fast
    one in passes of fixed shape, captured as CUDA graphs on a GPU. Raises TargetError in
    one sentence for what is no model or cannot be decoded in trees.
    """
    place = _place(device)
    if quantisation is not None:
        _check_quantisation(quantisation, place, device_map)
        dtype = torch.bfloat16
    if dtype is None:
        dtype = torch.bfloat16 if place.type == "cuda" else torch.float32
    with _plain_words(source), quiet_transformers():
        model: Any = AutoModelForCausalLM.from_pretrained(
            source, dtype=dtype, device_map=device_map, trust_remote_code=False
        )
        if device_map is None:
            model = model.to(place)
        if quantisation is not None:
            quantise(model, quantisation)
        end_token = load_tokenizer(source).eos_token_id
    end_tokens = frozenset() if end_token is None else frozenset({end_token})
    with _plain_words(source):
        is_fast = path != "plain" and llama.is_supported(model)
        if device_map is None and not is_fast:
            pack_linears(model.get_decoder())
        fast = GraphTarget if path == "graphs" else LlamaTarget
        make = fast if is_fast else HfTarget
        target = make(model, name=_name(source), end_tokens=end_tokens)
    with quiet_transformers():
        probe.check(target)
    if isinstance(target, LlamaTarget):
        target.release()
    return target


@lru_cache(maxsize=4)
def load_tokenizer(source: Path | str) -> PreTrainedTokenizerBase:
    """The tokenizer, with its chat template; raises TargetError in one sentence."""
    with _plain_words(source), quiet_transformers():
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            source, trust_remote_code=False
        )
    return tokenizer


@contextlib.contextmanager
def quiet_transformers() -> Iterator[None]:
    """Keep the loaders' advice and bars from the user; download bars and errors still show."""
    logs: tuple[Any, ...] = (logging, hub_logging)
    verbosities = [log.get_verbosity() for log in logs]
    had_bars = logs[0].is_progress_bar_enabled()
    for log in logs:
        log.set_verbosity_error()
    if had_bars:
        logs[0].disable_progress_bar()
        enable_progress_bars()  # the hub's, which the line above turns off too
    try:
        yield
    finally:
        for log, verbosity in zip(logs, verbosities, strict=True):
            log.set_verbosity(verbosity)
        if had_bars:
            logs[0].enable_progress_bar()


def _place(device: torch.device | str | None) -> torch.device:
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        place = torch.device(device)
    except RuntimeError as error:
        raise TargetError(f"device '{device}'", expected="cpu or cuda") from error
    if place.type == "cuda" and not torch.cuda.is_available():
        raise TargetError(f"device '{device}', but torch sees no CUDA", hint="--device cpu")
    return place


def _check_quantisation(
    quantisation: str, place: torch.device, device_map: DeviceMap | None
) -> None:
    if place.type != "cpu" or device_map is not None:
        where = "several devices" if device_map is not None else place.type
        raise TargetError(
            f"{quantisation} weights on {where}",
            expected=f"a CPU for {quantisation}",
            hint="--device cpu, or --dtype bfloat16",
        )
    if not is_available():
        raise TargetError(
            f"{quantisation} weights with PyTorch {torch.__version__}", expected="2.6 or newer"
        )


def _name(source: Path | str) -> str:
    return source.resolve().name if isinstance(source, Path) else source


@contextlib.contextmanager
def _plain_words(source: Path | str) -> Iterator[None]:
    """Say the loaders' many complaints, some of them pages long, in one sentence."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise TargetError(
            f"target {source} does not fit the device's memory", hint="a smaller one or --dtype"
        ) from error
    except (ImportError, KeyError, OSError, RuntimeError, SafetensorError, ValueError) as error:
        complaint = str(error).strip().split("\n")[0].split(". ")[0].rstrip(".:")
        raise TargetError(
            f"target {source} cannot be loaded: {complaint}",
            expected="a folder or hub id of a decoder-only transformers model",
        ) from error
