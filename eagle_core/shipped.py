"""The heads that lie in the repository, by the target they were trained for. Knows folders."""

from __future__ import annotations

from pathlib import Path

HEADS = Path(__file__).resolve().parent.parent / "assets" / "heads"
DEFAULT_TARGET = "smollm2-135m-instruct"
DEFAULT_HEAD = "eagle"


def shipped_heads(target: str | None, *, folder: Path = HEADS) -> tuple[str, ...]:
    """Names of the heads shipped for a target, the default one first."""
    found = {
        path.parent.name for path in (folder / (target or DEFAULT_TARGET)).glob("*/config.json")
    }
    return tuple(sorted(found, key=lambda name: (name != DEFAULT_HEAD, name)))
