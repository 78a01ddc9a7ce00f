"""Settings and fixtures for all tests: one thread, since the toys are far too small for more.

The fixtures are the browser tests': a Chromium and a page over a bench without a model per file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from browsing import Visit, chromium, free_port, served

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """For a file and no longer: beside its event loop `asyncio.run` starts no other."""
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port = free_port()
    log = tmp_path_factory.mktemp("fake") / "log"
    with served("tests/fake_app.py", str(port), port=port, log=log) as address:
        yield address


@pytest.fixture(scope="module")
def shared(browser: Any, address: str) -> Iterator[Visit]:
    """A tab for all tests of a file, its model ready."""
    visit = Visit(browser, address)
    visit.wait_for_status("Ready")
    yield visit
    visit.close()


@pytest.fixture
def fresh(browser: Any, address: str) -> Iterator[Visit]:
    """A tab of the test's own, its model ready."""
    visit = Visit(browser, address)
    visit.wait_for_status("Ready")
    yield visit
    visit.close()
    assert visit.complaints == []


@pytest.fixture
def visit(fresh: Visit) -> Visit:
    """The same, unless a file has another idea of where its tests begin."""
    return fresh
