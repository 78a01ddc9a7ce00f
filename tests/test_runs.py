"""Whose run is whose: asked for, under way, taken back, over."""

from __future__ import annotations

from app.runs import Runs


def test_a_run_is_begun_under_the_name_it_was_asked_by() -> None:
    runs = Runs()
    asked = runs.ask("me")
    assert runs.is_busy("me")
    assert runs.begin("me", asked.name) is asked
    assert asked.is_wanted
    runs.end("me", asked)
    assert not runs.is_busy("me")
    assert asked.is_over.is_set()


def test_a_run_nobody_asked_for_is_a_new_one() -> None:
    runs = Runs()
    for name in (None, "", "unheard of"):
        run = runs.begin("me", name)
        assert run.is_wanted
        assert runs.is_busy("me")
        runs.end("me", run)
        assert not runs.is_busy("me")


def test_a_run_taken_back_while_it_waits_is_not_the_next_one() -> None:
    runs = Runs()
    first = runs.ask("me")
    assert runs.stop("me") == []
    assert not runs.is_busy("me")
    second = runs.ask("me")
    assert not runs.begin("me", first.name).is_wanted
    assert runs.begin("me", second.name).is_wanted


def test_a_run_taken_back_that_never_gets_its_turn_is_in_nobodys_way() -> None:
    runs = Runs()
    runs.ask("me")
    runs.stop("me")
    second = runs.ask("me")
    assert runs.begin("me", second.name).is_wanted


def test_a_second_click_asks_for_nothing() -> None:
    runs = Runs()
    first, second = runs.ask("me"), runs.ask("me")
    assert first.is_wanted
    assert not second.is_wanted
    runs.end("me", runs.begin("me", second.name))
    assert runs.is_busy("me")


def test_a_run_may_be_asked_for_while_the_stopped_one_ends() -> None:
    runs = Runs()
    first = runs.begin("me", runs.ask("me").name)
    assert runs.stop("me") == [first]
    second = runs.ask("me")
    assert runs.is_busy("me")
    runs.end("me", first)
    assert second.is_wanted
    assert runs.is_busy("me")


def test_stop_is_for_ones_own_runs() -> None:
    runs = Runs()
    mine, yours = runs.ask("me"), runs.ask("you")
    runs.stop("me")
    assert not mine.is_wanted
    assert yours.is_wanted


def test_nothing_is_kept_of_a_visitor_who_has_left() -> None:
    runs = Runs()
    running = runs.begin("me", runs.ask("me").name)
    runs.stop("me")
    waiting = runs.ask("me")
    runs.forget("me")
    assert not waiting.is_wanted
    assert not running.is_over.is_set()
    runs.end("me", running)
    assert not runs.is_busy("me")
    assert runs.stop("me") == []
