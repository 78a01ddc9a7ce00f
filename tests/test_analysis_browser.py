"""The panels below the viewer in Chromium: opened, and following the trace on show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from browsing import Visit

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parent.parent
LAST_CHART = "#by-branch .js-plotly-plot"


def last_token(visit: Visit) -> int:
    """Of EAGLE's stair in the first chart."""
    return int(
        visit.page.evaluate(
            "document.querySelector('#over-time .js-plotly-plot')?.data.at(-1).y.at(-1) ?? 0"
        )
    )


def wait_for_last_token(visit: Visit, token: int) -> None:
    visit.page.wait_for_function(
        "token => document.querySelector('#over-time .js-plotly-plot')"
        "?.data.at(-1).y.at(-1) === token",
        arg=token,
    )


def test_figures_come_when_their_panel_is_opened_and_follow_the_run(visit: Visit) -> None:
    page = visit.page
    assert page.locator(".js-plotly-plot").count() == 0
    page.click("text=See the run")
    page.wait_for_selector(LAST_CHART)
    assert last_token(visit) == 96
    visit.ask("Hello", length=32)
    visit.wait_for_status("Done.")
    wait_for_last_token(visit, 32)
    page.click("text=See the run")
    page.wait_for_selector(LAST_CHART, state="hidden")
    visit.ask("Hello again", length=24)
    visit.wait_for_status("Done.")
    assert last_token(visit) in (0, 32), "a closed panel costs nothing"


def test_the_panel_opens_by_keyboard_and_takes_a_file(visit: Visit, tmp_path: Path) -> None:
    page = visit.page
    page.get_by_role("button", name="See the run").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(LAST_CHART)
    recorded = json.loads((ROOT / "assets" / "traces" / "01-code.json").read_text("utf-8"))
    page.set_input_files(".ev-share input[type=file]", ROOT / "assets" / "traces" / "01-code.json")
    visit.see(".ev-badge", "Opened: 01-code.json")
    eagle = next(lane for lane in recorded["lanes"] if lane["method"] == "eagle")
    wait_for_last_token(visit, sum(len(event["text"]) for event in eagle["events"]))
    page.wait_for_selector("#entropy .js-plotly-plot .point >> nth=20", state="attached")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_on_a_phone_figures_fit_and_read_on_their_ground(
    browser: Any, address: str, theme: str
) -> None:
    phone = {"viewport": {"width": 390, "height": 844}, "reduced_motion": "reduce"}
    visit = Visit(browser, f"{address}?__theme={theme}", **phone)
    visit.wait_for_status("Ready")
    visit.page.click("text=See the run")
    visit.page.wait_for_selector(LAST_CHART)
    assert visit.page.evaluate("document.documentElement.scrollWidth") == 390
    widest = visit.page.evaluate(
        "Math.max(...[...document.querySelectorAll('.js-plotly-plot svg')]"
        ".map(svg => svg.getBoundingClientRect().right))"
    )
    assert widest <= 390
    ink, ground = visit.page.evaluate(
        "(() => { const tick = document.querySelector('#over-time .xtick text');"
        " const background = document.querySelector('#over-time .main-svg').style.background;"
        " return [getComputedStyle(tick).fill, background]; })()"
    )
    lightness = sum(int(part) for part in ink.removeprefix("rgb(").rstrip(")").split(", ")[:3])
    assert (lightness > 384) is (theme == "dark"), "the ink follows the theme"
    assert ground in ("rgba(0, 0, 0, 0)", "transparent", "")
    visit.close()
    assert visit.complaints == []


def open_what_if(visit: Visit) -> None:
    page = visit.page
    page.get_by_role("button", name="What if").click()
    page.wait_for_selector("#if-speedup .js-plotly-plot")
    page.wait_for_selector("#if-laws .js-plotly-plot")


def test_another_tree_and_another_clock_are_chosen_by_mouse(visit: Visit) -> None:
    page = visit.page
    open_what_if(visit)
    page.wait_for_selector("#if-answer :text('Chain of 3, what if')")
    page.click("#if-tree input")
    page.get_by_role("option", name="Tree of 8", exact=True).click()
    page.wait_for_selector("#if-answer :text('Tree of 8, what if')")
    page.wait_for_selector("#if-answer :text('exact for every recorded step')")
    page.click("#if-clock input")
    page.get_by_role("option", name="Example: RTX 3090").click()
    page.wait_for_selector("#if-answer :text('not measured here')")


def test_a_tree_is_chosen_by_keyboard(visit: Visit) -> None:
    page = visit.page
    page.get_by_role("button", name="What if").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#if-answer table")
    page.focus("#if-tree input")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_selector("#if-answer th:not(:text('Chain of 3, what if')):text('what if')")


def test_the_step_on_show_is_frozen_and_heated(visit: Visit) -> None:
    page = visit.page
    open_what_if(visit)
    page.focus(".ev-panel")
    page.keyboard.press("Home")
    visit.see(".ev-step-title", "Step 1 of ")
    page.get_by_role("button", name="Take the step on show").press("Enter")
    page.wait_for_selector("#if-step :text('Step 1 at T = 0.8')")
    page.focus("#if-heat input[type=range]")
    page.keyboard.press("Home")
    page.wait_for_selector("#if-step :text('Step 1 at T = 0, rule greedy')")
    page.focus(".ev-panel")
    page.keyboard.press(".")
    visit.see(".ev-step-title", "Step 2 of ")
    page.focus("#if-heat input[type=range]")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#if-step :text('Step 1 at T = 0.05')")
    page.click("#if-freeze")
    page.wait_for_selector("#if-step :text('Step 2 at T = 0.05')")


def test_answers_follow_a_new_run(visit: Visit) -> None:
    open_what_if(visit)
    visit.ask("Hello", length=32)
    visit.wait_for_status("Done.")
    visit.page.wait_for_selector("#if-answer th:text('Tree of 12, as recorded')")
    visit.page.wait_for_selector("#if-step :text-matches('recorded at T = 0$')")
