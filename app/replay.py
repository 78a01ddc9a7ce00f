"""Recorded runs: the page lives without weights.

A recording is a trace saved by `python -m eagle_core generate --trace`; its file name is its title.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from eagle_core.errors import EagleError, TraceError
from eagle_core.trace import Trace
from eagle_core.trace_json import load_trace

FOLDER = Path(__file__).parent.parent / "assets" / "traces"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Recorded:
    """A run made earlier, on the machine that its trace names."""

    title: str
    trace: Trace


def load_recordings(folder: Path = FOLDER) -> Sequence[Recorded]:
    """All readable traces of a folder by file name; a damaged one is logged and left out."""
    recordings = []
    for path in sorted(folder.glob("*.json")):
        try:
            recordings.append(Recorded(_title(path), _read(path)))
        except (EagleError, OSError, UnicodeDecodeError) as error:
            log.warning("left out %s: %s", path.name, error)
    return tuple(recordings)


def _read(path: Path) -> Trace:
    trace = load_trace(path.read_text("utf-8"))
    methods = [lane.method for lane in trace.lanes]
    if sorted(methods) != ["eagle", "plain"]:
        raise TraceError(f"lanes {methods}", expected="one plain and one eagle")
    return trace


def _title(path: Path) -> str:
    """`02-write-code.json` is called "Write code"."""
    words = path.stem.lstrip("0123456789-_ ").replace("-", " ").replace("_", " ")
    return words[:1].upper() + words[1:]
