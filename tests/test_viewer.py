"""The viewer's pure parts, tested in the Node that Playwright brings along."""

from __future__ import annotations

import gzip
import json
import subprocess
from pathlib import Path

import pytest

from app.viewer import ASSETS, TEMPLATE, viewer_head, viewer_script

MAX_SOURCE_BYTES = 120 * 1024
MAX_COMPRESSED_BYTES = 40 * 1024
TESTS = sorted((Path(__file__).parent / "viewer").glob("*.test.mjs"))


def node() -> str:
    driver = pytest.importorskip("playwright._impl._driver")
    return str(driver.compute_driver_executable()[0])


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_the_viewer_passes_its_own_tests(path: Path) -> None:
    done = subprocess.run([node(), "--test", str(path)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_viewer_has_tests() -> None:
    assert {path.stem for path in TESTS} >= {
        "layout.test",
        "phases.test",
        "state.test",
        "text.test",
    }


def test_the_script_carries_every_module_and_parses(tmp_path: Path) -> None:
    script = viewer_script()
    for path in (ASSETS / "viewer").glob("*.js"):
        if path.name != "boot.js":
            assert json.dumps(path.name) in script
    file = tmp_path / "script.js"
    file.write_text(f"(element, props, watch) => {{\n{script}\n}}", "utf-8")
    subprocess.run([node(), "--check", str(file)], check=True, timeout=60)


def test_modules_import_only_each_other() -> None:
    for path in (ASSETS / "viewer").glob("*.js"):
        for line in path.read_text("utf-8").splitlines():
            if line.startswith("import "):
                assert ' from "./' in line, f"{path.name}: {line}"


def test_the_viewer_stays_small() -> None:
    sources = b"".join(path.read_bytes() for path in sorted((ASSETS / "viewer").glob("*.js")))
    assert len(sources) < MAX_SOURCE_BYTES
    assert len(gzip.compress(sources)) < MAX_COMPRESSED_BYTES


def test_no_template_could_run_a_models_text() -> None:
    assert "$" not in TEMPLATE
    assert "{" not in TEMPLATE
    sources = "".join(path.read_text("utf-8") for path in (ASSETS / "viewer").glob("*.js"))
    assert "innerHTML" not in sources
    assert "eval(" not in sources


def test_the_head_holds_styles_only() -> None:
    head = viewer_head()
    assert head.startswith("<style>")
    assert "http" not in head.replace("http://www.w3.org/", "")
    assert ".dark{--ev-eagle:" in head
