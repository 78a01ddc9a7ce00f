"""Dropped candidates in Chromium: asked for on the page, shown and read by mouse and by keys."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from browsing import AXE, Visit

pytestmark = pytest.mark.browser

TITLE = ".ev-step-title"
DROPPED = ".ev-node.ev-dropped:not([display=none])"
TOGGLE = ".ev-toggle >> text=Dropped"
PLACES = (
    "[...document.querySelectorAll('.ev-node:not(.ev-dropped, [display=none])')]"
    ".map(node => [node.dataset.node, node.getAttribute('transform')])"
)


@pytest.fixture(scope="module")
def shared(browser: Any, address: str) -> Iterator[Visit]:
    visit = Visit(browser, address)
    visit.wait_for_status("Ready")
    visit.open_settings()
    visit.page.get_by_label("number input for Length").fill("24")
    visit.page.get_by_label("Record dropped candidates").check()
    visit.close_settings()
    visit.page.fill("#prompt textarea", "Tell me a story.")
    visit.page.click("#run")
    visit.wait_for_status("Done.")
    yield visit
    visit.close()


@pytest.fixture
def visit(shared: Visit) -> Iterator[Visit]:
    shared.to_first_step()
    page = shared.page
    page.wait_for_selector(DROPPED, state="detached")
    page.focus(".ev-panel")
    yield shared
    assert shared.complaints == []


def test_a_click_shows_them_and_moves_no_other_node(visit: Visit) -> None:
    page = visit.page
    before = page.evaluate(PLACES)
    assert "dropped" not in visit.text(".ev-step-about")
    page.click(TOGGLE)
    page.wait_for_selector(DROPPED)
    after = dict(page.evaluate(PLACES))
    assert all(after.get(node, place) == place for node, place in before)
    assert " drafted + 27 dropped" in visit.text(".ev-step-about")
    visit.see(".ev-unseen[aria-live]", "Step 1 of ")
    assert "27 dropped" in visit.text(".ev-unseen[aria-live]")
    page.click(TOGGLE)
    page.wait_for_selector(DROPPED, state="detached")
    assert page.evaluate(PLACES) == before


def test_the_inspector_says_why_one_was_dropped(visit: Visit) -> None:
    page = visit.page
    page.click(TOGGLE)
    page.locator(DROPPED).first.click()
    visit.see(".ev-inspector .ev-reason", "Never shown to the target: its path value is 0.004")
    assert "the smallest one kept is 0.0123" in visit.text(".ev-inspector")
    assert "dropped" in visit.text(".ev-inspector .ev-verdict")
    bars = page.locator(".ev-inspector .ev-bars dt").all_text_contents()
    assert bars == ["Draft probability"]
    page.click(TOGGLE)
    page.wait_for_selector(".ev-inspector .ev-verdict:not(.ev-dropped)")


def test_a_key_shows_them_and_arrows_reach_them(visit: Visit) -> None:
    page = visit.page
    page.focus(".ev-node[tabindex='0']")
    page.keyboard.press("d")
    page.wait_for_selector(DROPPED)
    for _ in range(40):
        page.keyboard.press("ArrowDown")
    page.wait_for_selector(".ev-node.ev-dropped.ev-selected")
    assert page.evaluate("document.activeElement.matches('.ev-dropped[aria-selected=true]')")
    assert ", dropped, draft probability " in visit.text(".ev-dropped.ev-selected title")
    page.keyboard.press("d")
    page.wait_for_selector(DROPPED, state="detached")
    assert page.evaluate("document.activeElement.matches('.ev-node.ev-selected')")


def test_the_table_lists_them(visit: Visit) -> None:
    page = visit.page
    page.keyboard.press("t")
    rows = page.locator(".ev-table tbody tr")
    page.wait_for_selector(".ev-table tbody tr")
    before = rows.count()
    page.focus(".ev-panel")
    page.keyboard.press("d")
    page.wait_for_selector(".ev-table tr[data-verdict=dropped]")
    assert rows.count() == before + 27
    page.locator(".ev-table tr[data-verdict=dropped] button").first.press("Enter")
    visit.see(".ev-inspector .ev-reason", "Never shown to the target")


def test_it_is_offered_only_where_there_are_any(visit: Visit) -> None:
    page = visit.page
    page.keyboard.press("l")
    visit.see(TITLE, "Plain pass 1 of ")
    page.wait_for_selector(TOGGLE, state="hidden")
    page.keyboard.press("d")
    page.keyboard.press("l")
    visit.see(TITLE, "Step 1 of ")
    assert page.is_visible(TOGGLE)
    assert page.locator(DROPPED).count() == 0
    page.focus(TOGGLE)
    page.keyboard.press("Enter")
    page.wait_for_selector(DROPPED)
    page.keyboard.press("l")
    visit.see(TITLE, "Plain pass 1 of ")
    assert page.evaluate("document.activeElement.matches('.ev-toggle')"), "the focus is not lost"
    page.keyboard.press("l")


def test_hidden_verdicts_and_phases_go_with_them(visit: Visit) -> None:
    page = visit.page
    page.keyboard.press("d")
    page.keyboard.press("h")
    page.wait_for_selector(".ev-node.ev-drafted")
    assert page.locator(DROPPED).count() > 0
    page.keyboard.press("]")
    visit.see(".ev-phase-text", "The head drafts level 1")
    shallow = page.locator(DROPPED).count()
    assert 0 < shallow < 27
    page.keyboard.press("[")
    page.keyboard.press("h")


def test_axe_finds_nothing(visit: Visit) -> None:
    page = visit.page
    page.keyboard.press("d")
    page.wait_for_selector(DROPPED)
    page.evaluate(AXE.read_text("utf-8"))
    found = page.evaluate("axe.run('.ev', {resultTypes: ['violations']})")
    assert [one["id"] for one in found["violations"]] == []


def test_a_reload_and_a_saved_trace_bring_them_back(visit: Visit) -> None:
    page = visit.page
    trace = page.evaluate("document.querySelector('.eagle-viewer').state.trace")
    assert trace["settings"]["record_dropped"] is True
    steps = [event for event in trace["lanes"][1]["events"] if "dropped" in event]
    assert len(steps) > 3
    assert "dropped" not in json.dumps(trace["lanes"][0])
    page.reload()
    visit.see(".ev-badge", "Last run of this tab")
    page.focus(".ev-panel")
    page.keyboard.press("d")
    page.wait_for_selector(DROPPED)


def test_panels_are_asked_without_them(visit: Visit) -> None:
    """Most of a trace may be what was dropped."""
    page = visit.page
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.post_data or ""))
    page.click("#head-report-panel button >> nth=0")
    visit.see(".ev-report caption", "Accepted by depth")
    asked = [text for text in sent if "verdicts" in text]
    assert asked
    assert all('\\"dropped\\"' not in text for text in asked)
