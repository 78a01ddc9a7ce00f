"""Progress bars on stderr for work that takes long.

A progress callback is told a stage and the share of it that is done, None where unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

from tqdm import tqdm

Progress = Callable[[str, float | None], None]


def no_progress(what: str, fraction: float | None) -> None:
    """For callers that show none."""


@contextmanager
def progress_on_stderr() -> Iterator[Progress]:
    """A callback that draws one bar, which goes away when all is done."""
    bar: tqdm[NoReturn] = tqdm(total=100, bar_format="{desc}: {percentage:3.0f}% |{bar:30}|")

    def report(what: str, fraction: float | None) -> None:
        bar.set_description_str(what, refresh=False)
        bar.n = round(100 * (fraction or 0.0))
        bar.refresh()

    try:
        yield report
    finally:
        bar.leave = False
        bar.close()
