"""Who has asked for a run, whose is under way, and whose was taken back.

Knows visitors and the names of their runs, neither the engine nor the page.
"""

from __future__ import annotations

import threading
import uuid
from dataclasses import dataclass, field


@dataclass(frozen=True, eq=False)
class Run:
    """One run of one visitor, from the click that asked for it."""

    name: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    stop_asked: threading.Event = field(default_factory=threading.Event)
    has_begun: threading.Event = field(default_factory=threading.Event)
    is_over: threading.Event = field(default_factory=threading.Event)

    @property
    def is_wanted(self) -> bool:
        return not self.stop_asked.is_set()


class Runs:
    """Every visitor's runs that are not over. A visitor can want one at a time.

    A run has a name because the clicks, the waiting and the answers of one visitor overtake each
    other: a run may be stopped and the next one asked for before the first has had its turn.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._runs: dict[str, dict[str, Run]] = {}

    def ask(self, visitor: str) -> Run:
        """A run for the visitor to begin later; unwanted where they already want another."""
        run = Run()
        with self._guard:
            if any(other.is_wanted for other in self._of(visitor)):
                run.stop_asked.set()
            self._runs.setdefault(visitor, {})[run.name] = run
        return run

    def begin(self, visitor: str, name: str | None) -> Run:
        """The run asked for under this name, or a new one where nobody asked."""
        with self._guard:
            runs = self._runs.setdefault(visitor, {})
            run = runs.get(str(name or "")) or Run()  # a page may send anything
            runs[run.name] = run
            run.has_begun.set()
        return run

    def end(self, visitor: str, run: Run) -> None:
        with self._guard:
            runs = self._runs.get(visitor, {})
            runs.pop(run.name, None)
            if not runs:
                self._runs.pop(visitor, None)
        run.is_over.set()

    def is_busy(self, visitor: str) -> bool:
        """Whether a run of the visitor is under way, or waits and is still wanted."""
        with self._guard:
            return any(run.has_begun.is_set() or run.is_wanted for run in self._of(visitor))

    def stop(self, visitor: str) -> list[Run]:
        """Ask all the visitor's runs to end; those that were under way."""
        with self._guard:
            runs = self._of(visitor)
            for run in runs:
                run.stop_asked.set()
        return [run for run in runs if run.has_begun.is_set()]

    def forget(self, visitor: str) -> None:
        """The visitor has gone: drop the runs that have not begun, and stop the others."""
        self.stop(visitor)
        for run in self._of(visitor):
            if not run.has_begun.is_set():
                self.end(visitor, run)

    def _of(self, visitor: str) -> list[Run]:
        return list(self._runs.get(visitor, {}).values())
