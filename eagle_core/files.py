"""Files that are whole or as they were before, and files of lines that a kill cut short.

Knows files. Knows nothing of what they hold.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from eagle_core.errors import OptionError


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A neighbour of `path` to be filled, put in its place in one step; dropped after an error.

    It ends with the permissions of any new file, whatever its writer gave it (safetensors: 0600).
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    staged = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        staged.touch()
        permissions = staged.stat().st_mode
        yield staged
        staged.chmod(permissions)
        with staged.open("rb+") as file:
            os.fsync(file.fileno())
        staged.replace(path)
    finally:
        with contextlib.suppress(OSError):
            staged.unlink(missing_ok=True)


def write_wanted(path: Path | None, text: str, *, flag: str) -> None:
    """What `flag` asks to be written; nothing where it was left out.

    Raises `OptionError` in one sentence where the disk refuses.
    """
    if path is None:
        return
    try:
        with replacing(path) as staged:
            staged.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OptionError(
            f"cannot write to {path} ({error.strerror})", hint=f"another {flag}"
        ) from error


def whole_lines(path: Path) -> list[str]:
    """Of a file that lines are appended to; a last one that a kill left unfinished is cut off."""
    whole, _, torn = path.read_text(encoding="utf-8").rpartition("\n")
    if torn:
        path.write_text(f"{whole}\n" if whole else "", encoding="utf-8")
    return [line for line in whole.split("\n") if line]
