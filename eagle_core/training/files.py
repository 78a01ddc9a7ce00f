"""Write files so that a kill, or a full disk, leaves the earlier ones sound.

Knows files. Knows nothing of what they hold.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from eagle_core.errors import CorpusError
from eagle_core.files import replacing


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a neighbour of `path`, then put it in place in one step."""
    with plain_words(path), replacing(path) as staged:
        write(staged)


@contextlib.contextmanager
def plain_words(path: Path) -> Iterator[None]:
    """Turn what the disk refuses into one sentence."""
    try:
        yield
    except OSError as error:
        raise _refusal(path, error) from None
    except RuntimeError as error:  # torch.save hides the OSError of a full disk in one of these
        if "file write failed" not in str(error) and "No space" not in str(error):
            raise
        raise _refusal(path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))) from None


def _refusal(path: Path, error: OSError) -> CorpusError:
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return CorpusError(
            f"the disk is full: {path} could not be written",
            hint="the same command again once there is room; what was saved before is sound",
        )
    return CorpusError(f"{path} could not be written ({error.strerror or error})")
