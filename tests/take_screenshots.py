"""Pictures of the page in every state: `python tests/take_screenshots.py [NAME …]`.

Writes assets/screenshots/*.png, all of them or those named. What a picture shows of a run is one
of the shipped recordings; a run under way is the made-up bench's (`tests/fake_app.py`), whose words
and times mean nothing.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
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
PAGE, WINDOW = "the whole page", "what of it is seen without scrolling"
VIEWER, STEP = "#viewer", ".ev-panel >> nth=0"
SETTLED_MS = 700  # fonts, figures and the pulse of the status line


@dataclass(frozen=True)
class Shot:
    """act: what is done before the picture; of: the element on it, or PAGE, or WINDOW; shown:
    which recordings the page has, as `tests/fake_app.py` names them."""

    act: Callable[[Visit], None]
    of: str = VIEWER
    shown: str = "shipped"
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


def empty(visit: Visit) -> None:
    visit.page.wait_for_selector(".ev-empty:visible")


def settings(visit: Visit) -> None:
    recorded(visit)
    visit.page.get_by_role("button", name="Lossy").click()
    visit.open_settings()


def conversation(visit: Visit) -> None:
    finished(visit)
    visit.page.check("#follow-up input")
    visit.ask("And then?")
    visit.wait_for_status("Running")
    visit.wait_for_status("Done.")


def head_report(visit: Visit) -> None:
    recorded(visit)
    visit.page.get_by_role("button", name="Where the head fails").click()
    visit.page.wait_for_selector(".ev-report caption")


def tree_by_hand(visit: Visit) -> None:
    recorded(visit)
    visit.page.get_by_role("button", name="A tree by hand").click()
    visit.page.click(".ev-plan [data-node='00']")
    visit.page.wait_for_selector(".ev-plan [data-node='00'][aria-pressed='true']")


def dropped(visit: Visit) -> None:
    visit.open_settings()
    visit.page.get_by_label("Record dropped candidates").check()
    visit.close_settings()
    finished(visit)
    visit.to_first_step()
    visit.page.click(".ev-toggle >> text=Dropped")
    visit.page.click(".ev-node.ev-dropped:not([display=none]) >> nth=0")


def opened(visit: Visit) -> None:
    with visit.page.expect_file_chooser() as chooser:
        visit.page.click(".ev-share summary")
        visit.page.click("text=Open a trace…")
    chooser.value.set_files(ROOT / "assets" / "traces" / "03-story-sampled.json")
    visit.see(".ev-badge", "Opened: ")


RUN_PANEL = ".ev-charts:has(#see-the-run)"
HEAD_PANEL, TREE_PANEL = "#head-report-panel", "#by-hand"
IF_PANEL = ".ev-charts:has(#what-if)"

SHOTS = {
    "page": Shot(recorded, of=PAGE),
    "page-dark": Shot(recorded, of=PAGE, theme="dark"),
    "phone": Shot(recorded, of=PAGE, context=PHONE),
    "phone-dark": Shot(sampled, of=PAGE, theme="dark", context=PHONE),
    "running": Shot(running, of=PAGE),
    "finished": Shot(finished),
    "stopped": Shot(stopped),
    "error": Shot(error, of=PAGE),
    "step": Shot(inspected, of=STEP),
    "phases": Shot(phases, of=STEP),
    "hidden-verdicts": Shot(hidden, of=STEP),
    "table": Shot(table, of=STEP),
    "dropped": Shot(dropped, of=STEP),
    "compare": Shot(compared, of=VIEWER),
    "menu": Shot(menu),
    "run": Shot(seen, of=RUN_PANEL),
    "run-dark": Shot(seen, of=RUN_PANEL, theme="dark"),
    "run-phone": Shot(seen, of=RUN_PANEL, theme="dark", context=PHONE),
    "what-if": Shot(what_if, of=IF_PANEL),
    "what-if-dark": Shot(what_if_sampled, of=IF_PANEL, theme="dark"),
    "empty": Shot(empty, of=PAGE, shown="bare"),
    "empty-phone": Shot(empty, of=PAGE, shown="bare", theme="dark", context=PHONE),
    "opened": Shot(opened),
    "settings": Shot(settings, of=WINDOW),
    "settings-dark": Shot(settings, of=WINDOW, theme="dark"),
    "settings-phone": Shot(settings, of=".ev-sidebar", context=PHONE),
    "conversation": Shot(conversation, of=WINDOW),
    "head-report": Shot(head_report, of=HEAD_PANEL),
    "head-report-dark": Shot(head_report, of=HEAD_PANEL, theme="dark"),
    "head-report-phone": Shot(head_report, of=HEAD_PANEL, context=PHONE),
    "tree-by-hand": Shot(tree_by_hand, of=TREE_PANEL),
    "tree-by-hand-dark": Shot(tree_by_hand, of=TREE_PANEL, theme="dark"),
    "tree-by-hand-phone": Shot(tree_by_hand, of=TREE_PANEL, context=PHONE),
    "table-phone": Shot(table, of=STEP, theme="dark", context=PHONE),
    "compare-phone": Shot(compared, of=".ev-compare", context=PHONE),
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
    if shot.of in (PAGE, WINDOW):
        visit.page.screenshot(path=path, full_page=shot.of is PAGE)
    else:
        visit.page.locator(shot.of).screenshot(path=path)
    visit.close()
    assert visit.complaints == []


def main() -> None:
    names = sys.argv[1:] or list(SHOTS)
    pages = sorted({SHOTS[name].shown for name in names})
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        browser = stack.enter_context(chromium())
        addresses = {shown: stack.enter_context(page_with(shown, folder)) for shown in pages}
        for name in names:
            take(browser, addresses[SHOTS[name].shown], name)


def page_with(shown: str, folder: Path) -> AbstractContextManager[str]:
    port = free_port()
    log = folder / shown
    return served("tests/fake_app.py", str(port), shown, port=port, log=log)


if __name__ == "__main__":
    main()
