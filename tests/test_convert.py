"""`convert`: a head into another layout, or one sentence why not."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from published import WRITERS

from eagle_core.cli import main
from eagle_core.drafters.heads import read_head


def test_a_head_is_written_in_the_layout_asked_for(tmp_path: Path) -> None:
    WRITERS["eagle3"](tmp_path)
    out = tmp_path / "out"
    assert main(["convert", str(tmp_path), "--layout", "speculators", "--to", str(out)]) == 0
    before, after = read_head(tmp_path), read_head(out)
    assert after.config == before.config
    assert all(torch.equal(after.weights[name], before.weights[name]) for name in before.weights)


def test_a_shipped_head_keeps_its_draft_vocabulary(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert main(["convert", "eagle", "--layout", "eagle", "--to", str(out)]) == 0
    vocabulary = read_head(out).vocabulary
    assert vocabulary is not None
    assert len(vocabulary) > 1000


@pytest.mark.parametrize(
    ("layout", "to", "said"),
    [
        ("medusa", "out", "layout medusa for an EAGLE-3 head; expected eagle3 or specforge or"),
        ("eagle", "out", "layout eagle for an EAGLE-3 head"),
        ("speculators", ".", "is there already; expected a new folder"),
        ("speculators", "config.json/out", "cannot be written (Not a directory)"),
    ],
)
def test_what_cannot_be_written_is_said_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], layout: str, to: str, said: str
) -> None:
    WRITERS["eagle3"](tmp_path)
    code = main(["convert", str(tmp_path), "--layout", layout, "--to", str(tmp_path / to)])
    error = capsys.readouterr().err
    assert code == 1
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert said in error
