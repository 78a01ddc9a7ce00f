"""Heads of the repository by the target they were trained for."""

from __future__ import annotations

from pathlib import Path

from eagle_core.shipped import DEFAULT_HEAD, shipped_heads


def test_the_default_head_comes_first_and_folders_without_a_head_are_none(tmp_path: Path) -> None:
    for name in ("a-head", DEFAULT_HEAD, "notes"):
        (tmp_path / "target" / name).mkdir(parents=True)
    for name in ("a-head", DEFAULT_HEAD):
        (tmp_path / "target" / name / "config.json").write_text("{}")
    assert shipped_heads("target", folder=tmp_path) == (DEFAULT_HEAD, "a-head")
    assert shipped_heads("nobody", folder=tmp_path) == ()


def test_the_default_target_has_its_head() -> None:
    assert shipped_heads(None)[0] == DEFAULT_HEAD
