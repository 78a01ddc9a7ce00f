"""Files of a head: fetched from the hub, read from a folder, put in place whole.

    config.json
    model.safetensors   │ model.safetensors.index.json and its shards
    pytorch_model.bin   │ pytorch_model.bin.index.json and its shards

Knows files and tensors by name. Knows nothing of what the names mean.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import re
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from eagle_core.errors import HeadError
from eagle_core.files import replacing

CONFIG, WEIGHTS, BIN = "config.json", "model.safetensors", "pytorch_model.bin"
VOCABULARY, TOKENIZER = "draft_vocabulary.safetensors", "tokenizer.json"
HEADER_BYTES = 20_000  # room for names and shapes in a file of tensors
HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_FETCHED = [CONFIG, VOCABULARY, TOKENIZER, "*.safetensors", "*.safetensors.index.json"]
_FETCHED_ELSE = ["pytorch_model*.bin", "pytorch_model.bin.index.json"]


def fetch(hub_id: str) -> Path:
    """The folder of a head on the hub, downloaded once; raises HeadError in one sentence.

    The pickled weights are only fetched where there are no others.
    """
    try:
        folder = Path(snapshot_download(hub_id, allow_patterns=_FETCHED))
        if not _weight_files(folder):
            folder = Path(snapshot_download(hub_id, allow_patterns=[CONFIG, *_FETCHED_ELSE]))
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        complaint = str(error).strip().split("\n")[0].split(". ")[0].rstrip(".:")
        raise HeadError(
            f"head {hub_id} cannot be fetched ({complaint})",
            expected="a head's folder or hub id",
            hint="--head with a folder, where the hub cannot be reached",
        ) from error
    return folder


def name_of(folder: Path) -> str:
    """How a person calls this head: its hub id where it was fetched, else its folder's name."""
    cached = folder.parent.parent.name  # models--owner--name, two levels above a snapshot
    if folder.parent.name == "snapshots" and cached.startswith("models--"):
        return cached.removeprefix("models--").replace("--", "/", 1)
    return folder.name


def read_config(folder: Path) -> dict[str, Any]:
    return _read_object(folder / CONFIG)


def read_weights(folder: Path) -> dict[str, Tensor]:
    """Every tensor of the folder's weights, on the CPU; raises HeadError in one sentence."""
    files = _weight_files(folder)
    if not files:
        raise HeadError(
            f"{folder} holds no {WEIGHTS} and no {BIN}", expected="a head's folder, with weights"
        )
    weights: dict[str, Tensor] = {}
    for path in files:
        weights |= _read_pickle(path) if path.suffix == ".bin" else read_tensors(path)
    return weights


def read_tensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except FileNotFoundError:
        raise HeadError(f"{path.parent} holds no {path.name}", expected="a head folder") from None
    except (OSError, SafetensorError) as error:
        raise HeadError(
            f"{path} cannot be read ({error})", hint="a fresh copy of the head"
        ) from None


def fingerprint(folder: Path) -> str:
    """Tells one set of head weights from another."""
    digest = hashlib.sha256()
    for path in _weight_files(folder):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def put_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    with replacing(path) as staged:
        save_file(tensors, staged)


def put_weights(folder: Path, tensors: dict[str, Tensor], *, max_file_bytes: int) -> None:
    """Write a head's weights as one file, or as shards and their index where they need several.

    Raises HeadError for a tensor that no file of that size can hold.
    """
    shards = _filled(tensors, max_file_bytes)
    index = folder / f"{WEIGHTS}.index.json"
    if len(shards) == 1:
        put_tensors(folder / WEIGHTS, tensors)
        index.unlink(missing_ok=True)
    else:
        names = [f"model-{i:05}-of-{len(shards):05}.safetensors" for i in range(1, len(shards) + 1)]
        for name, shard in zip(names, shards, strict=True):
            put_tensors(folder / name, shard)
        weight_map = {key: name for name, shard in zip(names, shards, strict=True) for key in shard}
        size = sum(tensor.nbytes for tensor in tensors.values())
        _put_object(index, {"metadata": {"total_size": size}, "weight_map": weight_map})
        (folder / WEIGHTS).unlink(missing_ok=True)
    kept = {path.name for path in _weight_files(folder)}
    for path in folder.glob("model-*-of-*.safetensors"):
        if path.name not in kept:
            path.unlink()


def _filled(tensors: dict[str, Tensor], max_file_bytes: int) -> list[dict[str, Tensor]]:
    """The tensors in their order, in as few files as that allows."""
    limit = max_file_bytes - HEADER_BYTES
    shards: list[dict[str, Tensor]] = [{}]
    room = limit
    for name, tensor in tensors.items():
        if tensor.nbytes > limit:
            raise HeadError(f"{name} of {tensor.nbytes} bytes", expected=f"at most {limit} a file")
        if tensor.nbytes > room:
            shards.append({})
            room = limit
        shards[-1][name] = tensor
        room -= tensor.nbytes
    return shards


def put_config(folder: Path, config: dict[str, Any]) -> None:
    _put_object(folder / CONFIG, config)


def _put_object(path: Path, content: dict[str, Any]) -> None:
    with replacing(path) as staged:
        staged.write_text(json.dumps(content, indent=2) + "\n")


def _weight_files(folder: Path) -> list[Path]:
    """All files of the first kind of weights that is there."""
    for name in (WEIGHTS, BIN):
        if (folder / name).is_file():
            return [folder / name]
        index = folder / f"{name}.index.json"
        if index.is_file():
            return _shards(index)
    return []


def _shards(index: Path) -> list[Path]:
    names: Iterable[Any] = (_read_object(index).get("weight_map") or {}).values()
    shards = sorted({str(name) for name in names})
    for shard in shards:
        if Path(shard).name != shard or not (index.parent / shard).is_file():
            raise HeadError(
                f"{index} names the shard {shard}",
                expected="files that lie beside it",
                hint="a fresh copy of the head",
            )
    return [index.parent / shard for shard in shards]


def _read_pickle(path: Path) -> dict[str, Tensor]:
    """A pickled state dict, read without running anything that may be in it."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, EOFError, RuntimeError, pickle.UnpicklingError, zipfile.BadZipFile) as error:
        complaint = str(error).split("\n")[0].split(". ")[0] or type(error).__name__
        raise HeadError(
            f"{path} cannot be read ({complaint})", hint="a fresh copy of the head"
        ) from None
    if not isinstance(state, dict) or not all(isinstance(t, Tensor) for t in state.values()):
        raise HeadError(f"{path} holds something else", expected="tensors by their names")
    return state


def _read_object(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise HeadError(
            f"{path.parent} holds no {path.name}",
            expected="a head folder",
            hint="--head with such a folder",
        ) from None
    except (OSError, ValueError) as error:
        raise HeadError(f"{path} cannot be read ({error})") from None
    if not isinstance(found, dict):
        raise HeadError(f"{path} holds a {type(found).__name__}", expected="an object")
    return found
