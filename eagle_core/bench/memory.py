"""How much main memory the process has taken."""

from __future__ import annotations

import resource
import sys

MIB = 1 << 20


def peak_bytes() -> int:
    """The largest the process has been in main memory."""
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
