"""What the page does when it is touched: plain functions and generators.

Each returns or yields values in the order of `race.Shown`: the viewer's message, the buttons.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import closing
from typing import Any

import gradio as gr

from app.ask import Ask
from app.links import read_link
from app.replay import Recorded
from app.runner import ModelState, Runner
from app.views import messages
from eagle_core.options import OPTION_NAMES

SECONDS_BETWEEN_LOOKS = 0.4


class Acts:
    """The acts of a page over one runner."""

    def __init__(self, runner: Runner, recordings: Sequence[Recorded]) -> None:
        self._runner = runner
        self.recordings = recordings

    async def open_page(self) -> AsyncIterator[str]:
        """Show the first recording, then tell how the model's loading goes until it is settled."""
        model = self._runner.model
        if self.recordings:
            yield self._recording(self.recordings[0], model.text, model, opening=True)
        else:
            yield _model_status(model)
        while model.phase == "loading":
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
            if self._runner.model != model:
                model = self._runner.model
                yield _model_status(model)

    def replay(self, number: int) -> str:
        recorded = self.recordings[number]
        return self._recording(recorded, f"Recorded run: {recorded.title}.", None)

    def follow_link(self, event: gr.EventData) -> tuple[Any, ...]:
        """Fill in the form and show the recording that a link names; no link begins a run."""
        link = read_link(event._data, heads=self._runner.heads)
        named = [number for number, one in enumerate(self.recordings) if one.title == link.run]
        shown: Any = gr.skip()
        if named:
            shown = self.replay(named[0])
        elif link.lacks_head:
            shown = messages.status(self._no_such_head(), about="run")
        form = (link.prompt, *map(link.options.get, OPTION_NAMES), link.head)
        return (shown, *(gr.skip() if value is None else value for value in form))

    def _no_such_head(self) -> str:
        here = ", ".join(self._runner.heads) or "the one it was started with"
        return f"The link was made with a head that this page does not have; here is {here}."

    def begin(self, request: gr.Request) -> tuple[Any, ...]:
        """The name of the run asked for, and the buttons."""
        name = self._runner.expect(_visitor(request))
        return (name, *self.buttons(request))

    def buttons(self, request: gr.Request) -> tuple[Any, ...]:
        """Run and Stop as they should be now, whatever this is an answer to.

        A run's own last message comes twice and may come late, so it says nothing of buttons: it
        could undo those of the next run.
        """
        return _buttons(is_running=self._runner.is_busy(_visitor(request)))

    def answer(
        self,
        prompt: str,
        max_new_tokens: float,
        temperature: float,
        top_p: float,
        top_k: float,
        seed: float,
        tree: str,
        rule: str,
        min_p: float,
        repetition_penalty: float,
        presence_penalty: float,
        frequency_penalty: float,
        stop: str,
        record_dropped: bool,
        head: str | None,
        continues: bool,
        earlier: str,
        name: str,
        request: gr.Request,
    ) -> Iterator[str]:
        """Race both lanes; each item is a message for the viewer.

        `continues` is for the browser, which fills in `earlier` by it. `name` is the run's, from
        `begin`; empty for a run that nobody pressed a button for.
        """
        del continues
        first = (max_new_tokens, temperature, top_p, top_k, seed, tree, rule, min_p)
        later = (repetition_penalty, presence_penalty, frequency_penalty, stop, record_dropped)
        entered = dict(zip(OPTION_NAMES, (*first, *later), strict=True))
        ask = Ask(prompt or "", entered, earlier, head or "")
        race = self._runner.race(ask, visitor=_visitor(request), name=name)
        with closing(race) as told:
            yield from told

    def stop(self, request: gr.Request) -> tuple[Any, ...]:
        """A run under way says itself that it has stopped, and its end frees the buttons."""
        if self._runner.stop(_visitor(request)):
            return _untouched(3)
        idle = messages.status("Stopped before it began.", about="run", phase="idle")
        return (idle, *self.buttons(request))

    def leave(self, request: gr.Request) -> None:
        self._runner.forget(_visitor(request))

    def _recording(
        self, recorded: Recorded, text: str, model: ModelState | None, *, opening: bool = False
    ) -> str:
        return messages.recording(
            recorded.title,
            trace=recorded.trace,
            label=f"Recorded run: {recorded.title}",
            opening=opening,
            text=text,
            tone=_tone(model),
            fraction=None if model is None else model.fraction,
        )


def _visitor(request: gr.Request) -> str:
    return str(request.session_hash)


def _untouched(count: int) -> tuple[Any, ...]:
    return tuple(gr.skip() for _ in range(count))


def _buttons(*, is_running: bool) -> tuple[Any, ...]:
    return gr.update(interactive=not is_running), gr.update(interactive=is_running)


def _model_status(model: ModelState) -> str:
    return messages.status(model.text, about="model", tone=_tone(model), fraction=model.fraction)


def _tone(model: ModelState | None) -> messages.Tone:
    if model is None:
        return "info"
    tones: dict[str, messages.Tone] = {"loading": "busy", "ready": "done", "failed": "error"}
    return tones[model.phase]
