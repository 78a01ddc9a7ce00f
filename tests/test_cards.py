"""Cards: each says what lies beside it, and nothing that was typed by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eagle_core.training.__main__ import main

HEADS = Path(__file__).parents[1] / "assets" / "heads"
SHIPPED = sorted(path.parent for path in HEADS.glob("*/*/training.json"))


def copied(head: Path, folder: Path) -> Path:
    """The files that a card is made from."""
    for name in ("training.json", "replay.json"):
        if (head / name).exists():
            (folder / name).write_text((head / name).read_text())
    return folder


@pytest.mark.parametrize("head", SHIPPED, ids=lambda head: head.name)
def test_a_shipped_card_is_what_its_files_say(head: Path, tmp_path: Path) -> None:
    assert main(["card", str(copied(head, tmp_path))]) == 0
    assert (tmp_path / "README.md").read_text() == (head / "README.md").read_text()


def replays(*rows: tuple[str, float]) -> dict[str, Any]:
    told = [
        {
            "questions": questions,
            "temperature": temperature,
            "num_questions": 4,
            "num_tokens": 96,
            "plans": {"chain:5": {"tau": [1.25, 1.1, 1.4]}, "tree:25": {"tau": [2.5, 2.25, 3.0]}},
            "alphas": [[0.5, 0.25, 0.75], [0.125, 0.1, 0.15]][: 1 + (temperature == 0)],
        }
        for questions, temperature in rows
    ]
    return {"target": "toy", "head": "eagle", "dtype": "float32", "replays": told}


def test_figures_over_questions_stand_in_the_card(tmp_path: Path) -> None:
    folder = copied(SHIPPED[0], tmp_path)
    (folder / "replay.json").write_text(json.dumps(replays(("sums", 0.0), ("tales", 1.0))))
    assert main(["card", str(folder)]) == 0
    lines = (folder / "README.md").read_text().split("\n")
    assert "| questions | T | answers | τ, `chain:5` | τ, `tree:25` |" in lines
    assert "| sums | 0 | 4 | 1.25 [1.10, 1.40] | 2.50 [2.25, 3.00] |" in lines
    assert "| sums | 0 | 4 | 0.500 [0.250, 0.750] | 0.125 [0.100, 0.150] |" in lines
    assert "| tales | 1 | 4 | 0.500 [0.250, 0.750] |  |" in lines


@pytest.mark.parametrize("name", ["training.json", "replay.json"])
@pytest.mark.parametrize("text", ["", "[]", "{}", '{"replays": 3}'])
def test_a_damaged_record_ends_in_one_sentence_and_leaves_the_card(
    name: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = copied(SHIPPED[0], tmp_path)
    (folder / "README.md").write_text("as it was")
    (folder / name).write_text(text)
    assert main(["card", str(folder)]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert name in error
    assert (folder / "README.md").read_text() == "as it was"


def test_a_folder_without_a_record_ends_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["card", str(tmp_path)]) == 1
    assert "expected a head that was trained here" in capsys.readouterr().err


def test_the_input_variants_shipped_differ_in_nothing_else_and_order_as_the_paper_has_them() -> (
    None
):
    names = ("feature-and-token", "feature-and-unshifted", "feature", "token")
    folder = HEADS / "smollm2-135m-instruct"
    records = [
        json.loads((folder / f"inputs-{name}" / "training.json").read_text()) for name in names
    ]
    assert all(record["settings"] == records[0]["settings"] for record in records)
    assert all(record["corpus"] == records[0]["corpus"] for record in records)
    lengths = [record["validation"]["chain_length"] for record in records]
    assert lengths == sorted(lengths, reverse=True)
