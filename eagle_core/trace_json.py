"""Traces as JSON, column by column, and back.

The same form travels to the browser a step at a time and lies in saved files. Reading trusts
nothing: a damaged or hostile file ends in a `TraceError`, never in another exception.

    step = {"tokens": [5, 7, 9], "parents": [null, 0, 0], "verdicts": "oax",
            "draft": [null, 0.61, 0.2], "target": […], "accept": […], "draw": […],
            "path": [0, 1], "bonus": 11, "text": [" a", " b"], "stop": null, "notice": null,
            "draft_ms": 4.1, "verify_ms": 60.2, "commit_ms": 0.8}
    prefill = {"prompt_tokens": 31, "token": 5, "text": ["The"], "prefill_ms": 180.0, "stop": null}

A verdict is one letter: o root, a accepted, x refused, - not reached. A step may also have the tops
of both laws at nodes of its path, "draft" null where only the children are known:

    "laws": [{"node": 0, "target": [[7, 9], [0.7, 0.2]], "draft": null}]

A saved step, but not one on its way to the browser, may have what was drafted and not kept,
numbered on from the step's nodes; settings tell of it by "record_dropped", there only if true:

    "dropped": {"tokens": [4, 6], "parents": [1, 3], "draft": [0.1, 0.5], "values": [0.06, 0.03],
                "least_kept": 0.2}

Version 2 brought more settings, version 3 the conversation before the prompt.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from typing import Any

from eagle_core import reading
from eagle_core.citation import CITATION
from eagle_core.errors import TraceError
from eagle_core.reading import Record
from eagle_core.trace import (
    TRACE_VERSION,
    Candidate,
    Dropped,
    Environment,
    Event,
    Lane,
    Node,
    NodeLaws,
    Prefill,
    Settings,
    Step,
    StopReason,
    TopLaw,
    Trace,
    Turn,
    Verdict,
)

Json = dict[str, Any]

LETTERS = {
    Verdict.ROOT: "o",
    Verdict.ACCEPTED: "a",
    Verdict.REFUSED: "x",
    Verdict.NOT_REACHED: "-",
}
VERDICTS = {letter: verdict for verdict, letter in LETTERS.items()}

READABLE_VERSIONS = (1, 2, TRACE_VERSION)
MAX_EVENTS = 100_000
MAX_NODES = 4_096
MAX_BYTES = 64 * 1024 * 1024
MAX_TOKEN_DIGITS = 10
MAX_TOP = 64
SIGNIFICANT_DIGITS = 5
LAW_DECIMALS = 3


def event_to_json(event: Event, texts: Sequence[str]) -> Json:
    """One event of a lane, with the text of each token it committed, without what it dropped."""
    stop = None if event.stop is None else event.stop.value
    if isinstance(event, Prefill):
        return {
            "prompt_tokens": event.num_prompt_tokens,
            "token": event.token,
            "text": list(texts),
            "prefill_ms": _rounded(event.prefill_ms),
            "stop": stop,
        }
    step = {
        "tokens": [node.token for node in event.nodes],
        "parents": [node.parent for node in event.nodes],
        "verdicts": "".join(LETTERS[node.verdict] for node in event.nodes),
        "draft": [_rounded(node.draft_prob) for node in event.nodes],
        "target": [_rounded(node.target_prob) for node in event.nodes],
        "accept": [_rounded(node.accept_prob) for node in event.nodes],
        "draw": [_rounded(node.draw) for node in event.nodes],
        "path": list(event.path),
        "bonus": event.bonus,
        "text": list(texts),
        "draft_ms": _rounded(event.draft_ms),
        "verify_ms": _rounded(event.verify_ms),
        "commit_ms": _rounded(event.commit_ms),
        "stop": stop,
        "notice": event.notice,
    }
    if event.laws:
        step["laws"] = [_laws_to_json(laws) for laws in event.laws]
    return step


def _laws_to_json(laws: NodeLaws) -> Json:
    draft = None if laws.draft is None else _top_to_json(laws.draft)
    return {"node": laws.node, "target": _top_to_json(laws.target), "draft": draft}


def _top_to_json(law: TopLaw) -> list[list[float]]:
    return [list(law.tokens), [round(prob, LAW_DECIMALS) for prob in law.probs]]


def trace_to_json(trace: Trace) -> Json:
    return {
        "version": trace.version,
        "created": trace.created,
        "prompt": trace.prompt,
        "earlier": [asdict(turn) for turn in trace.earlier],
        "settings": settings_to_json(trace.settings),
        "environment": asdict(trace.environment),
        "pieces": {str(token): piece for token, piece in trace.pieces.items()},
        "lanes": [lane_to_json(lane) for lane in trace.lanes],
        "cite": CITATION,
    }


def settings_to_json(settings: Settings) -> Json:
    made = asdict(settings)
    return made if settings.record_dropped else _without(made, "record_dropped")


def _without(data: Json, key: str) -> Json:
    return {name: value for name, value in data.items() if name != key}


def lane_to_json(lane: Lane) -> Json:
    pairs = zip(lane.events, lane.texts, strict=True)
    return {
        "method": lane.method,
        "events": [_saved_event(event, texts) for event, texts in pairs],
    }


def _saved_event(event: Event, texts: Sequence[str]) -> Json:
    made = event_to_json(event, texts)
    if isinstance(event, Step) and event.dropped is not None:
        made["dropped"] = _dropped_to_json(event.dropped)
    return made


def _dropped_to_json(dropped: Dropped) -> Json:
    return {
        "tokens": [one.token for one in dropped.candidates],
        "parents": [one.parent for one in dropped.candidates],
        "draft": [_rounded(one.draft_prob) for one in dropped.candidates],
        "values": [_rounded(one.value) for one in dropped.candidates],
        "least_kept": _rounded(dropped.least_kept),
    }


def dump_trace(trace: Trace) -> str:
    return json.dumps(trace_to_json(trace), ensure_ascii=False, separators=(",", ":"))


def load_trace(text: str) -> Trace:
    """Read a saved trace; raises `TraceError` with one sentence for whatever is wrong with it."""
    if len(text) > MAX_BYTES:
        raise TraceError(f"a trace of {len(text):,} characters", expected=f"at most {MAX_BYTES:,}")
    try:
        return trace_from_json(json.loads(text, parse_constant=_refuse_constant))
    except RecursionError as error:
        raise TraceError("a trace nested too deeply", hint="another file") from error
    except ValueError as error:  # also a number of thousands of digits
        raise TraceError(f"a file that is not JSON ({error})", hint="a saved trace") from error


def trace_from_json(data: object) -> Trace:
    record = Record(data, "trace")
    version = record.get("version", reading.whole)
    if version not in READABLE_VERSIONS:
        raise TraceError(
            f"a trace of version {version}",
            expected=f"version 1 to {TRACE_VERSION}",
            hint="recording it again with this release",
        )
    return Trace(
        prompt=record.get("prompt", reading.text),
        settings=_settings(record.get("settings", reading.mapping), version=version),
        environment=_environment(record.get("environment", reading.mapping)),
        lanes=tuple(_lane(lane) for lane in record.get("lanes", reading.sequence)),
        pieces=record.get("pieces", _pieces),
        created=record.get("created", reading.text),
        earlier=() if version < 3 else tuple(record.each("earlier", _turn)),  # it had none
    )


def _turn(data: object) -> Turn:
    record = Record(data, "trace.earlier")
    return Turn(role=record.get("role", reading.text), content=record.get("content", reading.text))


def _lane(data: object) -> Lane:
    record = Record(data, "lane")
    rows = record.get("events", reading.sequence)
    if len(rows) > MAX_EVENTS:
        raise TraceError(f"a lane of {len(rows):,} events", expected=f"at most {MAX_EVENTS:,}")
    events = tuple(map(event_from_json, rows))
    texts = tuple(
        tuple(Record(row, "event").each("text", reading.text, length=len(event.committed)))
        for row, event in zip(rows, events, strict=True)
    )
    return Lane(method=record.get("method", reading.text), events=events, texts=texts)


def event_from_json(data: object) -> Event:
    record = Record(data, "event")
    stop = record.maybe("stop", _stop_reason)
    if "prefill_ms" in record:
        return Prefill(
            num_prompt_tokens=record.get("prompt_tokens", reading.whole),
            token=record.get("token", reading.whole),
            prefill_ms=record.get("prefill_ms", reading.quantity),
            stop=stop,
        )
    nodes = _nodes(record)
    return Step(
        nodes=nodes,
        path=_path(record, nodes),
        bonus=record.maybe("bonus", reading.whole),
        draft_ms=record.get("draft_ms", reading.quantity),
        verify_ms=record.get("verify_ms", reading.quantity),
        commit_ms=record.get("commit_ms", reading.quantity),
        stop=stop,
        notice=record.maybe("notice", reading.text),
        laws=tuple(
            _laws(laws, len(nodes)) for laws in record.maybe("laws", reading.sequence) or ()
        ),
        dropped=_dropped(record.maybe("dropped", reading.mapping), len(nodes)),
    )


def _dropped(data: Json | None, num_nodes: int) -> Dropped | None:
    if data is None:
        return None
    record = Record(data, "event.dropped")
    tokens = record.each("tokens", reading.whole)
    if not 1 <= len(tokens) <= MAX_NODES - num_nodes:
        raise TraceError(
            f"{len(tokens)} dropped candidates", expected=f"1 to {MAX_NODES - num_nodes}"
        )
    parents = record.each("parents", reading.whole, length=len(tokens))
    _check_parents(parents, first=num_nodes)
    probs, values = (
        record.each(name, reading.probability, length=len(tokens)) for name in ("draft", "values")
    )
    rows = zip(tokens, parents, probs, values, strict=True)
    return Dropped(
        candidates=tuple(Candidate(*row) for row in rows),
        least_kept=record.maybe("least_kept", reading.probability),
    )


def _laws(data: object, num_nodes: int) -> NodeLaws:
    record = Record(data, "event.laws")
    node = record.get("node", reading.whole)
    if node >= num_nodes:
        raise TraceError(f"laws of node {node}", expected=f"one of {num_nodes} nodes")
    draft = record.maybe("draft", reading.sequence)
    return NodeLaws(
        node=node,
        target=_top(record.get("target", reading.sequence)),
        draft=None if draft is None else _top(draft),
    )


def _top(columns: list[object]) -> TopLaw:
    record = Record(dict(zip(("tokens", "probs"), columns, strict=False)), "event.laws")
    tokens = record.each("tokens", reading.whole)
    if len(tokens) > MAX_TOP:
        raise TraceError(f"a law of {len(tokens)} tokens", expected=f"at most {MAX_TOP}")
    return TopLaw(
        tuple(tokens), tuple(record.each("probs", reading.probability, length=len(tokens)))
    )


def _nodes(record: Record) -> tuple[Node, ...]:
    tokens = record.each("tokens", reading.whole)
    if not 1 <= len(tokens) <= MAX_NODES:
        raise TraceError(f"a step of {len(tokens)} nodes", expected=f"1 to {MAX_NODES}")
    parents = record.each("parents", reading.or_none(reading.whole), length=len(tokens))
    _check_parents(parents, first=0)
    columns = [
        record.each(name, reading.or_none(reading.probability), length=len(tokens))
        for name in ("draft", "target", "accept", "draw")
    ]
    verdicts = [_verdict(letter) for letter in record.get("verdicts", reading.text)]
    if len(verdicts) != len(tokens):
        raise TraceError(f"{len(verdicts)} verdicts for {len(tokens)} nodes")
    rows = zip(tokens, parents, verdicts, *columns, strict=True)
    return tuple(Node(*row) for row in rows)


def _check_parents(parents: Sequence[int | None], *, first: int) -> None:
    """first: the number of the node that the first parent belongs to; 0 is the root."""
    for node, parent in enumerate(parents, start=first):
        if (parent is None) != (node == 0) or (parent is not None and parent >= node):
            raise TraceError(f"node {node} with parent {parent}", expected="parents first")


def _path(record: Record, nodes: Sequence[Node]) -> tuple[int, ...]:
    path = tuple(record.each("path", reading.whole))
    is_path = bool(path) and path[0] == 0 and path[-1] < len(nodes)
    for above, below in pairwise(path):
        is_path = is_path and below < len(nodes) and nodes[below].parent == above
    if not is_path:
        raise TraceError(f"path {list(path)[:20]}", expected="nodes from the root downwards")
    return path


def _settings(data: Json, *, version: int) -> Settings:
    record = Record(data, "settings")
    settings = Settings(
        max_new_tokens=record.get("max_new_tokens", reading.whole),
        temperature=record.get("temperature", reading.quantity),
        top_p=record.get("top_p", reading.probability),
        top_k=record.get("top_k", reading.whole),
        seed=record.get("seed", reading.whole),
        tree=record.get("tree", reading.text),
        rule=record.get("rule", reading.text),
    )
    if version == 1:  # it had no more options
        return settings
    return replace(
        settings,
        min_p=record.get("min_p", reading.probability),
        repetition_penalty=record.get("repetition_penalty", reading.quantity),
        presence_penalty=record.get("presence_penalty", reading.number),
        frequency_penalty=record.get("frequency_penalty", reading.number),
        stop=tuple(record.each("stop", reading.text)),
        record_dropped=record.maybe("record_dropped", reading.flag) or False,
    )


def _environment(data: Json) -> Environment:
    record = Record(data, "environment")
    return Environment(
        target=record.get("target", reading.text),
        head=record.get("head", reading.text),
        device=record.get("device", reading.text),
        dtype=record.get("dtype", reading.text),
        threads=record.get("threads", reading.whole),
        versions=record.get("versions", reading.texts),
    )


def _pieces(value: object) -> dict[int, str]:
    pieces = reading.texts(value)
    for key in pieces:
        if not (key.isascii() and key.isdigit() and len(key) <= MAX_TOKEN_DIGITS):
            raise reading.wrong(key, "token ids as keys")
    return {int(key): piece for key, piece in pieces.items()}


def _stop_reason(value: object) -> StopReason:
    try:
        return StopReason(value)
    except ValueError as error:
        raise reading.wrong(
            value, "one of " + ", ".join(reason.value for reason in StopReason)
        ) from error


def _verdict(letter: str) -> Verdict:
    if letter not in VERDICTS:
        raise TraceError(f"verdict {letter!r}", expected=" ".join(VERDICTS))
    return VERDICTS[letter]


def _refuse_constant(name: str) -> float:
    raise TraceError(f"the number {name} in a trace", expected="finite numbers")


def _rounded(value: float | None) -> float | None:
    """Five significant digits: enough to redraw and recount, and half the bytes."""
    if value is None or value == 0:
        return value
    return float(f"{value:.{SIGNIFICANT_DIGITS}g}")
