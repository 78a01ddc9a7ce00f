"""The viewer in Chromium: reading a step and moving in time, by mouse and by keyboard.

One page for all tests of this file: each begins at the first step of the recorded run.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browsing import Visit

pytestmark = pytest.mark.browser

TITLE = ".ev-step-title"
SELECTED = ".ev-node.ev-selected"
QUOTE = "\u2039"


@pytest.fixture
def visit(shared: Visit) -> Iterator[Visit]:
    shared.to_first_step()
    yield shared
    assert shared.complaints == []


def told(verdicts: str) -> str:
    """Drawn nodes with one of these verdicts."""
    kinds = ", ".join(f".ev-{verdict}" for verdict in verdicts.split(", "))
    return f".ev-node:is({kinds}):not([display=none])"


def press(visit: Visit, *keys: str) -> None:
    for key in keys:
        visit.page.keyboard.press(key)


def test_keys_move_steps_and_the_status_line_announces_them(visit: Visit) -> None:
    press(visit, "ArrowRight", "ArrowRight")
    visit.see(TITLE, "Step 3 of ")
    visit.see(".ev-unseen[aria-live]", "Step 3 of 37: ")
    press(visit, "Shift+ArrowRight")
    visit.see(TITLE, "Step 13 of ")
    press(visit, "l")
    visit.see(TITLE, "Plain pass ")
    press(visit, "l", "End")
    visit.see(TITLE, "Step 37 of ")


def test_arrows_go_from_node_to_node_within_the_tree(visit: Visit) -> None:
    page = visit.page
    page.click(".ev-node[data-node='0']")
    press(visit, "ArrowRight")
    page.wait_for_selector(f"{SELECTED}[data-node='1']")
    press(visit, "ArrowDown")
    page.wait_for_function("document.querySelector('.ev-selected').dataset.node !== '1'")
    assert page.evaluate("document.activeElement.matches('.ev-selected[aria-selected=true]')")
    press(visit, "ArrowLeft")
    page.wait_for_selector(f"{SELECTED}[data-node='0']")
    press(visit, ".")
    visit.see(TITLE, "Step 2 of ")
    assert page.evaluate("document.activeElement.matches('[role=treeitem]')")


def test_tab_reaches_every_tool_in_reading_order(visit: Visit) -> None:
    order = visit.page.evaluate(
        "[...document.querySelectorAll('.ev-panel button, .ev-panel input, .ev-panel select,"
        ' .ev-panel [tabindex="0"]\')].filter(one => one.checkVisibility())'
        ".map(one => one.getAttribute('aria-label') ?? one.textContent)"
    )
    names = ["EAGLE", "First step (Home)", "Step", "Draft level 1", "Hide verdicts", "Table"]
    places = [order.index(name) for name in names]
    assert places == sorted(places)
    assert visit.page.locator(".ev [tabindex]:not([tabindex='0'], [tabindex='-1'])").count() == 0


def test_a_step_plays_by_phases(visit: Visit) -> None:
    page = visit.page
    numbers = page.locator(".ev-node:not([display=none])")
    press(visit, "]")
    visit.see(".ev-phase-text", "The head drafts level 1")
    drafted = numbers.count()
    press(visit, "]")
    visit.see(".ev-phase-text", "The head drafts level 2")
    assert numbers.count() > drafted
    assert page.locator(told("accepted, bonus")).count() == 0
    page.click(".ev-phase-target")
    visit.see(".ev-phase-text", "One target pass scores")
    press(visit, "]")
    visit.see(".ev-phase-text", QUOTE)
    visit.see(".ev-unseen[aria-live]", f"Step 1 of 37: {QUOTE}")
    page.click(".ev-phase-commit")
    visit.see(".ev-phase-text", "Commit ")
    page.wait_for_selector(".ev-node.ev-bonus")
    press(visit, "]")
    page.wait_for_selector(".ev-phase[aria-pressed=true]", state="detached")


def test_verdicts_can_be_hidden_until_they_are_told(visit: Visit) -> None:
    page = visit.page
    press(visit, "h")
    page.wait_for_selector(".ev-node.ev-drafted")
    assert page.locator(told("accepted, refused, unreached, bonus")).count() == 0
    page.wait_for_selector(".ev-lane-eagle [data-step='0'] .ev-chip", state="hidden")
    assert "drafted" in visit.text(".ev-step-about")
    assert page.locator(".ev-phase-coin").count() > 1
    assert page.locator(".ev-phase-coin:visible").count() == 1, "their number would tell"
    assert page.is_hidden(".ev-bars-of-steps"), "as would their heights"
    assert "accepted" not in visit.text(".ev-panel .ev-stage-box")
    press(visit, "ArrowRight")
    page.wait_for_selector(".ev-lane-eagle [data-step='0'] .ev-chip")
    page.click("text=Hide verdicts")
    page.wait_for_selector(".ev-node.ev-unreached, .ev-node.ev-refused")


def test_the_table_tells_what_the_tree_tells(visit: Visit) -> None:
    page = visit.page
    spoken = page.locator(f"{told('refused, accepted')} title").all_text_contents()
    press(visit, "t")
    page.wait_for_selector(".ev-table tbody tr")
    assert page.is_hidden(".ev-tree-box")
    rows = page.evaluate(
        "[...document.querySelectorAll('.ev-table tbody tr')]"
        ".map(row => [...row.cells].map(cell => cell.textContent))"
    )
    judged = [row for row in rows if row[-1] in ("accepted", "refused")]
    assert len(judged) >= len(spoken) > 0
    for row in judged:
        facts = (row[-1], f"draft probability {row[4]}", f"acceptance probability {row[6]}")
        assert len([one for one in spoken if all(fact in one for fact in facts)]) > 0
    page.focus(".ev-table tbody tr:nth-child(3) button")
    press(visit, "Enter")
    page.wait_for_selector(".ev-table tr:nth-child(3)[aria-current]")
    assert page.evaluate("document.activeElement.matches('tr:nth-child(3) button')")


def test_the_tree_zooms_fits_and_is_dragged(visit: Visit) -> None:
    page = visit.page
    width = "document.querySelector('.ev-tree').getBoundingClientRect().width"
    before = page.evaluate(width)
    press(visit, "+", "+")
    page.wait_for_function(f"{width} > {1.4 * before}")
    box = page.locator(".ev-tree-box").first.bounding_box()
    page.mouse.move(box["x"] + 300, box["y"] + box["height"] - 20)
    page.mouse.down()
    page.mouse.move(box["x"] + 180, box["y"] + box["height"] - 80)
    page.mouse.up()
    left = page.evaluate("document.querySelector('.ev-tree-box').scrollLeft")
    assert left > 0
    press(visit, ".")
    visit.see(TITLE, "Step 2 of ")
    assert page.evaluate(width) > 1.4 * before, "the zoom is kept from step to step"
    page.get_by_label("Whole tree, or back (0)").click()
    page.wait_for_function(
        "(() => { const box = document.querySelector('.ev-tree-box');"
        " return box.scrollWidth <= box.clientWidth && box.scrollHeight <= box.clientHeight })()"
    )
    press(visit, "0")
    page.wait_for_function(f"Math.abs({width} - {before}) < 2")


def test_words_tell_their_meaning_to_mouse_and_keyboard(visit: Visit) -> None:
    page = visit.page
    page.hover(".ev-inspector .ev-term >> nth=0")
    page.wait_for_selector("#ev-meaning:not([hidden])")
    press(visit, "Escape")
    page.mouse.move(1, 1)  # what is drawn anew under a resting pointer counts as pointed at
    page.wait_for_selector("#ev-meaning", state="hidden")
    page.focus(".ev-lane-eagle .ev-term >> nth=0")
    visit.see("#ev-meaning", "τ, the acceptance length")
    assert page.evaluate("document.activeElement.getAttribute('aria-describedby')") == "ev-meaning"
    page.focus(".ev-panel")
    page.wait_for_selector("#ev-meaning", state="hidden")


def test_what_is_pointed_at_lights_up_everywhere(visit: Visit) -> None:
    page = visit.page
    page.click(".ev-lane-eagle [data-step='1'] .ev-chip >> nth=0")
    visit.see(TITLE, "Step 2 of ")
    page.hover(".ev-lane-eagle [data-step='1'] .ev-bonus")
    page.wait_for_selector(".ev-node.ev-bonus.ev-lit")
    page.hover(".ev-node.ev-bonus")
    page.wait_for_selector(".ev-lane-eagle [data-step='1'] .ev-bonus.ev-lit")
    lit = "document.querySelector('.ev-strip-of-{} .ev-strip-lit').getAttribute('d') !== 'M0 0'"
    page.wait_for_function(lit.format("eagle"))
    page.hover(".ev-strip-of-plain .ev-rail", position={"x": 100, "y": 12})
    page.wait_for_selector(".ev-lane-plain .ev-group.ev-lit")
    page.wait_for_function(lit.format("plain"))
    page.click(".ev-strip-of-plain .ev-rail", position={"x": 100, "y": 12})
    visit.see(TITLE, "Plain pass ")
    page.mouse.move(5, 5)
    page.wait_for_selector(".ev-lit", state="detached")


def test_a_token_opens_the_step_and_node_that_made_it(visit: Visit) -> None:
    page = visit.page
    page.click(".ev-lane-eagle [data-step='4'] .ev-bonus")
    visit.see(TITLE, "Step 5 of ")
    page.wait_for_selector(f"{SELECTED}.ev-bonus")


def test_the_race_is_replayed_at_a_chosen_speed(visit: Visit) -> None:
    page = visit.page
    page.select_option(".ev-speed-choice", value="0.125")
    page.focus(".ev-panel")
    press(visit, "Space")
    page.wait_for_selector(".ev-lane-plain .ev-veiled", state="attached")
    visit.see(".ev-phase-text", "One target pass scores")
    visit.see(TITLE, "Step 3 of ")
    press(visit, "Space")
    page.get_by_label("Play (Space)").wait_for()
    assert page.locator(".ev-lane-eagle .ev-veiled").count() > 30
    press(visit, ">", ">")
    page.wait_for_function("document.querySelector('.ev-speed-choice').value === '0.5'")
    page.select_option(".ev-speed-choice", value="4")
    page.focus(".ev-panel")
    press(visit, "Space")
    visit.see(TITLE, "Step 37 of ")
    page.wait_for_selector(".ev-lane-plain .ev-veiled", state="detached")
    page.get_by_label("Play (Space)").wait_for()
