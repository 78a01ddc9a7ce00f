"""What the server tells the viewer: one compact JSON string per message.

    {"v": 1, "kind": "start",  "run": …, "seq": 0, "prompt": …, "earlier": […], "settings": …, …}
    {"v": 1, "kind": "events", "run": …, "seq": 1, "events": [{"lane": "plain", …}], "pieces": {…}}
    {"v": 1, "kind": "end",    "run": …, "seq": 9, "stopped": false, "text": …, "trace": {…}}
    {"v": 1, "kind": "error",  "run": …, "text": …}
    {"v": 1, "kind": "trace",  "run": …, "label": …, "text": …, "opening": false, "trace": {…}}
    {"v": 1, "kind": "status", "about": "run" or "model", "phase": …, "text": …, "fraction": …}

Events and traces have the form of `eagle_core.trace_json`; what steps dropped is in traces alone.
The end message carries the whole trace, so a viewer that missed something is whole again after it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal, NamedTuple

from eagle_core.trace import Environment, Event, Settings, Trace, Turn
from eagle_core.trace_json import event_to_json, settings_to_json, trace_to_json

VERSION = 1
Tone = Literal["info", "busy", "done", "error"]


class LaneEvent(NamedTuple):
    """An event of one lane, with the text of each token it committed."""

    lane: str
    event: Event
    texts: Sequence[str]


def start(
    run: str,
    *,
    prompt: str,
    earlier: Sequence[Turn],
    settings: Settings,
    environment: Environment,
) -> str:
    return _message(
        "start",
        run=run,
        seq=0,
        prompt=prompt,
        earlier=[asdict(turn) for turn in earlier],
        settings=settings_to_json(settings),
        environment=asdict(environment),
    )


def events(run: str, seq: int, *, happened: Iterable[LaneEvent], pieces: Mapping[int, str]) -> str:
    """What happened since the last message, in order, and the pieces of tokens not seen before."""
    return _message(
        "events",
        run=run,
        seq=seq,
        events=[{"lane": lane, **event_to_json(event, texts)} for lane, event, texts in happened],
        pieces={str(token): piece for token, piece in pieces.items()},
    )


def end(run: str, seq: int, *, trace: Trace, stopped: bool, text: str) -> str:
    return _message("end", run=run, seq=seq, stopped=stopped, text=text, trace=trace_to_json(trace))


def error(run: str | None, text: str) -> str:
    return _message("error", run=run, text=text)


def recording(
    run: str,
    *,
    trace: Trace,
    label: str,
    text: str,
    tone: Tone,
    fraction: float | None = None,
    opening: bool = False,
) -> str:
    """A recorded trace to look at while no run is under way; `text` goes to the status line.

    One that comes with the `opening` of the page gives way to what the visitor had there before.
    """
    return _message(
        "trace",
        run=run,
        recording=run,
        opening=opening,
        label=label,
        text=text,
        tone=tone,
        fraction=fraction,
        trace=trace_to_json(trace),
    )


def status(
    text: str,
    *,
    about: Literal["run", "model"],
    phase: Literal["waiting", "idle"] | None = None,
    tone: Tone = "info",
    fraction: float | None = None,
) -> str:
    """A line for the status region; `phase` changes what the page waits for."""
    return _message("status", about=about, phase=phase, text=text, tone=tone, fraction=fraction)


def _message(kind: str, **content: Any) -> str:
    """As JSON in which "<" is escaped, so that no reader can take a text in it for markup."""
    data = {"v": VERSION, "kind": kind, **content}
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")
