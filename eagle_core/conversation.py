"""Conversations in files: a JSON list of turns with `role` and `content`, as chat APIs take it."""

from __future__ import annotations

import json
from pathlib import Path

from eagle_core.errors import PromptError
from eagle_core.text import as_conversation
from eagle_core.trace import Turn


def read_conversation(path: Path) -> tuple[Turn, ...]:
    """All turns of a file, up to an answer or a system's word; raises `PromptError`."""
    try:
        return turns_in(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise PromptError(f"messages {path} cannot be read ({error})") from error


def turns_in(text: str) -> tuple[Turn, ...]:
    """The turns of a JSON list; raises `PromptError` in one sentence."""
    try:
        read = [{"role": turn["role"], "content": turn["content"]} for turn in json.loads(text)]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise PromptError(
            f"a conversation that cannot be read ({error})"[:200],
            expected='a list of {"role": …, "content": …}',
        ) from error
    as_conversation([*read, {"role": "user", "content": "…"}])  # checks them all
    return tuple(Turn(**turn) for turn in read)
