"""Files of conversations, and the turns they hold.

    {"messages":      [{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}]}
    {"conversations": [{"from": "human", "value": "…"},  {"from": "gpt", "value": "…"}]}

One JSON object a line, or all of them in one JSON array. Knows these forms. Knows nothing of
tokens.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eagle_core.errors import CorpusError

ROLES = {
    "system": "system",
    **dict.fromkeys(("user", "human"), "user"),
    **dict.fromkeys(("assistant", "gpt", "chatgpt", "bot", "model"), "assistant"),
}
FORMS = (("messages", "role", "content"), ("conversations", "from", "value"))
EXPECTED = 'an object with "messages" (role, content) or "conversations" (from, value)'


@dataclass(frozen=True)
class Talk:
    """Turns of one conversation, in order; the last question may be unanswered."""

    system: str | None
    questions: tuple[str, ...]
    answers: tuple[str, ...]


@dataclass(frozen=True)
class TalkFile:
    """A file that has been read to its end."""

    name: str  # its own name and the SHA-256 of its bytes
    talks: tuple[Talk, ...]


def read_talks(path: Path) -> TalkFile:
    """All conversations that hold a question; raises CorpusError, naming the line, for the rest.

    What a chat begins with before the first question is left out, but for the system's words; a
    chat is cut before the first turn that is out of turn.
    """
    try:
        raw = path.read_bytes()
        text = raw.decode("utf-8-sig")
    except OSError as error:
        raise CorpusError(f"{path} cannot be read ({error.strerror or error})") from None
    except UnicodeDecodeError as error:
        raise CorpusError(f"{path} is not UTF-8 text (byte {error.start})") from None
    talks = tuple(
        talk
        for where, record in _records(path, text)
        if (talk := _talk(_turns(record, f"{where} of {path.name}"))).questions
    )
    if not talks:
        raise CorpusError(f"{path} holds no conversation with a user's turn", expected=EXPECTED)
    return TalkFile(f"{path.name} {hashlib.sha256(raw).hexdigest()}", talks)


def _records(path: Path, text: str) -> Iterator[tuple[str, Any]]:
    """Each record with the words for where it stands."""
    if text.lstrip().startswith("["):
        for number, record in enumerate(_parsed(text, str(path)), 1):
            yield f"record {number}", record
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield f"line {number}", _parsed(line, f"line {number} of {path}")


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise CorpusError(f"{where} is not JSON ({error})", expected=EXPECTED) from None


def _turns(record: Any, where: str) -> list[tuple[str | None, str]]:
    """Role and text of every turn; a role that is none of ours becomes None."""
    named = record if isinstance(record, dict) else {}
    form = next((form for form in FORMS if form[0] in named), None)
    if form is None:
        raise CorpusError(f"{where} is no conversation", expected=EXPECTED)
    turns, role, content = form
    try:
        pairs = [(ROLES.get(str(turn[role])), turn[content]) for turn in named[turns]]
    except (KeyError, TypeError):
        raise CorpusError(
            f"{where} has a turn without {role} or {content}", expected=EXPECTED
        ) from None
    if any(not isinstance(text, str) for _, text in pairs):
        raise CorpusError(f"{where} has a turn whose {content} is not text", expected=EXPECTED)
    return pairs


def _talk(turns: list[tuple[str | None, str]]) -> Talk:
    system = next((text.strip() for role, text in turns[:1] if role == "system"), None)
    roles = [role for role, _ in turns]
    first = roles.index("user") if "user" in roles else len(turns)
    texts = []
    for (role, text), expected in zip(turns[first:], _alternating(), strict=False):
        if role != expected or not text.strip():
            break
        texts.append(text.strip())
    return Talk(system or None, tuple(texts[::2]), tuple(texts[1::2]))


def _alternating() -> Iterator[str]:
    while True:
        yield "user"
        yield "assistant"
