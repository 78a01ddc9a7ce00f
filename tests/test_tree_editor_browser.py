"""The tree made by hand in Chromium: opened, changed by mouse and by key, and run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browsing import Visit, chromium, free_port, served

pytestmark = pytest.mark.browser

TEXT = "#tree-text textarea, #tree-text input"


@pytest.fixture(scope="module")
def visit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visit]:
    port = free_port()
    log = tmp_path_factory.mktemp("tree") / "log"
    with (
        chromium() as browser,
        served("tests/fake_app.py", str(port), port=port, log=log) as address,
    ):
        visit = Visit(browser, address)
        visit.page.set_default_timeout(20_000)
        visit.wait_for_status("Ready")
        visit.page.click("#by-hand button >> nth=0")
        yield visit
        visit.close()
        assert visit.complaints == []


def wait_for_tree(visit: Visit, text: str) -> None:
    visit.page.wait_for_function(
        "([at, text]) => document.querySelector(at)?.value === text", arg=[TEXT, text]
    )


def write(visit: Visit, text: str) -> None:
    """And wait for the answer, which writes into the box as well."""
    visit.page.fill(TEXT, text)
    with visit.page.expect_response(lambda response: "/gradio_api/run/" in response.url):
        visit.page.keyboard.press("Enter")
    wait_for_tree(visit, text)
    visit.page.wait_for_function(
        "nodes => nodes.every(node => document.querySelector(`.ev-plan [data-node='${node}']`))",
        arg=text.removeprefix("ranks:").split("."),
    )


def press(visit: Visit, name: str) -> None:
    visit.page.get_by_role("button", name=name, exact=True).click()


def worth(visit: Visit) -> str:
    return str(visit.page.input_value("#tree-worth textarea, #tree-worth input"))


def test_it_opens_on_a_tree_with_its_worth_measured_in_the_run_on_show(visit: Visit) -> None:
    visit.page.wait_for_selector(".ev-plan [data-node='000']")
    assert "expected τ" in worth(visit)
    assert visit.page.locator(".ev-plan button").count() == 8


def test_nodes_are_added_removed_and_moved_with_what_hangs_below(visit: Visit) -> None:
    write(visit, "ranks:0.1.00")
    visit.page.click(".ev-plan [data-node='1']")
    visit.page.wait_for_selector(".ev-plan [data-node='1'][aria-pressed='true']")
    press(visit, "Add child")
    wait_for_tree(visit, "ranks:0.1.00.10")
    visit.page.click(".ev-plan [data-node='0']")
    visit.page.wait_for_selector(".ev-plan [data-node='0'][aria-pressed='true']")
    visit.page.get_by_role("combobox", name="Move it under").fill("1")
    visit.page.keyboard.press("Enter")
    press(visit, "Move")
    wait_for_tree(visit, "ranks:0.00.01.010")
    press(visit, "Remove")
    wait_for_tree(visit, "ranks:0.00")


def test_the_picture_is_worked_by_keys(visit: Visit) -> None:
    write(visit, "ranks:0.1")
    visit.page.focus(".ev-plan [data-node='1']")
    visit.page.keyboard.press("Enter")
    visit.page.wait_for_function("document.activeElement.dataset.node === '1'")
    visit.page.wait_for_selector(".ev-plan [data-node='1'][aria-pressed='true']")
    visit.page.get_by_role("button", name="Earlier", exact=True).focus()
    visit.page.keyboard.press("Space")
    visit.page.wait_for_selector(".ev-plan [data-node='0'][aria-pressed='true']")


def test_a_press_that_failed_steals_no_focus_later(visit: Visit) -> None:
    write(visit, "ranks:0.1")
    visit.page.fill(TEXT, "ranks:1")
    visit.page.click(".ev-plan [data-node='1']")
    visit.page.wait_for_function(
        "document.querySelector('#tree-worth textarea, #tree-worth input').value.startsWith('Node')"
    )
    write(visit, "ranks:0.1.00")
    visit.page.wait_for_selector(".ev-plan [data-node='00']")
    visit.page.evaluate("new Promise(requestAnimationFrame)")
    assert visit.page.evaluate(f"document.activeElement.matches('{TEXT}')")


def test_a_wrong_tree_is_said_in_words(visit: Visit) -> None:
    visit.page.fill(TEXT, "ranks:1")
    visit.page.keyboard.press("Enter")
    visit.page.wait_for_function(
        "document.querySelector('#tree-worth textarea, #tree-worth input')"
        ".value.startsWith('Node 1 without node 0')"
    )


def test_the_tree_is_run_with_the_prompt_on_show(visit: Visit) -> None:
    write(visit, "ranks:0.1.00.01.000")
    visit.page.click("#run-tree")
    visit.wait_for_status("Running")
    visit.wait_for_status("Done.")
    state = "document.querySelector('.eagle-viewer').state"
    assert visit.page.evaluate(f"{state}.settings.tree") == "ranks:0.1.00.01.000"
    assert visit.page.evaluate(f"{state}.prompt") == "Tell me a story."
    assert "tree by hand of 5" in visit.text(".ev-facts")
    press(visit, "Take the tree of the run")
    wait_for_tree(visit, "ranks:0.1.00.01.000")


def test_a_prompt_that_follows_a_conversation_is_not_asked_alone(visit: Visit) -> None:
    state = "document.querySelector('.eagle-viewer').state"
    visit.page.fill("#prompt textarea", "")
    visit.page.evaluate(f"{state}.earlier = [{{ role: 'user', content: 'a' }}]")
    visit.page.click("#run-tree")
    visit.wait_for_status("prompt")
    assert visit.page.input_value("#prompt textarea") == ""
