"""Serve a page in its own process and drive Chromium over it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
AXE = ROOT / "tests" / "vendor" / "axe-core" / "axe.min.js"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def served(script: str, *arguments: str, port: int, log: Path) -> Iterator[str]:
    """The address of `script` run by this Python, once it answers."""
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, script, *arguments],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=output,
            stderr=output,
        )
    address = f"http://127.0.0.1:{port}/"
    try:
        _wait_for(address, process, log)
        yield address
    finally:
        process.terminate()
        process.wait(20)


def _wait_for(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(address, timeout=5).close()
        except (urllib.error.URLError, TimeoutError):
            time.sleep(0.3)
        else:
            return
    pytest.fail(f"{address} does not answer: {log.read_text()}")


@contextmanager
def chromium() -> Iterator[Any]:
    """Debian's Chromium through Playwright."""
    sync_api = pytest.importorskip("playwright.sync_api")
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        assert "CI" not in os.environ, "the gate's browser tests need Chromium"
        pytest.skip("Chromium is not installed")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


CUT_OFF = ("signal is aborted", "Connection errored out")


class Visit:
    """One tab, which remembers what should not have happened in it."""

    def __init__(self, browser: Any, address: str, **context: Any) -> None:
        self._context = browser.new_context(
            **({"viewport": {"width": 1280, "height": 900}} | context)
        )
        self.page = self._context.new_page()
        self.page.set_default_timeout(60_000)
        self.complaints: list[str] = []
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self._note(str(error)))
        self.page.on("request", self._see_request)
        self.page.goto(address)
        self.page.wait_for_selector(".ev")

    def _note(self, complaint: str) -> None:
        """But for what Gradio says when a reload or a closed tab cuts its stream off."""
        if not any(words in complaint for words in CUT_OFF):
            self.complaints.append(complaint)

    def ask(self, prompt: str, *, length: int | None = None) -> None:
        if length is not None:
            self.open_settings()
            self.page.get_by_label("number input for Length").fill(str(length))
            self.page.keyboard.press("Tab")
            self.close_settings()
        self.page.fill("#prompt textarea", prompt)
        self.page.click("#run")

    def open_settings(self) -> None:
        if not self.page.locator(".ev-sidebar.open").count():
            self.page.click("#settings")
        self.page.wait_for_function("document.activeElement.closest('.ev-sidebar.open') !== null")

    def close_settings(self) -> None:
        self.page.click(".ev-sidebar .toggle-button")
        self.page.wait_for_selector(".ev-sidebar:not(.open)")

    def wait_for_status(self, words: str, *, timeout_s: float = 60) -> None:
        self.page.wait_for_function(
            "words => document.querySelector('.ev-status')?.textContent.includes(words)",
            arg=words,
            timeout=1000 * timeout_s,
        )

    def see(self, selector: str, words: str) -> None:
        """Wait until the element's text begins with `words`; drawing waits for the next frame."""
        self.page.wait_for_function(
            "([at, words]) => document.querySelector(at)?.textContent.startsWith(words)",
            arg=[selector, words],
        )

    def to_first_step(self) -> None:
        """Of EAGLE's lane, in the tree, with nothing hidden; the viewer has the focus."""
        for toggle in self.page.query_selector_all(".ev-toggle[aria-pressed=true]"):
            toggle.click()
        self.page.click(".ev-tab >> text=EAGLE")
        self.page.focus(".ev-panel")
        self.page.keyboard.press("Home")
        self.see(".ev-step-title", "Step 1 of ")

    def text(self, selector: str) -> str:
        return str(self.page.text_content(selector))

    def close(self) -> None:
        self._context.close()

    def _hear(self, message: Any) -> None:
        if message.type == "error":
            self._note(message.text)

    def _see_request(self, request: Any) -> None:
        if not request.url.startswith(("http://127.0.0.1:", "blob:", "data:")):
            self.complaints.append(f"request to {request.url}")
