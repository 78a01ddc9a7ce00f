"""Pictures of the page in every state: `python tests/take_screenshots.py [NAME …]`.

Writes assets/screenshots/*.png, all of them or those named. What a picture shows of a run is one
of the shipped recordings; a run under way is the made-up bench's (`tests/fake_app.py`), whose words
and times mean nothing.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from browsing import ROOT, Visit, chromium, free_port, served

sys.path.insert(0, str(ROOT))

from fake_bench import FakeBench

from eagle_core.options import RunOptions
from eagle_core.trace_json import dump_trace

PROMPT = "Tell me a story."
FOLDER = ROOT / "assets" / "screenshots"
PHONE = {"viewport": {"width": 390, "height": 844}}
VIEWER, STEP = "#viewer", ".ev-panel >> nth=0"
SETTLED_MS = 700  # fonts, figures and the pulse of the status line


@dataclass(frozen=True)
class Shot:
    """act: what is done before the picture; of: the element on it, None the whole page."""

    act: Callable[[Visit], None]
    of: str | None = VIEWER
    theme: str = "light"
    context: Mapping[str, Any] = field(default_factory=dict)


def recorded(visit: Visit, title: str = "Code") -> None:
    visit.page.click(f".ev-recordings >> text={title}")
    visit.wait_for_status(f"Recorded run: {title}")


def running(visit: Visit) -> None:
    visit.ask(PROMPT, length=256)
    visit.page.wait_for_selector(".ev-lane-plain [data-step='24']")


def stopped(visit: Visit) -> None:
    running(visit)
    visit.page.click("#stop")
    visit.page.wait_for_selector('.ev[data-phase="stopped"]')


def finished(visit: Visit) -> None:
    visit.ask(PROMPT, length=48)
    visit.wait_for_status("Done.")


def error(visit: Visit) -> None:
    recorded(visit)
    visit.ask("")
    visit.wait_for_status("The prompt is empty")


def sampled(visit: Visit) -> None:
    recorded(visit, "Story sampled")


def inspected(visit: Visit) -> None:
    sampled(visit)
    visit.page.click(".ev-node.ev-refused >> nth=0")


def phases(visit: Visit) -> None:
    visit.page.click(".ev-phase-target")


def hidden(visit: Visit) -> None:
    visit.page.click("text=Hide verdicts")


def table(visit: Visit) -> None:
    visit.page.click(".ev-toggle >> text=Table")


def compared(visit: Visit) -> None:
    """A run of the made-up bench beside another of the same prompt, with a smaller tree."""
    finished(visit)
    other = FakeBench().race(PROMPT, RunOptions(max_new_tokens=48, tree="tree:8"))
    list(other)
    visit.page.click(".ev-share summary")
    with visit.page.expect_file_chooser() as chooser:
        visit.page.click("text=Compare with a trace…")
    content = dump_trace(other.trace()).encode()
    chooser.value.set_files({"name": "tree-of-8.json", "mimeType": "", "buffer": content})
    visit.page.wait_for_selector(".ev-compare:not([hidden])")
    visit.page.click("text=Go to the first difference")


def menu(visit: Visit) -> None:
    recorded(visit)
    visit.page.click(".ev-share summary")


def seen(visit: Visit) -> None:
    visit.page.get_by_role("button", name="See the run").click()
    visit.page.wait_for_selector("#by-branch .js-plotly-plot")


def what_if(visit: Visit) -> None:
    visit.page.get_by_role("button", name="What if").click()
    visit.page.wait_for_selector("#if-speedup .js-plotly-plot")
    visit.page.wait_for_selector("#if-laws .js-plotly-plot")


def what_if_sampled(visit: Visit) -> None:
    sampled(visit)
    what_if(visit)


RUN_PANEL = ".ev-charts:has(#see-the-run)"
IF_PANEL = ".ev-charts:has(#what-if)"

SHOTS = {
    "page": Shot(recorded, of=None),
    "page-dark": Shot(recorded, of=None, theme="dark"),
    "phone": Shot(recorded, of=None, context=PHONE),
    "phone-dark": Shot(sampled, of=None, theme="dark", context=PHONE),
    "running": Shot(running, of=None),
    "finished": Shot(finished),
    "stopped": Shot(stopped),
    "error": Shot(error, of=None),
    "step": Shot(inspected, of=STEP),
    "phases": Shot(phases, of=STEP),
    "hidden-verdicts": Shot(hidden, of=STEP),
    "table": Shot(table, of=STEP),
    "compare": Shot(compared, of=VIEWER),
    "menu": Shot(menu),
    "run": Shot(seen, of=RUN_PANEL),
    "run-dark": Shot(seen, of=RUN_PANEL, theme="dark"),
    "run-phone": Shot(seen, of=RUN_PANEL, theme="dark", context=PHONE),
    "what-if": Shot(what_if, of=IF_PANEL),
    "what-if-dark": Shot(what_if_sampled, of=IF_PANEL, theme="dark"),
    "what-if-phone": Shot(what_if, of=IF_PANEL, context=PHONE),
}


def take(browser: Any, address: str, name: str) -> None:
    shot = SHOTS[name]
    visit = Visit(browser, f"{address}?__theme={shot.theme}", **shot.context)
    visit.wait_for_status("Ready")
    shot.act(visit)
    visit.page.mouse.move(1, 1)
    visit.page.wait_for_timeout(SETTLED_MS)
    path = FOLDER / f"{name}.png"
    if shot.of is None:
        visit.page.screenshot(path=path, full_page=True)
    else:
        visit.page.locator(shot.of).screenshot(path=path)
    visit.close()
    assert visit.complaints == []


def main() -> None:
    names = sys.argv[1:] or list(SHOTS)
    port = free_port()
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        log = Path(folder) / "log"
        with served("tests/fake_app.py", str(port), "shipped", port=port, log=log) as address:
            for name in names:
                take(browser, address, name)


if __name__ == "__main__":
    main()
