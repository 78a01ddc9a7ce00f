"""The viewer in Chromium: files, links, exports, and what a reload brings back."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from browsing import Visit

pytestmark = pytest.mark.browser

TITLE = ".ev-step-title"
RECORDINGS = Path(__file__).parent.parent / "assets" / "traces"
SAMPLED = RECORDINGS / "03-story-sampled.json"


def choose(visit: Visit, item: str) -> None:
    """By keyboard: the menu is opened and its item pressed."""
    visit.page.focus(".ev-share > summary")
    if not visit.page.locator(".ev-share[open]").count():
        visit.page.keyboard.press("Enter")
    visit.page.get_by_role("button", name=item, exact=True).press("Enter")


def open_file(visit: Visit, path: Path, item: str = "Open a trace…") -> None:
    with visit.page.expect_file_chooser() as chooser:
        choose(visit, item)
    chooser.value.set_files(path)


def saved(visit: Visit, item: str) -> bytes:
    with visit.page.expect_download() as download:
        choose(visit, item)
    return Path(download.value.path()).read_bytes()


def test_a_trace_is_saved_and_opened_again_packed_or_not(visit: Visit, tmp_path: Path) -> None:
    plain = saved(visit, "Save trace (.json)")
    packed = saved(visit, "Save trace (.json.gz)")
    assert gzip.decompress(packed) == plain
    assert json.loads(plain)["prompt"] == "Tell me a story."
    for name, content in (("one.json", plain), ("two.json.gz", packed)):
        path = tmp_path / name
        path.write_bytes(content)
        open_file(visit, path)
        visit.see(".ev-badge", f"Opened: {name}")
        visit.page.wait_for_selector(".ev-node.ev-accepted")


def test_a_damaged_file_is_refused_in_words(visit: Visit, tmp_path: Path) -> None:
    before = visit.text(TITLE)
    for name, content in (
        ("cut.json", SAMPLED.read_bytes()[:5000]),
        ("other.json", b'{"version": 1}'),
        ("fake.json.gz", b"no gzip"),
        ("bytes.json", b"\xff\xfe\x00"),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        open_file(visit, path)
        visit.see(".ev-share-said", f"Could not open {name}: ")
    assert visit.text(TITLE) == before


def test_a_file_can_be_dropped_and_hostile_text_in_it_is_only_shown(visit: Visit) -> None:
    data = json.loads(SAMPLED.read_text("utf-8"))
    data["lanes"][0]["events"][0]["text"] = ["<img src=x onerror='window.hacked=1'>"]
    data["environment"]["target"] = "<script>window.hacked=2</script>"
    visit.page.evaluate(
        "text => { const transfer = new DataTransfer();"
        " transfer.items.add(new File([text], 'dropped.json'));"
        " document.querySelector('.ev').dispatchEvent("
        "new DragEvent('drop', {dataTransfer: transfer, bubbles: true, cancelable: true})) }",
        json.dumps(data),
    )
    visit.see(".ev-badge", "Opened: dropped.json")
    assert "<script>" in visit.text(".ev-facts")
    assert visit.page.evaluate("window.hacked") is None
    assert visit.page.locator(".ev img, .ev script").count() == 0


def test_exports_carry_the_environment_they_came_from(visit: Visit) -> None:
    csv = saved(visit, "Save run as CSV").decode()
    assert csv.startswith("# target fake-target, head fake-head")
    assert len([line for line in csv.splitlines() if line.startswith("eagle,")]) == 37
    svg = saved(visit, "Save tree as SVG").decode()
    assert "fake-target" in svg
    assert svg.count("<title>") > 20
    assert "var(" not in svg
    assert saved(visit, "Save tree as PNG").startswith(b"\x89PNG")


def test_texts_are_copied(visit: Visit) -> None:
    visit.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    read = "navigator.clipboard.readText()"
    choose(visit, "Copy it as text")
    visit.see(".ev-share-said", "The step is copied.")
    assert "fake-target" in visit.page.evaluate(read)
    choose(visit, "Copy Python that repeats it")
    visit.see(".ev-share-said", "The snippet is copied.")
    compile(visit.page.evaluate(read), "snippet", "exec")


def test_a_link_opens_the_same_run_at_the_same_step(
    browser: Any, address: str, visit: Visit
) -> None:
    visit.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    visit.page.locator(".ev-slider").fill("9")
    visit.see(TITLE, "Step 9 of ")
    choose(visit, "Copy a link to it")
    visit.see(".ev-share-said", "The link is copied.")
    link = visit.page.evaluate("navigator.clipboard.readText()")
    assert link.startswith(address)
    other = Visit(browser, link)
    other.see(TITLE, "Step 9 of ")
    other.page.wait_for_function(
        "document.querySelector('#prompt textarea').value === 'Tell me a story.'"
    )
    other.see(".ev-asked p", "length 96 · temperature 0.7 · seed 4 · tree tree:25")
    assert other.page.is_enabled("#run"), "a link never begins a run"
    other.close()
    assert other.complaints == []


def test_a_reload_brings_back_the_last_finished_trace(visit: Visit) -> None:
    visit.ask("Hello", length=16)
    visit.wait_for_status("Done.")
    text = visit.text(".ev-lane-eagle .ev-text")
    visit.page.reload()
    visit.see(".ev-badge", "Last run of this tab")
    visit.wait_for_status("Ready")
    assert visit.text(".ev-lane-eagle .ev-text") == text


def test_two_traces_stand_side_by_side_with_a_verdict(visit: Visit, tmp_path: Path) -> None:
    data = json.loads(SAMPLED.read_text("utf-8"))
    data["settings"]["seed"] += 1
    data["lanes"][1]["events"][3]["tokens"][1] += 1
    other = tmp_path / "other.json"
    other.write_text(json.dumps(data), "utf-8")
    open_file(visit, SAMPLED)
    visit.see(".ev-badge", "Opened: ")
    open_file(visit, other, "Compare with a trace…")
    visit.see(".ev-compare-verdict", "Equal until step 3. There the drafts differ, first in node 1")
    assert "seed" in visit.text(".ev-compare-verdict")
    visit.page.get_by_role("button", name="Go to the first difference").press("Enter")
    visit.see(TITLE, "Step 3 of ")
    visit.see(".ev-compare .ev-fine", "Step 3, at the same place of the text")
    assert visit.page.locator(".ev-compare .ev-node").count() > 5
    visit.page.get_by_role("button", name="Close").press("Enter")
    visit.page.wait_for_selector(".ev-compare", state="hidden")
