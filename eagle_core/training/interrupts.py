"""Let a Ctrl-C wait for the end of a step, so that what is saved is whole.

Knows signals. Knows nothing of training.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def interrupts() -> Iterator[Callable[[], bool]]:
    """Gives a question, "was there a Ctrl-C?"; a second Ctrl-C breaks off at once.

    Outside the main thread signals cannot be had, and the answer is always no.
    """
    noted = False

    def note(*_: object) -> None:
        nonlocal noted
        noted = True
        signal.signal(signal.SIGINT, earlier)

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    earlier = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: noted
    finally:
        signal.signal(signal.SIGINT, earlier)
