"""Head folders: what is written is read back, and what does not fit is refused in plain words."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from eagle_core.drafters import heads
from eagle_core.drafters.files import HEADER_BYTES, VOCABULARY, WEIGHTS
from eagle_core.drafters.head import EagleHead, HeadConfig
from eagle_core.drafters.heads import load_head, save_head
from eagle_core.errors import HeadError
from eagle_core.targets.base import TargetSpec

SPEC = TargetSpec(
    name="toy",
    vocab_size=50,
    width=24,
    num_layers=2,
    max_positions=64,
    end_tokens=frozenset({0}),
    dtype=torch.float32,
    device=torch.device("cpu"),
)
CONFIG = HeadConfig(
    width=24,
    num_heads=4,
    num_kv_heads=2,
    head_dim=6,
    intermediate_size=40,
    vocab_size=50,
    max_positions=64,
    target="toy",
)
TOKENS = torch.tensor([1, 5, 7, 49])


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    save_head(tmp_path, EagleHead(CONFIG), vocabulary=TOKENS, dtype=torch.float16)
    return tmp_path


def change_config(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_head_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    head = EagleHead(CONFIG)
    save_head(tmp_path, head, vocabulary=TOKENS, dtype=torch.float32)
    loaded = load_head(tmp_path, spec=SPEC)
    assert loaded.head.config == CONFIG
    assert loaded.vocabulary is not None
    assert torch.equal(loaded.vocabulary, TOKENS)
    for name, weight in head.state_dict().items():
        assert torch.equal(loaded.head.state_dict()[name], weight)


def test_half_precision_on_disk_becomes_the_targets_dtype(saved: Path) -> None:
    assert load_file(saved / WEIGHTS)["fc.weight"].dtype == torch.float16
    loaded = load_head(saved, spec=SPEC)
    assert {weight.dtype for weight in loaded.head.parameters()} == {torch.float32}
    other = load_head(saved, spec=SPEC, dtype=torch.float64)
    assert {weight.dtype for weight in other.head.parameters()} == {torch.float64}


def test_the_half_precision_with_the_smaller_error_is_taken(tmp_path: Path) -> None:
    head = EagleHead(CONFIG)
    assert save_head(tmp_path, head) == torch.float16
    with torch.no_grad():
        head.fc.weight[0, 0] = 1e6  # beyond float16
    assert save_head(tmp_path, head) == torch.bfloat16


def test_biases_are_taken_from_the_weights_and_not_from_the_config(tmp_path: Path) -> None:
    save_head(tmp_path, EagleHead(dataclasses.replace(CONFIG, qkv_bias=True)))
    change_config(tmp_path, bias=False, qkv_bias=False)
    config = load_head(tmp_path, spec=SPEC).head.config
    assert config.fc_bias
    assert config.qkv_bias


def test_a_copy_of_the_targets_embedding_is_left_aside_and_another_embedding_is_kept(
    saved: Path,
) -> None:
    of_target = torch.randn(50, 24, generator=torch.Generator().manual_seed(1))
    for own, is_kept in ((of_target.bfloat16(), False), (of_target + 0.1, True)):
        save_file(load_file(saved / WEIGHTS) | {"embed_tokens.weight": own}, saved / WEIGHTS)
        loaded = load_head(saved, spec=SPEC, embedding=lambda tokens: of_target[tokens])
        assert loaded.head.config.owns_embedding is is_kept
        used = loaded.embedding(lambda tokens: of_target[tokens])(torch.tensor([3]))
        torch.testing.assert_close(used[0], own[3] if is_kept else of_target[3])


def test_a_head_without_a_draft_vocabulary_drafts_every_token(saved: Path) -> None:
    (saved / VOCABULARY).unlink()
    assert load_head(saved, spec=SPEC).vocabulary is None


def test_a_head_of_another_width_or_vocabulary_is_refused(saved: Path) -> None:
    wider = dataclasses.replace(SPEC, width=32)
    with pytest.raises(HeadError, match=r"width 24; expected 32.*; try a head trained"):
        load_head(saved, spec=wider)
    larger = dataclasses.replace(SPEC, vocab_size=60)
    with pytest.raises(HeadError, match=r"vocabulary of 50 tokens; expected 60.*; try"):
        load_head(saved, spec=larger)


def test_missing_unexpected_and_misshapen_tensors_are_named(saved: Path) -> None:
    tensors = load_file(saved / WEIGHTS)
    norm = "layers.0.post_attention_layernorm.weight"
    save_file({n: t for n, t in tensors.items() if n != norm}, saved / WEIGHTS)
    with pytest.raises(HeadError, match=f"lacks {norm}"):
        load_head(saved, spec=SPEC)
    save_file(tensors | {"layers.0.input_layernorm.weight": torch.ones(24)}, saved / WEIGHTS)
    with pytest.raises(HeadError, match=r"also holds layers\.0\.input_layernorm\.weight"):
        load_head(saved, spec=SPEC)
    save_file(tensors | {norm: torch.ones(23)}, saved / WEIGHTS)
    with pytest.raises(HeadError, match=rf"{norm} .* shape \(23,\); expected \(24,\)"):
        load_head(saved, spec=SPEC)


@pytest.mark.parametrize(
    ("tokens", "said"),
    [([3, 2], "not sorted"), ([2, 2], "not sorted"), ([2, 50], "expected ids below 50")],
)
def test_a_draft_vocabulary_that_does_not_fit_is_refused(
    saved: Path, tokens: list[int], said: str
) -> None:
    save_file({"tokens": torch.tensor(tokens, dtype=torch.int32)}, saved / VOCABULARY)
    with pytest.raises(HeadError, match=said):
        load_head(saved, spec=SPEC)


@pytest.mark.parametrize("name", ["config.json", WEIGHTS])
def test_an_absent_or_truncated_file_ends_in_one_sentence(saved: Path, name: str) -> None:
    path = saved / name
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(HeadError, match="cannot be read"):
        load_head(saved, spec=SPEC)
    path.unlink()
    with pytest.raises(HeadError, match=f"holds no {name}"):
        load_head(saved, spec=SPEC)


def test_a_head_beyond_the_size_of_a_file_becomes_shards_and_may_shrink_again(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heads, "MAX_FILE_BYTES", HEADER_BYTES + 5000)
    head = EagleHead(CONFIG)
    save_head(saved, head, dtype=torch.float32)
    shards = sorted(saved.glob("model*.safetensors"))
    assert len(shards) > 2
    assert all(shard.stat().st_size <= HEADER_BYTES + 5000 for shard in shards)
    for name, weight in load_head(saved, spec=SPEC).head.state_dict().items():
        assert torch.equal(weight, head.state_dict()[name])
    monkeypatch.undo()
    save_head(saved, head, dtype=torch.float32)
    assert [path.name for path in saved.glob("model*")] == [WEIGHTS]


def test_a_tensor_beyond_the_size_of_a_file_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heads, "MAX_FILE_BYTES", HEADER_BYTES + 2000)
    with pytest.raises(HeadError, match=r"fc\.weight of 2304 bytes; expected at most 2000"):
        save_head(tmp_path, EagleHead(CONFIG), dtype=torch.float16)


def test_every_file_of_a_head_may_be_read_by_whom_a_new_file_may(saved: Path) -> None:
    (plain := saved / "plain").touch()
    assert {file.stat().st_mode for file in saved.iterdir()} == {plain.stat().st_mode}
