"""The page with a clock in its engine: `python tests/timed_app.py PORT LOG [real]`.

A line of LOG for every event, as it left the engine: `[lane, step, milliseconds since 1970]`. The
engine is the made-up bench at its full pace, or the real one with the default target and head.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fake_bench import FakeBench

from app import build_demo, launch_kwargs
from app.runner import Runner
from app.settings import Settings
from eagle_core.trace import Step


class TimedBench:
    """Another bench, whose events are logged as they come."""

    def __init__(self, bench: Any, log: Path) -> None:
        self._bench = bench
        self._log = log
        self.environment = bench.environment
        self.profile = bench.profile

    def race(self, *asked: Any, **named: Any) -> TimedRecording:
        return TimedRecording(self._bench.race(*asked, **named), self._log)


class TimedRecording:
    def __init__(self, recording: Any, log: Path) -> None:
        self._recording = recording
        self._log = log
        self.settings = recording.settings
        self.trace = recording.trace

    def __iter__(self) -> Iterator[Any]:
        counts: Counter[str] = Counter()
        with self._log.open("w") as log:
            for moment in self._recording:
                if isinstance(moment.event, Step):
                    place = (moment.method, counts[moment.method])
                    log.write(json.dumps([*place, 1000 * time.time()]) + "\n")
                    log.flush()
                    counts[moment.method] += 1
                yield moment


def main() -> None:
    def load(progress: Any) -> TimedBench:
        if "real" not in sys.argv[3:]:
            return TimedBench(FakeBench(pace=1.0), Path(sys.argv[2]))
        from eagle_core.workbench import Workbench

        bench = Workbench.load(progress=progress, measures=False)
        return TimedBench(bench, Path(sys.argv[2]))

    demo = build_demo(runner=Runner(load), recordings=[])
    demo.launch(**launch_kwargs(Settings(port=int(sys.argv[1]))), quiet=True)


if __name__ == "__main__":
    main()
