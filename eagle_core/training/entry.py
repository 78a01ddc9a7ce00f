"""The end of every command of this room: an exit status, and plain words where it failed.

Knows errors and streams. Knows nothing of what a command does.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

import torch

from eagle_core.errors import EagleError


def run(command: Callable[[argparse.Namespace], None], options: argparse.Namespace) -> int:
    """0, 1 with one sentence where a caller can mend it, 130 after Ctrl-C."""
    if options.threads:
        torch.set_num_threads(options.threads)
    try:
        command(options)
    except EagleError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nInterrupted; the same command goes on from here.\n")
        return 130
    return 0
