"""The page around the viewer in Chromium: settings, examples, follow-ups, by mouse and by key."""

from __future__ import annotations

from typing import Any

import pytest
from browsing import Visit

pytestmark = pytest.mark.browser

FACTS = ".ev-facts"
TURNS = ".ev-turns li"
LANE = ".ev-lane-{} .ev-text"
HEAD_FIELD = "document.querySelector('#head input')"


def press(visit: Visit, name: str) -> None:
    visit.page.get_by_role("button", name=name, exact=True).click()


def run(visit: Visit) -> None:
    visit.page.click("#run")
    visit.wait_for_status("Running")
    visit.wait_for_status("Done.")


# Settings


def test_the_settings_are_opened_moved_and_closed_by_keys_alone(visit: Visit) -> None:
    page = visit.page
    assert not page.get_by_label("Seed").is_visible(), "what is met first stays simple"
    page.focus("#settings")
    page.keyboard.press("Enter")
    page.wait_for_function("document.activeElement.closest('.ev-sidebar.open') !== null")
    assert "Length" in page.evaluate("document.activeElement.getAttribute('aria-label')")
    page.keyboard.press("Control+a")
    page.keyboard.type("48")
    page.keyboard.press("Tab")
    page.keyboard.press("Escape")
    page.wait_for_selector(".ev-sidebar:not(.open)")
    assert page.evaluate("document.activeElement.id") == "settings"
    visit.see(".ev-asked p", "length 48")


def test_out_of_sight_the_settings_are_out_of_the_way_of_the_tab_key(visit: Visit) -> None:
    visit.page.focus("#settings")
    seen = []
    for _ in range(6):
        visit.page.keyboard.press("Tab")
        seen.append(visit.page.evaluate("!!document.activeElement.closest('.sidebar-content')"))
    assert not any(seen)


def test_every_setting_reaches_the_run_and_its_link(browser: Any, visit: Visit) -> None:
    page = visit.page
    visit.open_settings()
    for name in ("Sampling", "Penalties and stops"):
        page.get_by_role("button", name=name).click()
    for label, value in {
        "Length": "32",
        "Temperature": "0.7",
        "Top-p": "0.9",
        "Top-k": "40",
        "Min-p": "0.05",
        "Repetition penalty": "1.2",
        "Presence penalty": "0.5",
        "Frequency penalty": "-0.5",
    }.items():
        page.get_by_label(f"number input for {label}").fill(value)
    page.get_by_label("Seed").fill("7")
    page.get_by_label("Stop strings").fill("END\n##")
    page.get_by_role("combobox", name="Draft tree").fill("ranks:0.1.00")
    page.keyboard.press("Enter")
    page.get_by_label("Acceptance rule").click()
    page.get_by_role("option", name="Seeded").click()
    visit.close_settings()
    page.fill("#prompt textarea", "Hello")
    run(visit)
    wanted = {
        "max_new_tokens": 32,
        "temperature": 0.7,
        "top_p": 0.9,
        "top_k": 40,
        "seed": 7,
        "tree": "ranks:0.1.00",
        "rule": "seeded",
        "min_p": 0.05,
        "repetition_penalty": 1.2,
        "presence_penalty": 0.5,
        "frequency_penalty": -0.5,
        "stop": ["END", "##"],
    }
    state = "document.querySelector('.eagle-viewer').state"
    assert page.evaluate(f"{state}.settings") == wanted
    assert "tree by hand of 3" in visit.text(FACTS)
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    page.click(".ev-share > summary")
    page.get_by_text("Copy a link to it").click()
    visit.see(".ev-share-said", "The link is copied.")
    other = Visit(browser, page.evaluate("window.copied"))
    other.see(".ev-asked p", "length 32")
    line = other.text(".ev-asked p")
    for part in ("temperature 0.7", "top p 0.9", "seed 7", "tree ranks:0.1.00", "rule seeded"):
        assert part in line
    for part in ("min p 0.05", "repetition penalty 1.2", "frequency penalty -0.5", "stop END"):
        assert part in line
    assert other.page.input_value("#prompt textarea") == "Hello"
    other.close()
    assert other.complaints == []


def test_a_wrong_setting_is_said_in_one_sentence(visit: Visit) -> None:
    visit.open_settings()
    visit.page.get_by_role("combobox", name="Draft tree").fill("ranks:1")
    visit.page.keyboard.press("Enter")
    visit.close_settings()
    visit.ask("Hello")
    visit.wait_for_status("Node 1 without node 0")
    visit.page.wait_for_selector("#run:enabled")


def test_the_lossy_rule_is_badged_before_the_run_and_in_its_lane(visit: Visit) -> None:
    press(visit, "Lossy")
    visit.see(".ev-badge-lossy", "changes the text's law")
    run(visit)
    visit.see(".ev-lane-eagle .ev-lossy", "lossy rule: changes the text's law")
    assert not visit.page.locator(".ev-lane-plain .ev-lossy").count()
    press(visit, "Lossless")
    run(visit)
    assert not visit.page.locator(".ev-lossy").count()


def test_the_defaults_come_back_at_once(visit: Visit) -> None:
    press(visit, "T = 1.5")
    visit.see(".ev-asked p", "length 96 · temperature 1.5")
    visit.open_settings()
    press(visit, "Back to the defaults")
    visit.page.wait_for_function("!document.querySelector('.ev-asked p')")


# Heads


def test_another_head_is_chosen_loaded_and_named(visit: Visit) -> None:
    visit.open_settings()
    visit.page.get_by_role("combobox", name="Head").click()
    visit.page.get_by_role("option", name="other-head").click()
    visit.close_settings()
    visit.ask("Hello")
    visit.wait_for_status("Done.")
    assert "fake-target, head other-head" in visit.text(FACTS)


def test_a_link_chooses_its_head_and_a_head_that_is_not_here_is_told_of(
    browser: Any, address: str
) -> None:
    there = Visit(browser, f"{address}#prompt=Hello&head=other-head")
    there.page.wait_for_function(f"{HEAD_FIELD}.value === 'other-head'")
    there.close()
    away = Visit(browser, f"{address}#prompt=Hello&head=<b>nowhere</b>")
    away.wait_for_status("a head that this page does not have; here is fake-head, other-head.")
    assert away.page.evaluate(f"{HEAD_FIELD}.value") == "fake-head"
    away.close()
    assert there.complaints == away.complaints == []


def test_the_head_report_is_opened_by_key_and_saved(visit: Visit) -> None:
    page = visit.page
    page.focus("#head-report-panel button >> nth=0")
    page.keyboard.press("Enter")
    visit.see(".ev-report caption", "Accepted by depth")
    assert page.locator(".ev-misses tbody tr").count() > 3
    assert not page.locator(".ev-report img, .ev-report script").count()
    with page.expect_download() as download:
        press(visit, "Save as CSV")
    text = download.value.path().read_text("utf-8")
    assert text.startswith("# 1 traces, 95 tokens")
    assert "ICML 2024" in text


# Examples


def test_an_example_fills_in_prompt_and_settings_and_says_what_to_look_at(visit: Visit) -> None:
    press(visit, "Palindrome")
    assert "palindrome" in visit.page.input_value("#prompt textarea")
    visit.see(".ev-look p", "Brackets, indents")
    assert "Seen: τ 3.73" in visit.text(".ev-look p")
    visit.page.focus("text=Seeded")
    visit.page.keyboard.press("Enter")
    visit.see(".ev-asked p", "length 96 · temperature 0.8 · tree chain:3 · rule seeded")
    run(visit)
    assert "rule seeded, temperature 0.8" in visit.text(FACTS)


# Follow-ups


def turns(visit: Visit) -> list[str]:
    return [str(text) for text in visit.page.locator(f"{TURNS} span").all_text_contents()]


def test_a_follow_up_takes_the_conversation_along_and_can_start_afresh(visit: Visit) -> None:
    visit.ask("First question", length=16)
    visit.wait_for_status("Done.")
    first = visit.text(LANE.format("plain"))
    visit.page.focus("#follow-up input")
    visit.page.keyboard.press("Space")
    visit.ask("And why?")
    visit.wait_for_status("Running")
    visit.wait_for_status("Done.")
    assert turns(visit) == ["First question", first, "And why?"]
    visit.ask("And then?")
    visit.wait_for_status("Running")
    visit.wait_for_status("Done.")
    assert len(turns(visit)) == 5
    assert "conversation of" in visit.text(FACTS)
    visit.page.get_by_label("Continue the conversation").uncheck()
    visit.ask("Something else")
    visit.wait_for_status("Running")
    visit.wait_for_status("Done.")
    assert turns(visit) == ["Something else"]


def test_a_conversation_may_go_on_from_a_recorded_run(visit: Visit) -> None:
    assert turns(visit) == ["Tell me a story."]
    story = visit.text(LANE.format("plain"))
    visit.page.get_by_label("Continue the conversation").check()
    visit.ask("Go on", length=16)
    visit.wait_for_status("Done.")
    assert turns(visit) == ["Tell me a story.", story, "Go on"]


def test_hostile_turns_are_shown_and_never_run(visit: Visit) -> None:
    hostile = "<img src=x onerror='window.hacked=5'>${window.hacked=6}{{window.hacked=7}}"
    visit.ask(hostile, length=128)
    visit.wait_for_status("Done.")
    visit.page.get_by_label("Continue the conversation").check()
    visit.ask("And?")
    visit.wait_for_status("Running")
    visit.wait_for_status("Done.")
    assert turns(visit)[0] == hostile
    assert visit.page.evaluate("window.hacked") is None
    assert not visit.page.locator(".ev-turns img, .ev-turns script").count()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_on_a_phone_all_of_it_fits(browser: Any, address: str, theme: str) -> None:
    visit = Visit(browser, f"{address}?__theme={theme}", viewport={"width": 390, "height": 844})
    visit.wait_for_status("Ready")
    width = "document.documentElement.scrollWidth"
    assert visit.page.evaluate(width) == 390
    chips = visit.page.locator(".ev-examples button").all()
    assert all(chip.bounding_box()["x"] + chip.bounding_box()["width"] <= 375 for chip in chips)
    visit.open_settings()
    assert visit.page.evaluate(width) == 390
    visit.page.keyboard.press("Escape")
    visit.page.wait_for_selector(".ev-sidebar:not(.open)")
    visit.close()
    assert visit.complaints == []
