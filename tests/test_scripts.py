"""The scripts that measure and record go with the page and the engine as they are."""

from __future__ import annotations

from pathlib import Path

from fake_bench import FakeBench
from record_walks import TREES, prompts
from timed_app import TimedBench

from eagle_core.options import RunOptions


def test_a_race_behind_a_clock_is_logged_step_by_step(tmp_path: Path) -> None:
    log = tmp_path / "log"
    racing = TimedBench(FakeBench(), log).race("Hello", RunOptions(max_new_tokens=8), earlier=())
    moments = list(racing)
    assert len(log.read_text().splitlines()) == len(moments) - 2, "one prefill a lane"


def test_walks_are_recorded_for_each_prompt_of_the_page_once() -> None:
    listed = prompts()
    assert len(set(listed)) == len(listed) > len(TREES)
    assert all(RunOptions(tree=tree) for tree in TREES)
