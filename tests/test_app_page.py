"""The page's handlers, called as plain generators, and how it is launched."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest
from fake_bench import FakeBench

from app import build_demo, launch_kwargs
from app.links import TREES
from app.pages.acts import Acts
from app.pages.asking import WHERE
from app.pages.examples import load_groups
from app.pages.form import RULES, defaults
from app.replay import Recorded, load_recordings
from app.runner import Runner
from app.settings import Settings
from eagle_core.options import OPTION_NAMES, RULE_NAMES, RunOptions
from eagle_core.plans import OF_THIS_MACHINE, plan_named
from eagle_core.rules import LOSSY
from eagle_core.trace_json import dump_trace

ROOT = Path(__file__).parent.parent
VISITOR: Any = SimpleNamespace(session_hash="me")
OTHER: Any = SimpleNamespace(session_hash="you")


def recorded(title: str = "Story") -> Recorded:
    recording = FakeBench().race("Hello", RunOptions(max_new_tokens=24))
    list(recording)
    return Recorded(title, recording.trace())


def acts(*recordings: Recorded, pace: float = 0.0) -> Acts:
    runner = Runner(lambda _: FakeBench(pace=pace))
    runner.start_loading()
    while runner.model.phase == "loading":
        time.sleep(0.01)
    return Acts(runner, recordings)


def form(prompt: str = "Hello", **changes: Any) -> list[Any]:
    return [prompt, *({**defaults(), "max_new_tokens": 32} | changes).values(), None]


def answer(page: Acts, prompt: str = "Hello") -> list[str]:
    name, *_ = page.begin(VISITOR)
    return list(page.answer(*form(prompt), False, "[]", name, VISITOR))


def test_an_answer_streams_to_the_viewer() -> None:
    kinds = [json.loads(message)["kind"] for message in answer(acts())]
    assert (kinds[0], kinds[-1]) == ("start", "end")
    assert {*kinds[1:-1]} == {"events"}


def test_a_wrong_prompt_ends_in_one_message() -> None:
    (message,) = answer(acts(), prompt="")
    assert json.loads(message)["kind"] == "error"


@pytest.mark.parametrize(
    ("run", "told"),
    [("Story", "Recorded run: Story."), ("Nowhere", "a head that this page does not have")],
)
def test_a_link_with_a_head_that_is_not_here_is_told_of_where_it_matters(
    run: str, told: str
) -> None:
    link: Any = SimpleNamespace(_data={"run": run, "head": "nowhere"})
    message, *form = acts(recorded()).follow_link(link)
    assert told in json.loads(message)["text"]
    assert all(value == gr.skip() for value in form)


def is_running(shown: tuple[Any, ...]) -> bool:
    *_, run, stop = shown
    assert run["interactive"] != stop["interactive"]
    return bool(stop["interactive"])


@pytest.mark.parametrize("prompt", ["Hello", ""])
def test_the_buttons_are_taken_when_a_run_is_asked_for_and_freed_when_it_is_over(
    prompt: str,
) -> None:
    page = acts()
    name, *buttons = page.begin(VISITOR)
    assert is_running(tuple(buttons))
    list(page.answer(*form(prompt), False, "[]", name, VISITOR))
    assert not is_running(page.buttons(VISITOR))


def test_a_late_word_of_one_run_does_not_free_the_buttons_of_the_next() -> None:
    page = acts()
    answer(page)
    page.begin(VISITOR)
    assert is_running(page.buttons(VISITOR))


def test_another_visitors_run_leaves_the_buttons_alone() -> None:
    page = acts()
    page.begin(VISITOR)
    assert not is_running(page.buttons(OTHER))


def test_a_run_taken_back_before_its_turn_frees_the_buttons_and_ends_without_a_word() -> None:
    page = acts()
    first, *_ = page.begin(VISITOR)
    assert not is_running(page.stop(VISITOR))
    second, *_ = page.begin(VISITOR)
    assert list(page.answer(*form(), False, "[]", first, VISITOR)) == []
    assert is_running(page.buttons(VISITOR))
    *_, end = page.answer(*form(), False, "[]", second, VISITOR)
    assert json.loads(end)["kind"] == "end"


def test_the_end_of_a_stopped_run_and_not_stop_itself_frees_the_buttons() -> None:
    page = acts(pace=0.1)
    name, *_ = page.begin(VISITOR)
    updates = page.answer(*form(max_new_tokens=512), False, "[]", name, VISITOR)
    next(updates)
    with ThreadPoolExecutor() as pool:
        stopped = pool.submit(page.stop, VISITOR)
        *_, end = updates
    assert all(value == gr.skip() for value in stopped.result())
    assert json.loads(end)["stopped"]
    assert not is_running(page.buttons(VISITOR))


def test_a_visitor_who_leaves_takes_the_waiting_run_along() -> None:
    page = acts()
    page.begin(VISITOR)
    page.leave(VISITOR)
    assert not is_running(page.buttons(VISITOR))


def first_seen(page: Acts) -> list[str]:
    async def collect() -> list[str]:
        return [shown async for shown in page.open_page()]

    return asyncio.run(collect())


def test_a_page_opens_on_a_recorded_run() -> None:
    (shown,) = first_seen(acts(recorded()))
    message = json.loads(shown)
    assert (message["kind"], message["label"]) == ("trace", "Recorded run: Story")
    assert message["text"].startswith("Ready: fake-target")


def test_a_page_without_recordings_opens_on_the_models_state() -> None:
    (shown,) = first_seen(acts())
    assert json.loads(shown)["kind"] == "status"


def test_a_recorded_run_can_be_opened() -> None:
    shown = acts(recorded(), recorded("Other")).replay(1)
    assert json.loads(shown)["label"] == "Recorded run: Other"


def test_stop_frees_the_buttons_even_when_nothing_runs() -> None:
    message, run, stop = acts().stop(VISITOR)
    assert json.loads(message)["phase"] == "idle"
    assert (run["interactive"], stop["interactive"]) == (True, False)


def test_damaged_recordings_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "01-a-good-one.json").write_text(dump_trace(recorded().trace), "utf-8")
    (tmp_path / "02-broken.json").write_text('{"version": 1', "utf-8")
    (tmp_path / "03-binary.json").write_bytes(b"\xff\xfe\x00")
    lonely = replace(recorded().trace, lanes=recorded().trace.lanes[:1])
    (tmp_path / "04-one-lane.json").write_text(dump_trace(lonely), "utf-8")
    assert [found.title for found in load_recordings(tmp_path)] == ["A good one"]
    for name in ("02-broken", "03-binary", "04-one-lane"):
        assert name in caplog.text


def test_shipped_recordings_can_be_read(caplog: pytest.LogCaptureFixture) -> None:
    load_recordings()
    assert not caplog.text


def test_examples_teach_what_was_promised_and_say_what_was_seen() -> None:
    groups = load_groups()
    assert {group.teaches for group in groups} >= {
        *("All accepted", "First token refused", "Temperature", "Code", "Copying", "EAGLE loses")
    }
    seen = {group.teaches: [one.tau for one in group.examples] for group in groups}
    assert seen["All accepted"][0] > 3
    assert seen["First token refused"][0] < 1.1
    assert seen["EAGLE loses"][0] < 1.2
    assert seen["Temperature"] == sorted(seen["Temperature"], reverse=True)
    for group in groups:
        assert 0 < len(group.look) <= 160
        for one in group.examples:
            assert 0 < len(one.label) <= 14
            assert 0 < len(one.prompt) <= 200


def test_the_form_has_every_option_and_every_rule_and_badges_the_lossy_one() -> None:
    assert OPTION_NAMES == tuple(defaults()) == tuple(field.name for field in fields(RunOptions))
    assert {rule for _, rule in RULES} == set(RULE_NAMES)
    assert [name for name, rule in RULES if rule in LOSSY] == [
        "Typical, LOSSY: changes the text's law"
    ]


def test_every_tree_on_the_page_exists() -> None:
    for _, tree in TREES:
        if tree not in OF_THIS_MACHINE:
            plan_named(tree, siblings="one_hot")


def test_the_page_is_served_quietly_and_to_this_machine() -> None:
    wanted = {
        "server_name": "127.0.0.1",
        "share": False,
        "show_error": False,
        "strict_cors": True,
        "ssr_mode": False,
        "run_history": False,
        "enable_monitoring": False,
        "allowed_paths": [],
    }
    assert wanted.items() <= launch_kwargs(Settings()).items()


def built() -> gr.Blocks:
    async def build() -> gr.Blocks:  # in a running loop, or gradio leaves one open behind
        return build_demo(runner=Runner(lambda _: FakeBench()), recordings=[recorded()])

    return asyncio.run(build())


def test_a_page_can_be_built_and_its_viewer_is_no_input() -> None:
    demo = built()
    viewer = next(b for b in demo.blocks.values() if getattr(b, "elem_id", None) == "viewer")
    assert all(viewer not in fn.inputs for fn in demo.fns.values())
    public = [fn.api_name for fn in demo.fns.values() if fn.api_visibility == "public"]
    assert public == ["race"]


def test_no_trace_is_missed_while_an_answer_is_pending() -> None:
    demo = built()
    follow = [fn for fn in demo.fns.values() if any(event == "trace" for _, event in fn.targets)]
    assert len(follow) == 5
    assert {fn.trigger_mode for fn in follow} == {"always_last"}


def test_every_panel_that_sends_the_trace_to_the_server_says_so() -> None:
    shown = [block.value for block in built().blocks.values() if isinstance(block, gr.HTML)]
    notes = [text for text in shown if isinstance(text, str) and WHERE in text]
    for mark in ("see-the-run", "what-if", "head-report", "tree-by-hand"):
        assert sum(f'id="{mark}"' in text for text in notes) == 1


def test_no_part_of_the_page_takes_words_for_markdown() -> None:
    """It would load a picture that a file's words name."""
    assert not [block for block in built().blocks.values() if isinstance(block, gr.Markdown)]


def test_views_need_neither_torch_nor_gradio() -> None:
    code = (
        "import sys, app.views.messages, app.views.charts, app.replay, app.settings\n"
        "assert not {'torch', 'gradio', 'transformers'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_help_names_every_flag() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from app.settings import *; read_settings(['--help'], {})"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    for flag in ("target", "head", "device", "dtype", "cache", "host", "port"):
        assert f"--{flag}" in done.stdout


def test_a_port_in_use_ends_in_one_sentence() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        command = [sys.executable, "app.py", "--port", str(port), "--target", "/no/such/folder"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    wanted = f"app.py: port {port} is in use; try --port with another number"
    assert wanted in done.stderr.splitlines()


def test_a_wrong_flag_ends_in_one_sentence() -> None:
    command = [sys.executable, "app.py", "--port", "99999"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.stderr == "app.py: port 99999; expected 1 to 65535\n"
