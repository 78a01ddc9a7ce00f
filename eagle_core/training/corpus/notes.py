"""What stands beside a shard about how it was made.

    corpus-00000.npz          the conversations
    corpus-00000.note.json    origin (the same for all shards of a corpus), command, counts, shares

Knows files and JSON. Knows nothing of models or text.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from eagle_core.errors import CorpusError
from eagle_core.training.files import write_atomically


@dataclass(frozen=True)
class Origin:
    """All that decides what a corpus holds; shards of one corpus agree in everything."""

    target: str
    written_in: str  # the dtype of the target's passes
    tokenizer: str  # SHA-256 of its vocabulary
    seed: int
    prompts: str | None  # name and SHA-256 of the file of conversations
    answers: str  # to its questions: fixed or regenerated
    file_share: float  # of conversations begun by the file
    two_turn_share: float  # of the target's own conversations
    longest: int  # tokens of a conversation


@dataclass(frozen=True)
class Note:
    """One shard's note; shares are of its conversations."""

    origin: Origin
    command: str
    num_conversations: int
    num_tokens: int
    num_answer_tokens: int
    shares: dict[str, float]

    def save(self, shard: Path) -> None:
        text = json.dumps(asdict(self), indent=2) + "\n"
        write_atomically(note_of(shard), lambda path: path.write_text(text, "utf-8"))


def note_of(shard: Path) -> Path:
    return shard.with_suffix(".note.json")


def read_note(shard: Path) -> Note | None:
    """None where a shard has no note; raises CorpusError for one that cannot be read."""
    path = note_of(shard)
    try:
        record = json.loads(path.read_text("utf-8"))
        note: Note = _made(Note, {**record, "origin": _made(Origin, record["origin"])})
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise CorpusError(
            f"note {path.name} cannot be read ({error})", hint="a fresh copy of it"
        ) from None
    return note


def _made(kind: Any, record: dict[str, Any]) -> Any:
    """With the fields it has, so that a note may say more than this version asks for."""
    return kind(**{field.name: record[field.name] for field in fields(kind)})
