"""What is asked: questions, JSON lines with `turns` as MT-bench has them, and temperatures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from eagle_core.errors import OptionError


@dataclass(frozen=True)
class Question:
    """One question; only its first turn is asked."""

    name: str
    category: str
    prompt: str


def load_questions(path: Path, *, limit: int | None = None) -> tuple[Question, ...]:
    """Raises `OptionError` naming the line that is not a question."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")  # a text may hold other line ends
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(
            f"questions {path} cannot be read ({error})", hint="a .jsonl file of questions"
        ) from error
    questions = [_question(line, path, row) for row, line in enumerate(lines, 1) if line.strip()]
    if not questions:
        raise OptionError(f"no question in {path}", expected="one JSON object a line")
    return tuple(questions[:limit])


def spread(questions: Sequence[Question], count: int) -> tuple[Question, ...]:
    """`count` questions spread evenly over the set, so that every category is met."""
    if count >= len(questions):
        return tuple(questions)
    return tuple(questions[index * len(questions) // count] for index in range(count))


def read_temperatures(text: str) -> list[float]:
    """Numbers by commas, each once, the lowest first."""
    try:
        return sorted({float(each) for each in text.split(",")})
    except ValueError as error:
        raise OptionError(
            f"--temperatures {text!r:.40}", expected="numbers, by commas", hint="0,1"
        ) from error


def _question(line: str, path: Path, row: int) -> Question:
    try:
        data = json.loads(line)
        turns = data["turns"]
        name, category = data.get("question_id", row), data.get("category", "")
        return Question(name=str(name), category=str(category), prompt=_first(turns))
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise OptionError(
            f"line {row} of {path} is no question", expected='{"question_id": …, "turns": ["…"]}'
        ) from error


def _first(turns: object) -> str:
    if not isinstance(turns, list) or not isinstance(turns[0], str):
        raise TypeError(turns)
    return turns[0]
