"""The page over a bench without a model, for browser tests: `python tests/fake_app.py PORT`.

It shows a made-up recording; with a second argument "bare" none, with "shipped" those that are
shipped, and then its vocabulary is harmless.

Its vocabulary holds texts that would run if anything took them for markup or a template.
"""

from __future__ import annotations

import sys

from fake_bench import WORDS, FakeBench

from app import build_demo, launch_kwargs
from app.replay import Recorded, load_recordings
from app.runner import Runner
from app.settings import Settings
from eagle_core.options import RunOptions

HOSTILE = [
    "<img src=x onerror='window.hacked=1'>",
    "${window.hacked=2}",
    "{{window.hacked=3}}",
    "</script><script>window.hacked=4</script>",
    "<!--",
    "\u202e",
]
PACE = 0.3


def recorded() -> Recorded:
    options = RunOptions(max_new_tokens=96, temperature=0.7, tree="tree:25", seed=4)
    recording = FakeBench().race("Tell me a story.", options)
    list(recording)
    return Recorded("Story", recording.trace())


def recordings_of(shown: str) -> list[Recorded]:
    if shown == "shipped":
        return list(load_recordings())
    return [] if shown == "bare" else [recorded()]


def main() -> None:
    heads = ("fake-head", "other-head")
    shown = (sys.argv[2:] or ["made-up"])[0]
    words = WORDS if shown == "shipped" else WORDS + HOSTILE
    recordings = recordings_of(shown)
    runner = Runner(lambda _: FakeBench(pace=PACE, words=words), heads=heads)
    demo = build_demo(runner=runner, recordings=recordings)
    demo.launch(**launch_kwargs(Settings(port=int(sys.argv[1]))), quiet=True)


if __name__ == "__main__":
    main()
