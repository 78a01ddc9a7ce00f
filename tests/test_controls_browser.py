"""What the mouse can do and keys can do, one visit: the controls no other file drives.

Each test begins at the first step of the recorded run, with tree and verdicts on show.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from browsing import Visit

pytestmark = pytest.mark.browser

TITLE = ".ev-step-title"
SPEED = "document.querySelector('.ev-speed-choice').value"
WIDTH = "document.querySelector('.ev-tree').getBoundingClientRect().width"
ZOOM_OUT = "Zoom out (\u2212)"
HELD_BY = "document.activeElement"


@pytest.fixture
def visit(shared: Visit) -> Iterator[Visit]:
    shared.to_first_step()
    yield shared
    assert shared.complaints == []


def named(visit: Visit, name: str) -> Any:
    return visit.page.get_by_label(name, exact=True)


def test_every_step_button_moves_by_mouse(visit: Visit) -> None:
    named(visit, "Step forward (→)").click()
    visit.see(TITLE, "Step 2 of ")
    named(visit, "Step back (←)").click()
    visit.see(TITLE, "Step 1 of ")
    named(visit, "Last step (End)").click()
    visit.see(TITLE, "Step 37 of ")
    named(visit, "First step (Home)").click()
    visit.see(TITLE, "Step 1 of ")
    visit.page.click(".ev-tab >> text=Plain")
    visit.see(TITLE, "Plain pass 1 of ")


def test_every_step_button_moves_by_key(visit: Visit) -> None:
    for name, title in {
        "Step forward (→)": "Step 2 of ",
        "Last step (End)": "Step 37 of ",
        "Step back (←)": "Step 36 of ",
        "First step (Home)": "Step 1 of ",
    }.items():
        named(visit, name).press("Enter")
        visit.see(TITLE, title)
    visit.page.locator(".ev-tab >> text=Plain").press("Space")
    visit.see(TITLE, "Plain pass 1 of ")


def test_play_and_pause_are_a_button_and_a_key(visit: Visit) -> None:
    visit.page.select_option(".ev-speed-choice", value="0.125")
    named(visit, "Play (Space)").click()
    visit.page.wait_for_selector(".ev-veiled", state="attached")
    named(visit, "Pause (Space)").click()
    named(visit, "Play (Space)").press("Enter")
    named(visit, "Pause (Space)").press("Enter")
    named(visit, "Play (Space)").wait_for()


def test_the_speed_is_chosen_by_list_and_by_key(visit: Visit) -> None:
    visit.page.select_option(".ev-speed-choice", value="1")
    visit.page.focus(".ev-panel")
    for key, speed in {"<": "0.5", ">": "1"}.items():
        visit.page.keyboard.press(key)
        visit.page.wait_for_function(f"{SPEED} === '{speed}'")
    visit.page.focus(".ev-speed-choice")
    visit.page.keyboard.press("ArrowDown")
    visit.page.wait_for_function(f"{SPEED} === '2'")


def test_zoom_buttons_and_zoom_keys_do_the_same(visit: Visit) -> None:
    before = visit.page.evaluate(WIDTH)
    named(visit, "Zoom in (+)").click()
    visit.page.wait_for_function(f"{WIDTH} > {1.2 * before}")
    visit.page.keyboard.press("-")
    visit.page.wait_for_function(f"Math.abs({WIDTH} - {before}) < 2")
    visit.page.keyboard.press("+")
    visit.page.wait_for_function(f"{WIDTH} > {1.2 * before}")
    named(visit, ZOOM_OUT).press("Enter")
    visit.page.wait_for_function(f"Math.abs({WIDTH} - {before}) < 2")
    for _ in range(2):
        named(visit, "Whole tree, or back (0)").press("Enter")
    visit.page.wait_for_function(f"Math.abs({WIDTH} - {before}) < 2")


def test_the_wheel_with_ctrl_zooms_and_alone_scrolls(visit: Visit) -> None:
    before = visit.page.evaluate(WIDTH)
    visit.page.hover(".ev-tree-box")
    visit.page.keyboard.down("Control")
    visit.page.mouse.wheel(0, -100)
    visit.page.keyboard.up("Control")
    visit.page.wait_for_function(f"{WIDTH} > {1.2 * before}")
    wide = visit.page.evaluate(WIDTH)
    visit.page.mouse.wheel(0, 60)
    visit.page.wait_for_function("document.querySelector('.ev-tree-box').scrollTop > 0")
    assert visit.page.evaluate(WIDTH) == wide
    for _ in range(2):
        named(visit, "Whole tree, or back (0)").click()
    visit.page.wait_for_function(f"Math.abs({WIDTH} - {before}) < 2")


def test_keys_bring_nodes_out_of_sight_into_sight(visit: Visit) -> None:
    """Panning by keys: what is selected is shown."""
    page = visit.page
    page.click(".ev-node[data-node='0']")
    for _ in range(5):
        named(visit, "Zoom in (+)").press("Enter")
    drawn = "() => new Promise(next => requestAnimationFrame(() => requestAnimationFrame(next)))"
    page.evaluate(drawn)
    page.focus(".ev-node.ev-selected")
    for _ in range(5):
        page.keyboard.press("ArrowRight")
        page.evaluate(drawn)
    page.wait_for_function("document.querySelector('.ev-tree-box').scrollLeft > 0")
    page.wait_for_function(
        "(() => { const box = document.querySelector('.ev-tree-box').getBoundingClientRect();"
        " const node = document.querySelector('.ev-node.ev-selected').getBoundingClientRect();"
        " return node.left >= box.left && node.right <= box.right + 1 })()"
    )
    for _ in range(2):
        named(visit, "Whole tree, or back (0)").press("Enter")


def test_phases_verdicts_and_table_answer_to_mouse_and_to_enter(visit: Visit) -> None:
    page = visit.page
    phase = page.get_by_label("Draft level 1", exact=True)
    for act in (phase.click, lambda: phase.press("Enter")):
        act()
        visit.see(".ev-phase-text", "The head drafts level 1")
        act()
        page.wait_for_selector(".ev-phase[aria-pressed=true]", state="detached")
    for label, sign in {"Hide verdicts": ".ev-node.ev-drafted", "Table": ".ev-table"}.items():
        toggle = page.locator(f".ev-toggle >> text={label}")
        for act in (toggle.click, lambda toggle=toggle: toggle.press("Enter")):
            act()
            page.wait_for_selector(sign)
            act()
            page.wait_for_selector(sign, state="hidden")


def test_a_key_at_the_slider_moves_one_step(visit: Visit) -> None:
    visit.page.focus(".ev-slider")
    visit.page.keyboard.press("ArrowRight")
    visit.see(TITLE, "Step 2 of ")
    visit.page.keyboard.press("ArrowUp")
    visit.see(TITLE, "Step 3 of ")
    assert visit.page.evaluate(f"{HELD_BY}.getAttribute('aria-valuetext')") == "step 3 of 37"


def test_the_menu_opens_by_mouse_and_key_and_closes_by_escape_and_a_click_beside(
    visit: Visit,
) -> None:
    page = visit.page
    page.click(".ev-share > summary")
    page.get_by_role("button", name="Copy it as text", exact=True).wait_for()
    page.click(".ev-step-title")
    page.wait_for_selector(".ev-share:not([open])")
    page.focus(".ev-share > summary")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate(f"{HELD_BY}.textContent") == "Open a trace…"
    page.keyboard.press("Escape")
    page.wait_for_selector(".ev-share:not([open])")
    assert page.evaluate(f"{HELD_BY}.matches('.ev-share > summary')")


def test_tab_goes_through_the_page_and_is_never_held(visit: Visit) -> None:
    """In the order of the page, each with a sign that it has the focus, to the last and out."""
    page = visit.page
    page.evaluate("document.activeElement.blur(); getSelection().removeAllRanges()")
    page.focus("#prompt textarea")
    seen: list[str] = []
    for _ in range(120):
        page.keyboard.press("Tab")
        at = page.evaluate(
            "(() => { const one = document.activeElement;"
            " if (one === document.body || one.closest('footer')) return null;"
            " const signs = (it) => { const style = getComputedStyle(it);"
            "  return [style.outlineStyle, style.boxShadow, style.borderColor].join() };"
            " const around = [one, one.parentElement];"
            " const held = around.map(signs).join(); one.blur();"
            " const left = around.map(signs).join(); one.focus({focusVisible: true});"
            " const name = one.getAttribute('aria-label') ?? one.textContent.trim().slice(0, 40);"
            " return held === left && !one.matches('.ev-node') ? `no sign: ${name}` : name })()"
        )
        if at is None:
            break
        seen.append(at)
    assert [name for name in seen if name.startswith("no sign")] == []
    landmarks = ["Run", "Settings", "Save and share", "Steps", "First step (Home)", "Table"]
    panels = ["See the run", "What if", "Where the head fails", "A tree by hand"]
    places = [
        next(at for at, name in enumerate(seen) if name.startswith(landmark))
        for landmark in landmarks + panels
    ]
    assert places == sorted(places)
    page.keyboard.press("Shift+Tab")
    assert page.evaluate(f"{HELD_BY} !== document.body")


# Controls that need a tab of their own: they begin runs, or put another trace on show


def test_a_run_is_asked_for_and_stopped_by_keys_alone(fresh: Visit) -> None:
    page = fresh.page
    page.focus("#prompt textarea")
    page.keyboard.type("Hello")
    page.keyboard.press("Shift+Enter")
    fresh.wait_for_status("Running")
    page.focus("#stop")
    page.keyboard.press("Enter")
    fresh.wait_for_status("Stopped")
    page.wait_for_selector("#run:enabled")
    page.focus("#run")
    page.keyboard.press("Space")
    fresh.wait_for_status("Running")
    page.focus("#stop")
    page.keyboard.press("Space")
    fresh.wait_for_status("Stopped")


def test_a_running_race_is_followed_or_looked_back_at(fresh: Visit) -> None:
    page = fresh.page
    fresh.ask("Hello", length=512)
    page.wait_for_selector(".ev-lane-eagle [data-step='4']")
    live = page.locator(".ev-live")
    page.wait_for_selector(".ev-live[aria-pressed=true]")
    for leave, come_back in (
        (lambda: page.locator(".ev-panel >> nth=0").press("Home"), lambda: live.press("Enter")),
        (lambda: named(fresh, "First step (Home)").click(), live.click),
    ):
        leave()
        page.wait_for_selector(".ev-live[aria-pressed=false]")
        fresh.see(TITLE, "Step 1 of ")
        come_back()
        page.wait_for_selector(".ev-live[aria-pressed=true]")
    page.click("#stop")
    fresh.wait_for_status("Stopped")


def test_a_recording_comes_back_by_mouse_and_by_key(fresh: Visit) -> None:
    for act in ("click", "press"):
        fresh.ask("Hello", length=16)
        fresh.wait_for_status("Done.")
        chip = fresh.page.locator(".ev-recordings >> text=Story")
        chip.click() if act == "click" else chip.press("Enter")
        fresh.see(".ev-badge", "Recorded run: Story")


def test_files_are_saved_opened_compared_and_copied_by_mouse(fresh: Visit) -> None:
    page = fresh.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])

    def item(name: str) -> None:
        if not page.locator(".ev-share[open]").count():
            page.click(".ev-share > summary")
        page.get_by_role("button", name=name, exact=True).click()

    saved = {}
    for name, file in {
        "Save trace (.json)": "eagle-trace.json",
        "Save trace (.json.gz)": "eagle-trace.json.gz",
        "Save run as CSV": "eagle-run.csv",
        "Save tree as SVG": "eagle-step-5.svg",
        "Save tree as PNG": "eagle-step-5.png",
    }.items():
        with page.expect_download() as download:
            item(name)
        assert download.value.suggested_filename == file
        saved[name] = download.value.path().read_bytes()
    for name, said in {
        "Copy Python that repeats it": "The snippet is copied.",
        "Copy a link to it": "The link is copied.",
        "Copy it as text": "The step is copied.",
    }.items():
        item(name)
        fresh.see(".ev-share-said", said)
    trace = {"name": "t.json", "mimeType": "", "buffer": saved["Save trace (.json)"]}
    for name in ("Open a trace…", "Compare with a trace…"):
        with page.expect_file_chooser() as chooser:
            item(name)
        chooser.value.set_files(trace)
        page.wait_for_selector(".ev-share:not([open])")
    fresh.see(".ev-badge", "Opened: t.json")
    fresh.see(".ev-compare-verdict", "Equal throughout: 37 steps.")
    page.get_by_role("button", name="Close", exact=True).click()
    page.wait_for_selector(".ev-compare", state="hidden")


def test_the_panels_open_and_close_by_mouse_and_by_key(fresh: Visit) -> None:
    page = fresh.page
    for name, inside in {
        "See the run": "#see-the-run",
        "What if": "#what-if",
        "Where the head fails": "#head-report",
        "A tree by hand": "#tree-by-hand",
    }.items():
        label = page.get_by_role("button", name=name)
        for act in (label.click, lambda label=label: label.press("Enter")):
            act()
            page.wait_for_selector(f"{inside}:visible")
            assert label.get_attribute("aria-expanded") == "true"
            act()
            page.wait_for_selector(inside, state="hidden")
            assert label.get_attribute("aria-expanded") == "false"


def test_the_report_is_saved_as_json_by_key(fresh: Visit) -> None:
    fresh.page.get_by_role("button", name="Where the head fails").click()
    fresh.page.wait_for_selector(".ev-report caption")
    with fresh.page.expect_download() as download:
        fresh.page.get_by_role("button", name="Save as JSON", exact=True).press("Enter")
    assert download.value.suggested_filename == "head-report.json"


def test_the_clock_and_the_heat_are_moved_by_key_and_by_mouse(fresh: Visit) -> None:
    page = fresh.page
    page.get_by_role("button", name="What if").click()
    page.wait_for_selector("#if-answer table")
    page.fill("#if-clock input", "Example: RTX 3090")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_selector("#if-answer :text('not measured here')")
    page.click("#if-heat input[type=range]", position={"x": 1, "y": 4})
    page.wait_for_selector("#if-step :text('at T = 0, rule greedy')")


def test_a_tree_by_hand_is_changed_and_run_by_keys_alone(fresh: Visit) -> None:
    page = fresh.page
    text = "#tree-text textarea, #tree-text input"
    page.get_by_role("button", name="A tree by hand").press("Enter")
    page.wait_for_selector(".ev-plan [data-node='1']")
    page.fill(text, "ranks:0.1")
    page.keyboard.press("Enter")
    page.wait_for_selector(".ev-plan [data-node='2']", state="detached")
    page.locator(".ev-plan [data-node='1']").press("Enter")
    page.wait_for_selector(".ev-plan [data-node='1'][aria-pressed='true']")
    page.get_by_role("button", name="Add child", exact=True).press("Enter")
    page.wait_for_selector(".ev-plan [data-node='10']")
    page.get_by_role("button", name="Remove", exact=True).press("Enter")
    page.wait_for_selector(".ev-plan [data-node='10']", state="detached")
    page.locator("#run-tree").press("Enter")
    fresh.wait_for_status("Running")
    fresh.wait_for_status("Done.")
    assert "tree by hand of 2" in fresh.text(".ev-facts")
