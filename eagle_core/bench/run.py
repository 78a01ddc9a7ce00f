"""Run the lanes over questions, prompt by prompt, and keep a row per question and tree.

Lanes alternate on every prompt, so that whatever else the machine does hits them alike; rows are
appended to a file as they come, and a run that is started again goes on after them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagle_core.compare import Divergence, as_lane, find_divergence
from eagle_core.errors import OptionError
from eagle_core.trace import AcceptanceCount, Lane

if TYPE_CHECKING:
    from eagle_core.bench.questions import Question
    from eagle_core.options import RunOptions
    from eagle_core.workbench import Workbench


Counts = tuple[int, int]
"""Reached and accepted."""


@dataclass(frozen=True)
class LaneFigures:
    """What one lane did on one question; all but `prefill_ms` of the decode phase."""

    num_tokens: int  # committed after the first, which belongs to the prefill
    num_target_passes: int
    prefill_ms: float
    draft_ms: float
    verify_ms: float
    commit_ms: float
    accepted_by_depth: tuple[Counts, ...]  # depth 1, 2, …
    accepted_by_rank: tuple[Counts, ...]  # child rank 0, 1, …

    @property
    def decode_ms(self) -> float:
        return self.draft_ms + self.verify_ms + self.commit_ms

    @property
    def tokens_per_s(self) -> float:
        return 1000 * self.num_tokens / self.decode_ms if self.decode_ms else 0.0


@dataclass(frozen=True)
class Row:
    """One question answered by both lanes under one tree.

    `conditions` is a digest of all else that decides the answer and its speed.
    """

    conditions: str
    question: str
    category: str
    tree: str
    temperature: float
    plain: LaneFigures
    eagle: LaneFigures
    divergence: Divergence | None  # greedy only

    @property
    def speedup(self) -> float:
        """0 where a lane decoded nothing after its first token."""
        base = self.plain.tokens_per_s
        return self.eagle.tokens_per_s / base if base else 0.0


def run_questions(
    bench: Workbench,
    questions: Sequence[Question],
    options: Sequence[RunOptions],
    *,
    rows_file: Path | None = None,
) -> Iterator[Row]:
    """A row per question and option set; those already in `rows_file` are not run again.

    Rows made under other conditions (length, seed, head, machine, …) are not taken for these.
    """
    done = {(row.conditions, row.question, row.tree): row for row in read_rows(rows_file)}
    for turn, question in enumerate(questions):
        keys = {(conditions_of(bench, o), question.name, o.tree): o for o in options}
        yield from (done[key] for key in keys if key in done)
        missing = [wanted for key, wanted in keys.items() if key not in done]
        for row in run_question(bench, question, missing, turn=turn):
            append_row(rows_file, row)
            yield row


def run_question(
    bench: Workbench, question: Question, options: Sequence[RunOptions], *, turn: int = 0
) -> Iterator[Row]:
    """Plain decoding once, EAGLE under each of `options`, which differ in their trees alone.

    `turn` rotates who goes first.
    """
    if not options:
        return
    prompt = bench.encode(question.prompt)
    lanes = [("plain", bench.plain(prompt, options[0]))]
    lanes += [(wanted.tree, bench.eagle(prompt, wanted)) for wanted in options]
    first = turn % len(lanes)
    done = {name: as_lane(name, events) for name, events in [*lanes[first:], *lanes[:first]]}
    plain = done["plain"]
    for wanted in options:
        eagle, is_greedy = done[wanted.tree], wanted.temperature == 0
        yield Row(
            conditions=conditions_of(bench, wanted),
            question=question.name,
            category=question.category,
            tree=wanted.tree,
            temperature=wanted.temperature,
            plain=figures(plain),
            eagle=figures(eagle),
            divergence=find_divergence(bench.target, prompt, plain, eagle) if is_greedy else None,
        )


def conditions_of(bench: Workbench, options: RunOptions) -> str:
    """A digest of the bench's conditions and of all options but the tree."""
    told = {**bench.conditions, **asdict(options), "tree": None}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:12]


def figures(lane: Lane) -> LaneFigures:
    return LaneFigures(
        num_tokens=len(lane.tokens) - 1,
        num_target_passes=lane.num_target_passes,
        prefill_ms=lane.prefill.ms if lane.prefill else 0.0,
        draft_ms=sum(step.draft_ms for step in lane.steps),
        verify_ms=sum(step.verify_ms for step in lane.steps),
        commit_ms=sum(step.commit_ms for step in lane.steps),
        accepted_by_depth=_counts(lane.accepted_by_depth),
        accepted_by_rank=_counts(lane.accepted_by_rank),
    )


def read_rows(path: Path | None) -> list[Row]:
    """Rows of an earlier run; a last line that a kill left unfinished is dropped."""
    if path is None or not path.exists():
        return []
    try:
        whole, _, torn = path.read_text().rpartition("\n")
        if torn:
            path.write_text(f"{whole}\n" if whole else "")
        return [_row(json.loads(line)) for line in whole.split("\n") if line]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise OptionError(
            f"rows {path} cannot be read ({error})", hint="another --rows file, or deleting it"
        ) from error


def append_row(path: Path | None, row: Row) -> None:
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(json.dumps(asdict(row)) + "\n")
    except OSError as error:
        raise OptionError(
            f"cannot write to {path} ({error.strerror})", hint="another --rows"
        ) from error


def _row(data: dict[str, Any]) -> Row:
    plain, eagle, found = (data.pop(name) for name in ("plain", "eagle", "divergence"))
    divergence = Divergence(**found) if isinstance(found, dict) else None
    return Row(plain=_figures(plain), eagle=_figures(eagle), divergence=divergence, **data)


def _figures(data: object) -> LaneFigures:
    if not isinstance(data, dict):
        raise TypeError(f"{data!r:.40} are no figures of a lane")
    by_depth, by_rank = (
        tuple((int(reached), int(kept)) for reached, kept in data.pop(name))
        for name in ("accepted_by_depth", "accepted_by_rank")
    )
    return LaneFigures(accepted_by_depth=by_depth, accepted_by_rank=by_rank, **data)


def _counts(counts: Sequence[AcceptanceCount]) -> tuple[Counts, ...]:
    return tuple((count.num_reached, count.num_accepted) for count in counts)
