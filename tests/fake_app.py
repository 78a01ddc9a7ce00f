"""The page over a bench without a model, for browser tests: `python tests/fake_app.py PORT`.

With a second argument, "shipped", it shows the shipped recordings instead of a made-up one, and its
vocabulary is harmless.

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


def main() -> None:
    heads = ("fake-head", "other-head")
    is_shipped = "shipped" in sys.argv[2:]
    words = WORDS if is_shipped else WORDS + HOSTILE
    recordings = load_recordings() if is_shipped else [recorded()]
    runner = Runner(lambda _: FakeBench(pace=PACE, words=words), heads=heads)
    demo = build_demo(runner=runner, recordings=recordings)
    demo.launch(**launch_kwargs(Settings(port=int(sys.argv[1]))), quiet=True)


if __name__ == "__main__":
    main()
