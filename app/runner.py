"""The only bridge between page and engine: loads the model, races the lanes, says errors plainly.

A run is a generator of messages for the viewer. Closing it, as a closed tab does, stops the engine.
Nothing here is shared between visitors but the loaded, read-only weights.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Literal, Protocol

from app.ask import Ask
from app.runs import Run, Runs
from app.settings import Settings
from app.views import messages
from eagle_core.errors import EagleError, OptionError
from eagle_core.shipped import shipped_heads

if TYPE_CHECKING:
    from eagle_core import trace as traces
    from eagle_core.cost import Profile
    from eagle_core.options import RunOptions

SECONDS_PER_MESSAGE = 1 / 30
SECONDS_BETWEEN_LOOKS = 0.2
STOP_PATIENCE_S = 10.0
UNEXPECTED = "Something went wrong on the server, which has logged it; the page can still be used."

log = logging.getLogger(__name__)

Progress = Callable[[str, float | None], None]


class Moment(Protocol):
    """One event of one lane, with the texts it committed and the token pieces it shows first."""

    @property
    def method(self) -> str: ...
    @property
    def event(self) -> traces.Event: ...
    @property
    def texts(self) -> tuple[str, ...]: ...
    @property
    def pieces(self) -> Mapping[int, str]: ...


class Recording(Protocol):
    """A race under way; iterated once, and whole at any time."""

    @property
    def settings(self) -> traces.Settings: ...
    def __iter__(self) -> Iterator[Moment]: ...
    def trace(self, *, stopped: bool = False) -> traces.Trace: ...


class Bench(Protocol):
    """A loaded target with its head: `eagle_core.workbench.Workbench`, or a stand-in of tests."""

    @property
    def environment(self) -> traces.Environment: ...
    @property
    def profile(self) -> Profile | None: ...
    def race(
        self, prompt: str, options: RunOptions, *, earlier: Sequence[traces.Turn] = ()
    ) -> Recording: ...
    def with_head(self, name: str) -> Bench: ...


@dataclass(frozen=True)
class ModelState:
    """How far the model is; `text` is for people, `fraction` from 0 to 1 where it is known."""

    phase: Literal["loading", "ready", "failed"]
    text: str
    fraction: float | None = None


class Runner:
    """Holds the bench once it is loaded, and one run per visitor."""

    def __init__(self, load: Callable[[Progress], Bench], *, heads: Sequence[str] = ()) -> None:
        self.heads = tuple(heads)  # that a run may choose from, the one loaded first at the front
        self._load = load
        self._others: dict[str, Bench] = {}  # benches with another head, once one was asked for
        self._bench: Bench | None = None
        self._device = threading.Lock()
        self._starting = threading.Lock()
        self._runs = Runs()
        self.model = ModelState("failed", "The model has not been loaded yet.")

    @property
    def profile(self) -> Profile | None:
        """What passes take on this machine; None while that is not known."""
        return self._bench.profile if self._bench else None

    def start_loading(self) -> None:
        """Load in the background; does nothing while loading, or once loaded."""
        with self._starting:
            if self.model.phase != "failed":
                return
            self.model = ModelState("loading", "Loading the model")
        threading.Thread(target=self._load_bench, name="load-model", daemon=True).start()

    def expect(self, visitor: str) -> str:
        """The name of the run that the visitor has asked for; it may have to wait for its turn."""
        return self._runs.ask(visitor).name

    def is_busy(self, visitor: str) -> bool:
        """Whether the visitor has a run, under way or on its way."""
        return self._runs.is_busy(visitor)

    def race(
        self, ask: Ask, *, visitor: str, name: str | None = None
    ) -> Generator[str, None, None]:
        """Answer in both lanes. Ends in words, never in an exception.

        `name` is what `expect` gave. A run taken back before its turn ends without a word.
        """
        run = self._runs.begin(visitor, name)
        try:
            if run.is_wanted:
                yield from self._answer(ask, run)
        except EagleError as error:
            yield messages.error(run.name, sentence(error))
        except Exception:  # our bug: the log has it, the visitor gets words, the page goes on
            log.exception("a run failed")
            yield messages.error(run.name, UNEXPECTED)
        finally:
            self._runs.end(visitor, run)

    def stop(self, visitor: str) -> bool:
        """Ask the visitor's runs to end after their current step, and wait until they have.

        False where none was under way: one that still waited for its turn will not begin.
        """
        under_way = self._runs.stop(visitor)
        for run in under_way:
            run.is_over.wait(STOP_PATIENCE_S)
        return bool(under_way)

    def forget(self, visitor: str) -> None:
        """The visitor has closed the page."""
        self._runs.forget(visitor)

    def _load_bench(self) -> None:
        def progress(what: str, fraction: float | None) -> None:
            self.model = ModelState("loading", what[:1].upper() + what[1:], fraction)

        try:
            self._bench = self._load(progress)
            where = self._bench.environment
            self.model = ModelState("ready", f"Ready: {where.target} on {where.device}")
        except EagleError as error:
            log.warning("the model could not be loaded: %s", error)
            self.model = ModelState("failed", f"{sentence(error)} Press Run to try again.")
        except Exception:  # in a thread nobody joins: else the page would wait for ever
            log.exception("the model could not be loaded")
            text = "The model could not be loaded; the server's log says why."
            self.model = ModelState("failed", f"{text} Press Run to try again.")

    def _answer(self, ask: Ask, run: Run) -> Iterator[str]:
        options = ask.options()
        bench = yield from self._wait_for_model(run)
        if bench is None:
            text = "Stopped before it began."
            yield messages.status(text, about="run", phase="idle")
            return
        with self._device:
            bench = yield from self._with_head(bench, ask.head)
            yield from _race(bench, ask, options, run)

    def _with_head(self, bench: Bench, name: str) -> Generator[str, None, Bench]:
        """The bench with the head that a run chose; loaded when it is chosen for the first time."""
        if name in ("", *self.heads[:1]):
            return bench
        if name not in self.heads:
            raise OptionError(f"head {name!r:.40}", expected=f"one of {', '.join(self.heads)}")
        if name not in self._others:
            text = f"Loading the head {name}. Your run starts when it is done."
            yield messages.status(text, about="run", phase="waiting", tone="busy")
            self._others[name] = bench.with_head(name)
        return self._others[name]

    def _wait_for_model(self, run: Run) -> Generator[str, None, Bench | None]:
        """The bench, or None where the visitor stopped waiting; raises where it cannot be had."""
        self.start_loading()
        told = None
        while self._bench is None and not run.stop_asked.is_set():
            model = self.model
            if model.phase == "failed":
                raise EagleError(model.text)
            if model != told:
                told = model
                yield _waiting(model)
            run.stop_asked.wait(SECONDS_BETWEEN_LOOKS)
        return None if run.stop_asked.is_set() else self._bench


def runner_for(settings: Settings) -> Runner:
    """The runner of the product; torch is imported by its loading thread."""

    def load(progress: Progress) -> Bench:
        progress("Starting the engine", None)
        from eagle_core.workbench import Workbench

        return Workbench.load(
            target=settings.target,
            head=settings.head,
            device=settings.device,
            dtype=settings.dtype,
            cache=settings.cache,
            progress=progress,
        )

    shipped = shipped_heads(settings.target)
    first = settings.head or next(iter(shipped), "")
    others = [name for name in shipped if name != first]
    return Runner(load, heads=[first, *others] if first in shipped else ())


def sentence(error: EagleError) -> str:
    """An error's text with a capital and a full stop."""
    text = str(error)
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def _race(bench: Bench, ask: Ask, options: RunOptions, run: Run) -> Iterator[str]:
    earlier = ask.turns()
    recording = bench.race(ask.prompt, options, earlier=earlier)
    yield messages.start(
        run.name,
        prompt=ask.prompt,
        earlier=earlier,
        settings=recording.settings,
        environment=bench.environment,
    )
    seq = 0
    with closing(_generator(recording)) as moments:
        for batch in _batches(moments, run.stop_asked):
            seq += 1
            yield _events(run.name, seq, batch)
    is_stopped = run.stop_asked.is_set()
    trace = recording.trace(stopped=is_stopped)
    text = "Stopped: what was done so far can be looked at." if is_stopped else "Done."
    message = messages.end(run.name, seq + 1, trace=trace, stopped=is_stopped, text=text)
    yield message


def _generator(recording: Recording) -> Generator[Moment, None, None]:
    """As a generator, which can be closed: that drops the recording's own iterator at once."""
    yield from recording


def _batches(moments: Iterable[Moment], stop: threading.Event) -> Iterator[list[Moment]]:
    """Everything since the last batch, at most thirty batches a second; the first at once."""
    batch: list[Moment] = []
    due = 0.0
    for moment in moments:
        batch.append(moment)
        if stop.is_set():
            break
        if monotonic() >= due:
            yield batch
            batch = []
            due = monotonic() + SECONDS_PER_MESSAGE
    if batch:
        yield batch


def _events(run: str, seq: int, batch: list[Moment]) -> str:
    pieces = {token: piece for moment in batch for token, piece in moment.pieces.items()}
    happened = [messages.LaneEvent(m.method, m.event, m.texts) for m in batch]
    return messages.events(run, seq, happened=happened, pieces=pieces)


def _waiting(model: ModelState) -> str:
    return messages.status(
        f"{model.text}. Your run starts when it is done.",
        about="run",
        phase="waiting",
        tone="busy",
        fraction=model.fraction,
    )
