"""The bridge to the engine: stop, errors, loading, and nothing shared between visitors."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from fake_bench import FakeBench, FakeMoment, FakeRecording

from app.ask import Ask
from app.runner import Progress, Runner, runner_for
from app.settings import Settings
from eagle_core.errors import TargetError
from eagle_core.options import RunOptions
from eagle_core.text import MAX_PROMPT_CHARACTERS
from eagle_core.trace import Turn


def ask(prompt: str = "Hello", **changes: Any) -> Ask:
    entered = {"max_new_tokens": 32, "temperature": 0.0, "seed": 0, "tree": "auto"} | changes
    return Ask(prompt, entered)


def runner_of(bench: FakeBench) -> Runner:
    runner = Runner(lambda _: bench)
    runner.start_loading()
    return runner


def read(message: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(message)
    return data


def told(runner: Runner, entered: Ask) -> list[dict[str, Any]]:
    """The run's messages but for those about waiting."""
    messages = [read(update) for update in runner.race(entered, visitor="me")]
    return [message for message in messages if message["kind"] != "status"]


def test_a_run_starts_tells_its_events_in_order_and_ends_whole() -> None:
    start, *events, end = told(runner_of(FakeBench()), ask())
    assert (start["kind"], start["prompt"], start["settings"]["tree"]) == (
        "start",
        "Hello",
        "tree:12",
    )
    assert [message["kind"] for message in events] == ["events"] * len(events)
    assert [message["seq"] for message in (start, *events, end)] == list(range(len(events) + 2))
    streamed = [event for message in events for event in message["events"]]
    for lane in end["trace"]["lanes"]:
        method = lane["method"]
        mine = [event for event in streamed if event["lane"] == method]
        assert mine == [{"lane": method, **event} for event in lane["events"]]
    assert not end["stopped"]


def num_tokens(end: dict[str, Any], method: str) -> int:
    (lane,) = (one for one in end["trace"]["lanes"] if one["method"] == method)
    return sum(len(event["text"]) for event in lane["events"])


def test_the_last_message_carries_the_whole_trace() -> None:
    end = told(runner_of(FakeBench()), ask())[-1]
    assert num_tokens(end, "eagle") == 32


def test_fast_steps_are_batched() -> None:
    messages = told(runner_of(FakeBench()), ask(max_new_tokens=400))
    assert len(messages) < 100


def test_stop_leaves_a_partial_trace_that_says_so() -> None:
    bench = FakeBench(pace=0.3)
    runner = runner_of(bench)
    updates = runner.race(ask(max_new_tokens=500), visitor="me")
    while read(next(updates))["kind"] != "events":
        pass
    stopper = threading.Thread(target=runner.stop, args=("me",))
    stopper.start()
    *_, last = updates
    stopper.join()
    end = read(last)
    assert end["kind"] == "end"
    assert end["stopped"]
    assert 0 < num_tokens(end, "plain") < 500
    assert bench.num_open == 0


def test_stop_without_a_run_says_so() -> None:
    assert runner_of(FakeBench()).stop("nobody") is False


def test_one_visitors_stop_leaves_the_others_run_alone() -> None:
    runner = runner_of(FakeBench())
    updates = runner.race(ask(max_new_tokens=64), visitor="one")
    next(updates)
    assert runner.stop("another") is False
    *_, last = updates
    assert not read(last)["stopped"]


def test_a_closed_tab_frees_the_engine() -> None:
    bench = FakeBench(pace=0.1)
    runner = runner_of(bench)
    updates = runner.race(ask(max_new_tokens=500), visitor="me")
    while read(next(updates))["kind"] != "events":
        pass
    assert bench.num_open == 1
    updates.close()
    assert bench.num_open == 0
    assert told(runner, ask())[-1]["kind"] == "end"


@pytest.mark.parametrize(
    ("entered", "words"),
    [
        (ask(" \n"), "The prompt is empty; try typing a question first."),
        (ask("a" * 100_000), "A prompt of 100,000 characters; expected at most 50,000;"),
        (ask(max_new_tokens=None), "The length is missing; expected a number."),
        (ask(max_new_tokens=2.5), "Length 2.5; expected a whole number."),
        (ask(max_new_tokens=0), "Max_new_tokens 0; expected a whole number from 1"),
        (ask(temperature=float("nan")), "Temperature nan; expected a number"),
        (ask(seed=-1), "Seed -1; expected a whole number"),
        (ask(tree="bush:9"), "Tree 'bush:9'; expected auto, best, chain:1"),
    ],
    ids=["empty", "long", "missing", "fraction", "zero", "nan", "seed", "tree"],
)
def test_a_wrong_entry_is_one_plain_sentence_and_the_next_run_works(
    entered: Ask, words: str
) -> None:
    runner = runner_of(FakeBench())
    (message,) = told(runner, entered)
    assert message["kind"] == "error"
    assert message["text"].startswith(words)
    assert told(runner, ask())[-1]["kind"] == "end"


def test_a_prompt_of_the_greatest_length_is_let_through() -> None:
    assert told(runner_of(FakeBench()), ask("a" * MAX_PROMPT_CHARACTERS))[-1]["kind"] == "end"


class BrokenBench(FakeBench):
    def race(
        self, prompt: str, options: RunOptions, *, earlier: Sequence[Turn] = ()
    ) -> FakeRecording:
        return BrokenRecording(self, prompt, options, tuple(earlier))


class BrokenRecording(FakeRecording):
    def __iter__(self) -> Iterator[FakeMoment]:
        yield from list(super().__iter__())[:4]
        raise ZeroDivisionError("secret detail")


def test_a_bug_is_logged_but_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    runner = runner_of(BrokenBench())
    last = told(runner, ask())[-1]
    assert last["kind"] == "error"
    assert "secret" not in last["text"]
    assert "secret detail" in caplog.text
    assert told(runner, ask())[-1]["kind"] == "error"


def test_a_run_asked_for_while_loading_waits_and_then_runs() -> None:
    may_finish = threading.Event()

    def load(progress: Progress) -> FakeBench:
        progress("Fetching the model", 0.5)
        assert may_finish.wait(10)
        return FakeBench()

    runner = Runner(load)
    runner.start_loading()
    updates = runner.race(ask(), visitor="me")
    waiting = read(next(updates))
    assert (waiting["kind"], waiting["phase"]) == ("status", "waiting")
    may_finish.set()
    *_, last = updates
    assert read(last)["kind"] == "end"
    assert runner.model.phase == "ready"


def test_waiting_for_the_model_can_be_stopped() -> None:
    may_finish = threading.Event()

    def load(_: Progress) -> FakeBench:
        assert may_finish.wait(10)
        return FakeBench()

    runner = Runner(load)
    updates = runner.race(ask(), visitor="me")
    next(updates)
    stopper = threading.Thread(target=runner.stop, args=("me",))
    stopper.start()
    *_, last = updates
    stopper.join()
    may_finish.set()
    assert read(last) == {
        "v": 1,
        "kind": "status",
        "about": "run",
        "phase": "idle",
        "text": "Stopped before it began.",
        "tone": "info",
        "fraction": None,
    }


def test_a_failed_load_is_told_and_tried_again() -> None:
    attempts = []

    def load(_: Progress) -> FakeBench:
        attempts.append(1)
        if len(attempts) < 2:
            raise TargetError("the index cannot be reached", hint="a network connection")
        return FakeBench()

    runner = Runner(load)
    runner.start_loading()
    while runner.model.phase == "loading":
        threading.Event().wait(0.01)
    assert runner.model.text.startswith("The index cannot be reached; try a network connection.")
    assert told(runner, ask())[-1]["kind"] == "end"
    assert len(attempts) == 2


def test_a_load_that_keeps_failing_ends_in_words(caplog: pytest.LogCaptureFixture) -> None:
    def load(_: Progress) -> FakeBench:
        raise MemoryError("17 GiB")

    (message,) = told(Runner(load), ask())
    assert message["kind"] == "error"
    assert "17 GiB" not in message["text"]
    assert "17 GiB" in caplog.text


def test_nothing_is_loaded_before_it_is_asked_for() -> None:
    assert runner_for(Settings()).model.phase == "failed"


# Conversations


def test_a_follow_up_reads_the_turns_before_it_and_says_so_from_the_start() -> None:
    earlier = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    entered = Ask("Hello", {"max_new_tokens": 16}, json.dumps(earlier))
    start, *_, end = told(runner_of(FakeBench()), entered)
    assert start["earlier"] == end["trace"]["earlier"] == earlier


def test_turns_of_one_visitor_are_not_the_next_ones() -> None:
    runner = runner_of(FakeBench())
    told(runner, Ask("Hello", {}, '[{"role": "user", "content": "mine"}]'))
    (start, *_) = told(runner, ask())
    assert start["earlier"] == []


# Heads


def heads_told(runner: Runner, head: str) -> list[dict[str, Any]]:
    entered = Ask("Hello", {"max_new_tokens": 16}, head=head)
    return [read(update) for update in runner.race(entered, visitor="me")]


def test_a_run_may_choose_another_head_which_is_loaded_once_and_said() -> None:
    loaded: list[str] = []

    class Counting(FakeBench):
        def with_head(self, name: str) -> FakeBench:
            loaded.append(name)
            return super().with_head(name)

    runner = Runner(lambda _: Counting(), heads=("fake-head", "other"))
    first = heads_told(runner, "other")
    assert any("Loading the head other" in message.get("text", "") for message in first)
    for head, name in (("other", "other"), ("", "fake-head"), ("fake-head", "fake-head")):
        start = next(m for m in heads_told(runner, head) if m["kind"] == "start")
        assert start["environment"]["head"] == name
    assert loaded == ["other"]


@pytest.mark.parametrize("head", ["another", "../eagle", "/etc"])
def test_a_head_that_is_not_offered_is_refused(head: str) -> None:
    (*_, error) = heads_told(Runner(lambda _: FakeBench(), heads=("fake-head",)), head)
    assert error["kind"] == "error"
    assert "expected one of fake-head" in error["text"]


def test_heads_are_offered_where_several_are_shipped_for_the_target() -> None:
    assert runner_for(Settings()).heads[0] == "eagle"
    assert runner_for(Settings(target="some/other")).heads == ()
    assert runner_for(Settings(head="my/own/head")).heads == ()
