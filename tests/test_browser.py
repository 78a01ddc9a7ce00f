"""The page in Chromium: first over a bench without a model, then the real app."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from browsing import Visit, free_port, served

pytestmark = pytest.mark.browser

TIMES = "\u00d7"
TITLE = ".ev-step-title"
LANE = ".ev-lane-{} .ev-text"


def test_a_recorded_run_is_there_at_first_sight(visit: Visit) -> None:
    visit.wait_for_status("Ready")
    assert visit.text(".ev-badge") == "Recorded run: Story"
    assert visit.text(".ev-speedup").endswith(TIMES)
    visit.page.wait_for_selector(".ev-node >> nth=20")


def test_a_run_fills_both_lanes_and_ends_with_a_verdict(visit: Visit) -> None:
    visit.ask("Hello", length=48)
    visit.wait_for_status("Done.")
    plain, eagle = (visit.text(LANE.format(method)) for method in ("plain", "eagle"))
    assert plain == eagle
    assert len(plain) > 100
    assert "all 48 tokens are equal" in visit.text(".ev-same")
    assert float(visit.text(".ev-speedup").rstrip(TIMES)) > 1
    assert visit.page.locator(".ev-chip.ev-accepted").count() > 5
    assert visit.page.locator(".ev-chip.ev-bonus").count() > 5
    visit.page.wait_for_selector("#run:enabled")
    visit.page.wait_for_selector("#stop:disabled")


def test_stop_keeps_what_was_done_and_the_page_usable(visit: Visit) -> None:
    visit.ask("Hello", length=512)
    visit.page.wait_for_selector(f"{LANE.format('plain')} [data-step='9']")
    visit.page.click("#stop")
    visit.wait_for_status("Stopped")
    visit.page.wait_for_selector('.ev[data-phase="stopped"]')
    visit.page.wait_for_selector(".ev-node >> nth=1")
    visit.page.focus(".ev-panel")
    visit.page.keyboard.press("Home")
    visit.see(TITLE, "Step 1 of ")
    visit.page.wait_for_selector("#run:enabled")
    visit.ask("Again", length=16)
    visit.wait_for_status("Done.")


def test_stop_takes_the_run_that_was_asked_for_a_moment_ago(visit: Visit) -> None:
    for _ in range(3):
        visit.ask("Short", length=16)
        visit.wait_for_status("Done.")
        visit.ask("Long", length=512)
        visit.page.click("#stop")
        visit.wait_for_status("Stopped")
        visit.page.wait_for_selector("#run:enabled")


def test_time_is_moved_by_slider_bars_and_tokens(visit: Visit) -> None:
    visit.wait_for_status("Ready")
    page = visit.page
    page.focus(".ev-slider")
    page.keyboard.press("End")
    visit.see(TITLE, "Step 37 of 37")
    page.locator(".ev-slider").fill("5")
    visit.see(TITLE, "Step 5 of ")
    page.click(f"{LANE.format('eagle')} [data-step='6']")
    visit.see(TITLE, "Step 7 of ")
    page.click(".ev-bars-of-steps", position={"x": 9, "y": 30})
    visit.see(TITLE, "Step 1 of ")
    page.click(f"{LANE.format('plain')} [data-step='3']")
    visit.see(TITLE, "Plain pass 4 of ")


def test_the_inspector_explains_the_node_that_is_picked(visit: Visit) -> None:
    visit.wait_for_status("Ready")
    page = visit.page
    page.click(".ev-node.ev-refused >> nth=0")
    visit.see(".ev-verdict", "✕ refused")
    assert "is not below the acceptance probability" in visit.text(".ev-reason")
    assert "≥" in visit.text(".ev-arithmetic")
    page.click(".ev-node.ev-bonus")
    visit.see(".ev-verdict", "◆ bonus token")


def test_typing_a_prompt_moves_no_step(visit: Visit) -> None:
    visit.wait_for_status("Ready")
    before = visit.text(TITLE)
    visit.page.click("#prompt textarea")
    visit.page.keyboard.type("a b")
    visit.page.keyboard.press("Home")
    assert visit.text(TITLE) == before
    assert visit.page.input_value("#prompt textarea") == "a b"


def test_hostile_text_is_shown_and_never_run(visit: Visit) -> None:
    visit.ask("<img src=x onerror='window.hacked=5'>${window.hacked=6}", length=256)
    visit.wait_for_status("Done.")
    shown = visit.text(LANE.format("eagle"))
    for piece in ("<img src=x onerror='window.hacked=1'>", "${window.hacked=2}", "{{window."):
        assert piece in shown
    assert visit.page.evaluate("window.hacked") is None
    assert visit.page.locator(".ev img, .ev script").count() == 0


@pytest.mark.parametrize(
    ("prompt", "words"),
    [("", "The prompt is empty"), ("a" * 100_000, "A prompt of 100,000 characters")],
    ids=["empty", "long"],
)
def test_a_wrong_prompt_is_refused_in_words(visit: Visit, prompt: str, words: str) -> None:
    visit.wait_for_status("Ready")
    visit.ask(prompt)
    visit.wait_for_status(words)
    visit.page.wait_for_selector("#run:enabled")
    visit.ask("Hello", length=16)
    visit.wait_for_status("Done.")


def test_a_waiting_run_can_be_taken_back_and_a_closed_tab_gives_way(
    browser: Any, address: str, visit: Visit
) -> None:
    other = Visit(browser, address)
    other.wait_for_status("Ready")
    visit.wait_for_status("Ready")
    other.ask("First in line", length=256)
    other.page.wait_for_selector('.ev[data-phase="running"]')
    visit.ask("Second in line", length=16)
    visit.page.click("#stop:enabled")
    visit.wait_for_status("Stopped before it began.")
    visit.page.wait_for_selector("#run:enabled")
    other.wait_for_status("Done.")
    other.ask("A long one", length=512)
    other.page.wait_for_selector('.ev[data-phase="running"]')
    assert visit.text(".ev-badge") == "Recorded run: Story", "the run taken back has not begun"
    other.close()
    visit.ask("After a closed tab", length=16)
    visit.wait_for_status("Done.", timeout_s=20)
    assert other.complaints == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_phone_scrolls_only_downwards(browser: Any, address: str, theme: str) -> None:
    phone = {"viewport": {"width": 390, "height": 844}, "reduced_motion": "reduce"}
    visit = Visit(browser, f"{address}?__theme={theme}", **phone)
    visit.wait_for_status("Ready")
    assert visit.page.evaluate("document.documentElement.scrollWidth") == 390
    assert visit.page.evaluate(
        "(() => { const box = document.querySelector('.ev-tree-box');"
        " return box.scrollWidth > box.clientWidth })()"
    )
    visit.close()
    assert visit.complaints == []


@pytest.mark.weights
def test_the_real_app_answers_a_prompt(browser: Any, tmp_path: Path) -> None:
    port = free_port()
    with served("app.py", "--port", str(port), port=port, log=tmp_path / "log") as address:
        visit = Visit(browser, address)
        visit.wait_for_status("Ready", timeout_s=600)
        visit.ask("Write the numbers from one to ten as words.", length=32)
        visit.page.wait_for_selector(f"{LANE.format('plain')} [data-step='1']", timeout=120_000)
        visit.page.wait_for_selector(f"{LANE.format('eagle')} [data-step='1']", timeout=120_000)
        visit.page.wait_for_selector(".ev-node")
        visit.wait_for_status("Done.", timeout_s=240)
        assert visit.text(LANE.format("plain")) == visit.text(LANE.format("eagle"))
        visit.page.focus(".ev-panel")
        visit.page.keyboard.press("Home")
        visit.see(TITLE, "Step 1 of ")
        visit.ask("Write a very long story about the sea.", length=512)
        visit.page.click("#stop")
        visit.wait_for_status("Stopped")
        visit.close()
        assert visit.complaints == []
