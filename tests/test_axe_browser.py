"""axe-core over the whole page, in every state a visitor can bring it to.

Two themes, two widths, motion or not: four visits have every pair of these, and each visit has
every state, so that all pairs are seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import AXE, ROOT, Visit, free_port, served

pytestmark = pytest.mark.browser

TRACES = ROOT / "assets" / "traces"
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
LOOKS = {
    "light-desktop-moving": ("light", DESKTOP, "no-preference"),
    "light-phone-still": ("light", PHONE, "reduce"),
    "dark-desktop-still": ("dark", DESKTOP, "reduce"),
    "dark-phone-moving": ("dark", PHONE, "no-preference"),
}
GRADIOS_OWN = {  # out of our reach, each for a reason
    ("image-redundant-alt", 'img[alt="Settings"]'),  # the icon of the footer's own button
}
MOVING = """document.getAnimations().filter((one) => one.playState === "running")
  .map((one) => one.animationName)"""
SETTLED = """document.getAnimations().every(
  (one) => one.playState !== "running" || one.effect.getTiming().iterations === Infinity)"""


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A page without a recording."""
    port = free_port()
    log = tmp_path_factory.mktemp("bare") / "log"
    with served("tests/fake_app.py", str(port), "bare", port=port, log=log) as address:
        yield address


def empty(visit: Visit) -> None:
    visit.page.wait_for_selector(".ev-empty:visible")


def running(visit: Visit) -> None:
    visit.ask("Tell me a story.", length=512)
    visit.page.wait_for_selector(".ev-lane-plain [data-step='24']")


def stopped(visit: Visit) -> None:
    visit.page.click("#stop")
    visit.page.wait_for_selector('.ev[data-phase="stopped"]')
    visit.page.wait_for_selector("#run:enabled")


def refused(visit: Visit) -> None:
    visit.ask("")
    visit.wait_for_status("The prompt is empty")
    visit.page.wait_for_selector("#run:enabled")


def finished(visit: Visit) -> None:
    visit.ask("Hello", length=24)
    visit.wait_for_status("Done.")
    visit.page.wait_for_selector("#run:enabled")


def follow_up(visit: Visit) -> None:
    visit.page.check("#follow-up input")
    visit.ask("And then?")
    visit.wait_for_status("Running")
    visit.wait_for_status("Done.")
    visit.page.wait_for_selector(".ev-turns li >> nth=1")
    visit.page.uncheck("#follow-up input")


def inspected(visit: Visit) -> None:
    visit.page.click(".ev-node.ev-refused >> nth=0")
    visit.page.click("text=Keys, while this viewer has the focus")


def phases(visit: Visit) -> None:
    visit.page.click(".ev-phase-target")


def hidden(visit: Visit) -> None:
    visit.page.click("text=Hide verdicts")
    visit.page.wait_for_selector(".ev-node.ev-drafted")


def table(visit: Visit) -> None:
    visit.page.click(".ev-toggle >> text=Table")
    visit.page.wait_for_selector(".ev-table")


def explained(visit: Visit) -> None:
    """A word's meaning is shown."""
    visit.page.focus(".ev-lane-eagle .ev-term >> nth=0")
    visit.page.wait_for_selector("#ev-meaning:not([hidden])")


def open_with(visit: Visit, item: str, path: Path) -> None:
    if not visit.page.locator(".ev-share[open]").count():
        visit.page.click(".ev-share summary")
    with visit.page.expect_file_chooser() as chooser:
        visit.page.click(f"text={item}")
    chooser.value.set_files(path)


def damaged(visit: Visit) -> None:
    open_with(visit, "Open a trace…", ROOT / "README.md")
    visit.see(".ev-share-said", "Could not open")


def opened(visit: Visit) -> None:
    open_with(visit, "Open a trace…", TRACES / "03-story-sampled.json")
    visit.see(".ev-badge", "Opened: ")


def compared(visit: Visit) -> None:
    open_with(visit, "Compare with a trace…", TRACES / "01-code.json")
    visit.page.wait_for_selector(".ev-compare:not([hidden])")


def panel(name: str, sign: str) -> Callable[[Visit], None]:
    def act(visit: Visit) -> None:
        visit.page.get_by_role("button", name=name).click()
        visit.page.wait_for_selector(sign)

    act.__name__ = name
    return act


def running_again(visit: Visit) -> None:
    """Below the run the open panels still speak of the trace before it."""
    visit.ask("Tell me a story.", length=512)
    visit.page.wait_for_selector(".ev-lane-plain [data-step='9']")


def settings(visit: Visit) -> None:
    visit.page.evaluate("document.querySelector('#stop').click()")  # nothing where it has ended
    visit.page.wait_for_selector("#run:enabled")
    visit.page.get_by_role("button", name="Lossy").click()
    visit.page.wait_for_selector(".ev-badge-lossy")
    visit.open_settings()
    for name in ("Sampling", "Penalties and stops"):
        visit.page.get_by_role("button", name=name).click()


STATES: tuple[Callable[[Visit], None], ...] = (
    *(empty, running, stopped, refused, finished, follow_up, inspected, phases, explained),
    *(hidden, table, damaged, opened, compared),
    panel("See the run", "#by-branch .js-plotly-plot"),
    panel("What if", "#if-laws .js-plotly-plot"),
    panel("Where the head fails", ".ev-report caption"),
    panel("A tree by hand", ".ev-plan button"),
    running_again,
    settings,
)


def violations(visit: Visit) -> list[str]:
    visit.page.wait_for_function(SETTLED)  # half-seen colours are none
    found = visit.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{one['id']}: {node['target']} {node['html'][:200]} {node['failureSummary']}"
        for one in found["violations"]
        for node in one["nodes"]
        if (one["id"], node["target"][-1]) not in GRADIOS_OWN
    ]


@pytest.mark.parametrize("look", LOOKS)
def test_axe_finds_nothing_in_any_state(browser: Any, bare: str, look: str) -> None:
    theme, viewport, motion = LOOKS[look]
    visit = Visit(browser, f"{bare}?__theme={theme}", viewport=viewport, reduced_motion=motion)
    visit.wait_for_status("Ready")
    visit.page.evaluate(AXE.read_text("utf-8"))
    found: dict[str, list[str]] = {}
    for state in STATES:
        state(visit)
        found[state.__name__] = violations(visit)
        if state is running:
            assert ("ev-pulse" in visit.page.evaluate(MOVING)) is (motion != "reduce")
    visit.page.evaluate("document.body.append(document.createElement('img'))")
    assert any("image-alt" in one for one in violations(visit)), "a planted fault is found"
    visit.close()
    assert {state: broken for state, broken in found.items() if broken} == {}
    assert visit.complaints == []
