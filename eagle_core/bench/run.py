"""Run the lanes over questions, prompt by prompt, and keep a row per question and lane.

Lanes alternate on every prompt, so that whatever else the machine does hits them alike; rows are
appended to a file as they come, and a run that is started again goes on after them.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagle_core.compare import Divergence, as_lane, find_divergence
from eagle_core.errors import OptionError
from eagle_core.files import whole_lines
from eagle_core.trace import AcceptanceCount, Event, Lane, Prefill

if TYPE_CHECKING:
    from eagle_core.bench.questions import Question
    from eagle_core.bench.rivals import Rival, RivalAnswer
    from eagle_core.options import RunOptions
    from eagle_core.workbench import Workbench


Counts = tuple[int, int]
"""Reached and accepted."""


@dataclass(frozen=True)
class LaneFigures:
    """What one lane did on one question; all but `prefill_ms` of the decode phase.

    host_ms: of its steps outside draft, verification and commit: the loop and what it records.
    """

    num_tokens: int  # committed after the first, which belongs to the prefill
    num_target_passes: int | None  # None where a rival does not say
    prefill_ms: float
    draft_ms: float
    verify_ms: float
    commit_ms: float
    host_ms: float
    accepted_by_depth: tuple[Counts, ...]  # depth 1, 2, …
    accepted_by_rank: tuple[Counts, ...]  # child rank 0, 1, …

    @property
    def decode_ms(self) -> float:
        return self.draft_ms + self.verify_ms + self.commit_ms + self.host_ms

    @property
    def tokens_per_s(self) -> float:
        return 1000 * self.num_tokens / self.decode_ms if self.decode_ms else 0.0


@dataclass(frozen=True)
class Row:
    """One question answered plainly and by another lane: EAGLE under a tree, or a rival.

    `tree` names that lane and `eagle` is what it did. `conditions` is a digest of all else that
    decides the answer and its speed.
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
    rivals: Sequence[Rival] = (),
    rows_file: Path | None = None,
) -> Iterator[Row]:
    """A row per question, option set and rival; those already in `rows_file` are not run again.

    Rows made under other conditions (length, seed, head, machine, …) are not taken for these.
    Rivals answer at temperature 0 alone.
    """
    done = {(row.conditions, row.question, row.tree): row for row in read_rows(rows_file)}
    groups = [[*group] for _, group in groupby(options, key=lambda wanted: wanted.temperature)]
    for turn, question in enumerate(questions):
        for group in groups:
            able = rivals if group[0].temperature == 0 else ()
            here = (conditions_of(bench, group[0]), question.name)
            names = [wanted.tree for wanted in group] + [rival.name for rival in able]
            yield from (done[(*here, name)] for name in names if (*here, name) in done)
            new = run_question(
                bench,
                question,
                [wanted for wanted in group if (*here, wanted.tree) not in done],
                rivals=[rival for rival in able if (*here, rival.name) not in done],
                base=group[0],
                turn=turn,
            )
            for row in new:
                append_row(rows_file, row)
                yield row


def run_question(
    bench: Workbench,
    question: Question,
    options: Sequence[RunOptions],
    *,
    rivals: Sequence[Rival] = (),
    base: RunOptions | None = None,
    turn: int = 0,
) -> Iterator[Row]:
    """Plain decoding once, EAGLE under each of `options`, which differ in their trees alone, and
    each rival. `base` stands for the options where there are none; `turn` rotates who goes first.
    """
    if not options and not rivals:
        return
    plain = options[0] if options else base
    assert plain is not None, "rivals alone come with the options of plain decoding"
    prompt = bench.encode(question.prompt)
    length = plain.max_new_tokens
    lanes: dict[str, Callable[[], Ran]] = {
        "plain": lambda: run_lane("plain", bench.plain(prompt, plain)),
        **{o.tree: partial(run_eagle, bench, prompt, o) for o in options},
        **{r.name: partial(run_rival, r, prompt, max_new_tokens=length) for r in rivals},
    }
    names = [*lanes]
    first = turn % len(names)
    done = {name: lanes[name]() for name in [*names[first:], *names[:first]]}
    base_lane, is_greedy = done["plain"].lane, plain.temperature == 0
    for name in names[1:]:
        lane = done[name].lane
        yield Row(
            conditions=conditions_of(bench, plain),
            question=question.name,
            category=question.category,
            tree=name,
            temperature=plain.temperature,
            plain=done["plain"].figures,
            eagle=done[name].figures,
            divergence=find_divergence(bench.target, prompt, base_lane, lane)
            if is_greedy
            else None,
        )


@dataclass(frozen=True, eq=False)
class Ran:
    """A lane that was run to its end, and its figures."""

    lane: Lane
    figures: LaneFigures


def run_eagle(bench: Workbench, prompt: list[int], options: RunOptions) -> Ran:
    """Opens the lane when its turn has come, so that one cache at a time is in memory."""
    return run_lane(options.tree, bench.eagle(prompt, options))


def run_lane(name: str, events: Iterable[Event]) -> Ran:
    """Its steps are also timed from outside, which shows what their own clocks leave out."""
    done, steps_s, events = list[Event](), 0.0, iter(events)
    while True:
        began = time.perf_counter()
        event = next(events, None)
        if event is None:
            break
        done.append(event)
        steps_s += 0.0 if isinstance(event, Prefill) else time.perf_counter() - began
    lane = as_lane(name, done)
    return Ran(lane, figures(lane, wall_ms=1000 * steps_s))


def run_rival(rival: Rival, prompt: Sequence[int], *, max_new_tokens: int) -> Ran:
    answer = rival.answer(prompt, max_new_tokens=max_new_tokens)
    lane = as_lane(rival.name, [Prefill(len(prompt), token, 0.0) for token in answer.tokens])
    return Ran(lane, figures_of_rival(answer))


def conditions_of(bench: Workbench, options: RunOptions) -> str:
    """A digest of the bench's conditions and of all options but the tree."""
    told = {**bench.conditions, **asdict(options), "tree": None, "profile": bench.profile.digest}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:12]


def figures_of_rival(answer: RivalAnswer) -> LaneFigures:
    """Its decode phase counts as one long verification: it does not say more."""
    return LaneFigures(
        num_tokens=max(len(answer.tokens) - 1, 0),
        num_target_passes=None,
        prefill_ms=answer.prefill_ms,
        draft_ms=0.0,
        verify_ms=answer.decode_ms,
        commit_ms=0.0,
        host_ms=0.0,
        accepted_by_depth=(),
        accepted_by_rank=(),
    )


def figures(lane: Lane, *, wall_ms: float = 0.0) -> LaneFigures:
    """wall_ms: of all its steps, from outside, where that was looked at."""
    return LaneFigures(
        num_tokens=len(lane.tokens) - 1,
        num_target_passes=lane.num_target_passes,
        prefill_ms=lane.prefill.ms if lane.prefill else 0.0,
        draft_ms=sum(step.draft_ms for step in lane.steps),
        verify_ms=sum(step.verify_ms for step in lane.steps),
        commit_ms=sum(step.commit_ms for step in lane.steps),
        host_ms=max(wall_ms - lane.decode_ms, 0.0),
        accepted_by_depth=_counts(lane.accepted_by_depth),
        accepted_by_rank=_counts(lane.accepted_by_rank),
    )


def read_rows(path: Path | None) -> list[Row]:
    """Rows of an earlier run; a last line that a kill left unfinished is dropped."""
    if path is None or not path.exists():
        return []
    try:
        return [_row(json.loads(line)) for line in whole_lines(path)]
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
