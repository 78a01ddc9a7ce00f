"""Where a head's files may lie, and whom a head may be loaded for."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from huggingface_hub.errors import LocalEntryNotFoundError
from published import DRAFTED, WRITERS, change_config, tiny_target, worst_difference
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models

from eagle_core.drafters import files
from eagle_core.drafters.heads import load_head
from eagle_core.errors import HeadError
from eagle_core.targets.base import TargetSpec
from eagle_core.workbench import head_folder

WEIGHTS, BIN = "model.safetensors", "pytorch_model.bin"


@pytest.fixture
def spec() -> TargetSpec:
    return tiny_target().spec


def pickled(folder: Path) -> None:
    torch.save(load_file(folder / WEIGHTS), folder / BIN)
    (folder / WEIGHTS).unlink()


def sharded(folder: Path) -> None:
    tensors = load_file(folder / WEIGHTS)
    names = sorted(tensors)
    shards = {"one.safetensors": names[::2], "two.safetensors": names[1::2]}
    for file, of_it in shards.items():
        save_file({name: tensors[name] for name in of_it}, folder / file)
    weight_map = {name: file for file, of_it in shards.items() for name in of_it}
    (folder / f"{WEIGHTS}.index.json").write_text(json.dumps({"weight_map": weight_map}))
    (folder / WEIGHTS).unlink()


def sharded_and_pickled(folder: Path) -> None:
    tensors = load_file(folder / WEIGHTS)
    torch.save(tensors, folder / "part-1.bin")
    weight_map = dict.fromkeys(tensors, "part-1.bin")
    (folder / f"{BIN}.index.json").write_text(json.dumps({"weight_map": weight_map}))
    (folder / WEIGHTS).unlink()


def under_a_prefix(folder: Path) -> None:
    tensors = load_file(folder / WEIGHTS)
    save_file({f"model.{name}": tensor for name, tensor in tensors.items()}, folder / WEIGHTS)


@pytest.mark.parametrize("layout", ["eagle", "eagle3"])
@pytest.mark.parametrize("rearranged", [pickled, sharded, sharded_and_pickled, under_a_prefix])
def test_weights_are_read_however_they_lie(tmp_path: Path, rearranged: object, layout: str) -> None:
    written = WRITERS[layout](tmp_path)
    before = files.fingerprint(tmp_path)
    rearranged(tmp_path)  # type: ignore[operator]
    loaded = load_head(tmp_path, spec=tiny_target().spec)
    assert worst_difference(tiny_target(), written, loaded) < 1e-5
    assert files.fingerprint(tmp_path) not in ("", before)


class Opener:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self._path,)


def test_a_pickle_that_would_run_something_is_refused_and_runs_nothing(
    tmp_path: Path, spec: TargetSpec
) -> None:
    WRITERS["eagle"](tmp_path)
    (tmp_path / WEIGHTS).unlink()
    torch.save({"fc.weight": Opener(tmp_path / "ran")}, tmp_path / BIN)
    with pytest.raises(HeadError, match=r"pytorch_model\.bin cannot be read \([^\n]*$"):
        load_head(tmp_path, spec=spec)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("shard", ["absent.safetensors", "../other.safetensors", "/etc/passwd"])
def test_a_shard_that_does_not_lie_beside_its_index_is_refused(
    tmp_path: Path, spec: TargetSpec, shard: str
) -> None:
    WRITERS["eagle"](tmp_path)
    (tmp_path / WEIGHTS).unlink()
    (tmp_path / f"{WEIGHTS}.index.json").write_text(json.dumps({"weight_map": {"fc": shard}}))
    with pytest.raises(HeadError, match=r"names the shard .*; expected files that lie beside it"):
        load_head(tmp_path, spec=spec)


def test_a_folder_without_weights_says_so(tmp_path: Path, spec: TargetSpec) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(HeadError, match=r"holds no model\.safetensors and no pytorch_model\.bin"):
        load_head(tmp_path, spec=spec)


# From the hub.


@pytest.mark.parametrize("is_pickled", [False, True])
def test_a_hub_id_is_fetched_and_its_pickle_only_where_there_is_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_pickled: bool
) -> None:
    WRITERS["eagle"](tmp_path)
    if is_pickled:
        pickled(tmp_path)
    (hidden,) = (path for path in tmp_path.iterdir() if path.name in (WEIGHTS, BIN))
    asked = []

    def snapshot(hub_id: str, allow_patterns: list[str]) -> str:
        asked.append(hub_id)
        is_allowed = any(Path(hidden.name).match(pattern) for pattern in allow_patterns)
        folder = tmp_path / f"snapshot-{len(asked)}"
        folder.mkdir()
        (folder / "config.json").write_bytes((tmp_path / "config.json").read_bytes())
        if is_allowed:
            (folder / hidden.name).write_bytes(hidden.read_bytes())
        return str(folder)

    monkeypatch.setattr(files, "snapshot_download", snapshot)
    folder = head_folder("someone/a-head", target=None)
    assert asked == ["someone/a-head"] * (2 if is_pickled else 1)
    assert load_head(folder, spec=tiny_target().spec).head.config.width == 24


def test_a_fetched_head_is_called_by_its_hub_id() -> None:
    folder = Path("hub") / "models--someone--a-head" / "snapshots" / "0a1b2c"
    assert files.name_of(folder) == "someone/a-head"
    assert files.name_of(Path("heads") / "eagle") == "eagle"


def test_a_hub_that_cannot_be_reached_is_said_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def snapshot(hub_id: str, allow_patterns: list[str]) -> str:
        raise LocalEntryNotFoundError("Cannot find the snapshot. And\nmuch more.")

    monkeypatch.setattr(files, "snapshot_download", snapshot)
    with pytest.raises(HeadError, match=r"^head a/b cannot be fetched \(Cannot[^\n]*; try [^\n]*$"):
        head_folder("a/b", target=None)


# For whom.


def test_a_head_that_declares_another_base_model_is_refused(
    tmp_path: Path, spec: TargetSpec
) -> None:
    WRITERS["eagle in speculators"](tmp_path)
    other = dataclasses.replace(spec, name="someone/larger")
    with pytest.raises(HeadError, match=r"made for other/Tiny; expected a head for someone/larger"):
        load_head(tmp_path, spec=other)
    for name in ("someone/tiny", "my-folder"):  # a copy of the declared one, and who knows what
        load_head(tmp_path, spec=dataclasses.replace(spec, name=name))


def tokenizer(folder: Path, **changes: int) -> dict[str, int]:
    vocabulary = {f"word{number}": number for number in range(41)} | changes
    Tokenizer(models.WordLevel(vocabulary, unk_token="word0")).save(str(folder / "tokenizer.json"))  # type: ignore[call-arg]
    return vocabulary


def test_a_head_whose_tokenizer_numbers_tokens_otherwise_is_refused(
    tmp_path: Path, spec: TargetSpec
) -> None:
    WRITERS["eagle"](tmp_path)
    of_target = tokenizer(tmp_path)
    load_head(tmp_path, spec=spec, tokenizer=of_target)
    load_head(tmp_path, spec=spec, tokenizer=of_target | {"<added>": 41})
    tokenizer(tmp_path, word7=8, word8=7)
    with pytest.raises(HeadError, match=r"where 'word8' is token 7; expected 8, as in the target"):
        load_head(tmp_path, spec=spec, tokenizer=of_target)
    with pytest.raises(HeadError, match="expected no such token"):
        load_head(tmp_path, spec=spec, tokenizer={"a": 0})
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(HeadError, match=r"tokenizer\.json cannot be read"):
        load_head(tmp_path, spec=spec, tokenizer=of_target)


def test_a_head_wider_or_narrower_than_its_target_needs_its_own_embedding(
    tmp_path: Path, spec: TargetSpec
) -> None:
    WRITERS["eagle3"](tmp_path)
    change_config(tmp_path, target_hidden_size=32)
    wider = dataclasses.replace(spec, width=32)
    with pytest.raises(HeadError, match=r"24 wide inside and brings no embed_tokens\.weight"):
        load_head(tmp_path, spec=wider)
    with pytest.raises(HeadError, match="width 32; expected 24"):
        load_head(tmp_path, spec=spec)
    tensors = load_file(tmp_path / WEIGHTS)
    tensors |= {"embed_tokens.weight": torch.ones(41, 24), "fc.weight": torch.ones(24, 96)}
    save_file(tensors, tmp_path / WEIGHTS)
    loaded = load_head(tmp_path, spec=wider)
    assert loaded.head.fuse(torch.zeros(2, 96)).shape == (2, 24)
    assert loaded.vocabulary is not None
    assert loaded.vocabulary.tolist() == DRAFTED
