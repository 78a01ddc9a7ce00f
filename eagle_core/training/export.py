"""Turn a run into a head folder with a card: weights, sizes, draft vocabulary, curve, figures.

Everything the record says is read from the run; nothing is typed by hand. Knows files and numbers.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from eagle_core.drafters.heads import Head, save_head
from eagle_core.errors import HeadError
from eagle_core.training.card import card
from eagle_core.training.evaluate import Alphas
from eagle_core.training.files import write_atomically

RECORD, REPLAYS, CARD = "training.json", "replay.json", "README.md"
ROW = re.compile(r'\{\s+"step"[^{}]*\}')


@dataclass(frozen=True)
class Provenance:
    """What a reader must know to trust, or repeat, a head."""

    target: str
    command: str
    began_with: dict[str, Any] | None  # the training record of an earlier head
    machine: str
    corpus: str  # its file name
    corpus_digest: str
    features_computed_in: str  # the dtype of the target's passes
    num_conversations: int  # trained on
    num_tokens: int  # in those conversations
    num_held_out: int  # conversations that validated it
    vocabulary_coverage: float  # share of answer tokens in the draft vocabulary
    about_corpus: str  # where its text comes from, a paragraph
    recipe: str | None = None  # the name of the one command that makes such a head


def export_head(
    folder: Path,
    head: Head,
    *,
    vocabulary: Tensor,
    alphas: Alphas,
    state: dict[str, Any],
    curve: list[dict[str, Any]],
    provenance: Provenance,
) -> None:
    """Write or replace the whole folder, file by file; `state` is the run's checkpoint.

    What other weights reached over question sets goes.
    """
    (folder / REPLAYS).unlink(missing_ok=True)
    dtype = save_head(folder, head, vocabulary=vocabulary)
    record = {
        **_of_the_head(head, dtype, vocabulary=vocabulary, provenance=provenance),
        **_of_the_run(state, provenance),
        "validation": {
            "alphas": [round(share, 4) for share in alphas.shares],
            "counted": list(alphas.counted),
            "chain_length": round(alphas.chain_length, 3),
        },
        "curve": curve,
    }
    text = as_text(record)
    write_atomically(folder / RECORD, lambda path: path.write_text(text))
    write_card(folder)


def write_card(folder: Path) -> None:
    """From the head's training record, and its figures over question sets where they are there.

    Raises `HeadError` where the folder has no sound record.
    """
    record, replays = _read(folder / RECORD), None
    if (folder / REPLAYS).exists():
        replays = _read(folder / REPLAYS)
    try:
        words = card(record, replays)
    except (KeyError, TypeError, ValueError) as error:
        raise HeadError(
            f"{folder} has a {RECORD} or {REPLAYS} without {error}", expected="what this writes"
        ) from error
    write_atomically(folder / CARD, lambda path: path.write_text(words))


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise HeadError(
            f"{path} cannot be read ({error})", expected="a head that was trained here"
        ) from error
    if not isinstance(found, dict):
        raise HeadError(f"{path} holds no object", expected="a head that was trained here")
    return found


def as_text(record: dict[str, Any]) -> str:
    """JSON, indented but for the rows of curves, which take one line each."""
    indented = json.dumps(record, indent=1) + "\n"
    return ROW.sub(lambda row: re.sub(r"\s*\n\s*", " ", row[0]), indented)


def _of_the_head(
    head: Head, dtype: torch.dtype, *, vocabulary: Tensor, provenance: Provenance
) -> dict[str, Any]:
    return {
        "target": provenance.target,
        "head": head.config.to_json(),
        "weights_dtype": str(dtype).removeprefix("torch."),
        "num_parameters": sum(weight.numel() for weight in head.parameters()),
        "draft_vocabulary": {
            "tokens": len(vocabulary),
            "coverage_of_answer_tokens": round(provenance.vocabulary_coverage, 4),
        },
    }


def _of_the_run(state: dict[str, Any], provenance: Provenance) -> dict[str, Any]:
    elsewhere = {"head", "corpus", "conversations", "draft_vocabulary"}
    settings = {k: v for k, v in state["fingerprint"].items() if k not in elsewhere}
    return {
        "recipe": provenance.recipe,
        "command": provenance.command,
        "began_with": provenance.began_with,
        "machine": provenance.machine,
        "corpus": {
            "file": provenance.corpus,
            "sha256_of_arrays": provenance.corpus_digest,
            "features_computed_in": provenance.features_computed_in,
            "conversations": provenance.num_conversations,
            "tokens": provenance.num_tokens,
            "held_out_conversations": provenance.num_held_out,
            "about": provenance.about_corpus,
        },
        "settings": settings,
        "progress": state["progress"],
    }
