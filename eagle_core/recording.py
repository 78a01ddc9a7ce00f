"""Record the lanes of a race as they run.

Knows lanes, events and text. Knows nothing of models: it is handed iterators of events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from eagle_core.race import race
from eagle_core.text import TextStream
from eagle_core.trace import Environment, Event, Lane, Settings, Step, StopReason, Trace, Turn


@dataclass(frozen=True)
class Moment:
    """One event of one lane, with the text it added and the looks of tokens not seen before."""

    method: str
    event: Event
    texts: tuple[str, ...]
    pieces: Mapping[int, str]


class Recording:
    """A race being run: iterate it once; leave early, and what has happened is a valid trace."""

    def __init__(
        self,
        prompt: str,
        lanes: Mapping[str, Iterator[Event]],
        *,
        settings: Settings,
        environment: Environment,
        earlier: tuple[Turn, ...] = (),
        piece: Callable[[int], str],
        stream: Callable[[], TextStream],
    ) -> None:
        self.settings = settings
        self._prompt = prompt
        self._earlier = earlier
        self._environment = environment
        self._piece = piece
        self._iterators = dict(lanes)
        self._streams = {method: stream() for method in lanes}
        self._moments: dict[str, list[Moment]] = {method: [] for method in lanes}
        self._pieces: dict[int, str] = {}
        self._created = datetime.now(timezone.utc).isoformat(timespec="seconds")

    def __iter__(self) -> Iterator[Moment]:
        for method, event in race(self._iterators):
            moment = Moment(
                method=method,
                event=event,
                texts=self._streams[method].read(event.committed, is_last=event.stop is not None),
                pieces=self._new_pieces(event),
            )
            self._moments[method].append(moment)
            yield moment

    def trace(self, *, stopped: bool = False) -> Trace:
        """All that has happened so far; `stopped` marks the unfinished lanes as ended by hand.

        It has the looks of dropped tokens, too, which no moment tells.
        """
        return Trace(
            prompt=self._prompt,
            settings=self.settings,
            environment=self._environment,
            lanes=tuple(self._lane(method, stopped=stopped) for method in self._moments),
            pieces={**self._pieces, **self._dropped_pieces()},
            created=self._created,
            earlier=self._earlier,
        )

    def _lane(self, method: str, *, stopped: bool) -> Lane:
        moments = self._moments[method]
        events = [moment.event for moment in moments]
        if stopped and events and events[-1].stop is None:
            events[-1] = replace(events[-1], stop=StopReason.STOPPED)
        return Lane(method, tuple(events), tuple(moment.texts for moment in moments))

    def _dropped_pieces(self) -> dict[int, str]:
        events = (moment.event for moments in self._moments.values() for moment in moments)
        dropped = (event.dropped for event in events if isinstance(event, Step) and event.dropped)
        tokens = {one.token for each in dropped for one in each.candidates}
        return {token: self._piece(token) for token in sorted(tokens - self._pieces.keys())}

    def _new_pieces(self, event: Event) -> dict[int, str]:
        tokens = set(event.committed)
        if isinstance(event, Step):
            tokens.update(node.token for node in event.nodes)
            for laws in event.laws:
                tokens.update(laws.target.tokens, laws.draft.tokens if laws.draft else ())
        new = {token: self._piece(token) for token in sorted(tokens - self._pieces.keys())}
        self._pieces |= new
        return new
