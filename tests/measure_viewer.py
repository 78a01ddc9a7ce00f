"""What the viewer costs, measured in headless Chromium: `python tests/measure_viewer.py`.

Scrubbing and streaming are measured on the viewer alone, over made-up steps; the first paint on the
whole page, served by `tests/fake_app.py`; the lag behind an engine on the page of
`tests/timed_app.py`, with `--engine` behind the real one. Wherever a page logs an error or asks for
anything outside this machine, the measurement fails. The figures are those of this machine at this
moment.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from browsing import ROOT, Visit, chromium, free_port, served

sys.path.insert(0, str(ROOT))

from app.viewer import viewer_head, viewer_script
from app.views import messages
from eagle_core.trace import (
    Environment,
    Lane,
    Node,
    NodeLaws,
    Prefill,
    Settings,
    Step,
    TopLaw,
    Trace,
    Verdict,
)
from eagle_core.trace_json import event_to_json

NUM_WORDS = 400
NUM_KEPT = 4
ENVIRONMENT = Environment("made-up", "made-up", "cpu", "float32", 1)
SETTINGS = Settings(512, 0.7, 1.0, 0, 0, "tree", "without_replacement")


@dataclass(frozen=True)
class Budget:
    name: str
    limit: float
    unit: str
    measured: float

    @property
    def line(self) -> str:
        verdict = "ok" if self.measured <= self.limit else "over"
        return f"{self.name:44} {self.measured:9.1f} of {self.limit:.4g} {self.unit}  {verdict}"


def made_step(num_nodes: int, chance: random.Random) -> Step:
    """A bushy tree with at most four nodes kept."""
    parents = [None, *(max(0, chance.randrange(node) // 3) for node in range(1, num_nodes))]
    path = [0]
    while len(path) <= NUM_KEPT and path[-1] in parents:
        path.append(parents.index(path[-1]))
    nodes = [
        Node(
            chance.randrange(NUM_WORDS),
            parent,
            Verdict.ROOT
            if parent is None
            else Verdict.ACCEPTED
            if node in path
            else Verdict.NOT_REACHED,
            *((None,) * 4 if parent is None else (chance.random(), chance.random(), 0.5, None)),
        )
        for node, parent in enumerate(parents)
    ]
    laws = [NodeLaws(node, _made_law(chance), _made_law(chance)) for node in path]
    bonus = chance.randrange(NUM_WORDS)
    return Step(tuple(nodes), tuple(path), bonus, 30.0, 60.0, 1.0, laws=tuple(laws))


def _made_law(chance: random.Random) -> TopLaw:
    probs = [0.7**rank * 0.3 for rank in range(10)]
    return TopLaw(tuple(chance.randrange(NUM_WORDS) for _ in probs), tuple(probs))


def made_trace(num_nodes: int, num_steps: int) -> Trace:
    chance = random.Random(num_nodes)
    steps = [made_step(num_nodes, chance) for _ in range(num_steps)]
    pieces = {token: f" w{token}" for token in range(NUM_WORDS)}

    def lane(method: str, steps: list[Step]) -> Lane:
        events = (Prefill(9, 1, 50.0), *steps)
        texts = [tuple(pieces[token] for token in event.committed) for event in events]
        return Lane(method, events, tuple(texts))

    return Trace(
        "made up",
        SETTINGS,
        ENVIRONMENT,
        (lane("plain", [made_step(1, chance) for _ in range(num_steps)]), lane("eagle", steps)),
        pieces,
        "2026-01-01T00:00:00+00:00",
    )


def bytes_per_step(num_nodes: int) -> float:
    step = made_step(num_nodes, random.Random(1))
    texts = [" word"] * step.num_committed
    return len(json.dumps(event_to_json(step, texts), separators=(",", ":")).encode())


HARNESS = """
  window.box = document.body.appendChild(document.createElement("div"));
  box.append(Object.assign(document.createElement("div"), {className: "eagle-viewer"}));
  window.props = {value: ""};
  window.send = (text) => { props.value = text; window.told?.(); };
  new Function("element", "props", "watch", "trigger", script)(
    box, props, (_, callback) => { window.told = callback; }, () => {});
"""

SCRUB = """async ({count}) => {
  const panel = document.querySelector(".ev-panel");
  for (let step = 0; step < count; step++) {
    panel.dispatchEvent(new KeyboardEvent("keydown", {key: ".", bubbles: true}));
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  }
}"""

WORK = ("ScriptDuration", "LayoutDuration", "RecalcStyleDuration")

STREAM = """async ({texts, gapMs}) => {
  const lags = [];
  for (const text of texts) {
    const sent = performance.now();
    send(text);
    requestAnimationFrame(() => requestAnimationFrame(() => lags.push(performance.now() - sent)));
    await new Promise((done) => setTimeout(done, gapMs));
  }
  await new Promise((done) => setTimeout(done, 300));
  return lags;
}"""


@contextmanager
def opened_viewer(browser: Any) -> Iterator[Any]:
    """A page with the viewer alone; fails where it complained."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    complaints = []
    page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto("about:blank")
    page.set_content(f"<!doctype html><html><head>{viewer_head()}</head><body></body></html>")
    page.evaluate(f"script => {{ {HARNESS} }}", viewer_script())
    page.wait_for_selector(".ev", state="attached")
    yield page
    page.close()
    assert complaints == []


def scrub_ms(browser: Any, num_nodes: int, num_steps: int) -> float:
    """Processor milliseconds of script, style and layout for one step."""
    trace = made_trace(num_nodes, 2 * num_steps + 1)
    message = messages.recording("x", trace=trace, label="", text="", tone="info")
    with opened_viewer(browser) as page:
        page.evaluate("text => send(text)", message)
        page.wait_for_selector(".ev-node")
        page.focus(".ev-panel")
        page.keyboard.press("Home")
        page.evaluate(SCRUB, {"count": num_steps})  # warm
        client = _timed(page)
        before = _work_ms(client)
        page.evaluate(SCRUB, {"count": num_steps})
        return (_work_ms(client) - before) / num_steps


def _timed(page: Any) -> Any:
    client = page.context.new_cdp_session(page)
    client.send("Performance.enable", {"timeDomain": "threadTicks"})
    return client


def _work_ms(client: Any) -> float:
    metrics = client.send("Performance.getMetrics")["metrics"]
    return float(sum(1000 * one["value"] for one in metrics if one["name"] in WORK))


@dataclass(frozen=True)
class StreamCost:
    """lag_ms: 95th percentile from a message to its drawing. work_ms: processor time a message."""

    lag_ms: float
    work_ms: float


def stream_cost(browser: Any, num_messages: int, per_second: float = 30) -> StreamCost:
    """Fails where a message was lost or out of order."""
    chance = random.Random(0)
    pieces = {token: f" w{token}" for token in range(NUM_WORDS)}
    start = messages.start(
        "r", prompt="made up", earlier=(), settings=SETTINGS, environment=ENVIRONMENT
    )
    texts = [start]
    numbers = [*range(num_messages)]
    for number in numbers:
        step = made_step(60, chance)
        event = messages.LaneEvent("eagle", step, [f"[{number}]"] * step.num_committed)
        texts.append(messages.events("r", number + 1, happened=[event], pieces=pieces))
    with opened_viewer(browser) as page:
        client = _timed(page)
        before = _work_ms(client)
        lags = page.evaluate(STREAM, {"texts": texts, "gapMs": 1000 / per_second})
        work_ms = _work_ms(client) - before
        page.wait_for_selector(f".ev-lane-eagle [data-step='{num_messages - 1}']")
        shown = page.text_content(".ev-lane-eagle .ev-text")
    told = list(dict.fromkeys(part.rstrip("]") for part in shown.split("[")[1:]))
    assert told == [str(number) for number in numbers], "messages were lost or out of order"
    return StreamCost(percentile(lags, 0.95), work_ms / num_messages)


def percentile(values: Sequence[float], share: float) -> float:
    return float(sorted(values)[int(share * (len(values) - 1))])


WATCH_STEPS = """
  window.drawn = {};
  const watch = new MutationObserver(() => requestAnimationFrame(() => {
    const now = performance.timeOrigin + performance.now();
    for (const group of document.querySelectorAll(".ev-lane [data-step]")) {
      const lane = group.closest(".ev-lane-eagle") ? "eagle" : "plain";
      drawn[`${lane} ${group.dataset.step}`] ??= now;
    }
  }));
  watch.observe(document.querySelector(".ev-lanes"), {childList: true, subtree: true});
"""


def engine_lags_ms(browser: Any, *, num_tokens: int, is_real: bool) -> list[float]:
    """From each step's leaving the engine to the frame that draws it, server and page on one
    machine and one clock."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "steps"
        arguments = [str(port), str(log), *(["real"] if is_real else [])]
        server_log = Path(folder) / "log"
        with served("tests/timed_app.py", *arguments, port=port, log=server_log) as address:
            visit = Visit(browser, address)
            visit.wait_for_status("Ready", timeout_s=600)
            visit.page.evaluate(WATCH_STEPS)
            visit.ask("Tell me a story about the sea.", length=num_tokens)
            visit.wait_for_status("Done.", timeout_s=600)
            drawn = visit.page.evaluate("drawn")
            visit.close()
            assert visit.complaints == []
        left = [json.loads(line) for line in log.read_text().splitlines()]
    return [drawn[f"{lane} {step}"] - at for lane, step, at in left]


def first_paint_ms(browser: Any) -> float:
    """From the navigation to the first drawn node of the recorded run, the browser's cache warm."""
    port = free_port()
    watcher = (
        "new MutationObserver((_, self) => { if (document.querySelector('.ev-node')) {"
        " window.firstNode ??= performance.now(); self.disconnect(); } })"
        ".observe(document, {childList: true, subtree: true});"
    )
    with (
        tempfile.TemporaryDirectory() as folder,
        served("tests/fake_app.py", str(port), port=port, log=Path(folder) / "log") as address,
    ):
        visit = Visit(browser, address)
        visit.page.add_init_script(watcher)
        visit.page.reload()
        visit.page.wait_for_function("window.firstNode")
        measured = visit.page.evaluate("window.firstNode")
        visit.close()
        assert visit.complaints == []
    return float(measured)


def measure(browser: Any, *, num_steps: int, num_messages: int) -> list[Budget]:
    """Everything but the first paint, which needs the whole page."""
    stream = stream_cost(browser, num_messages)
    return [
        Budget("bytes per step at 60 nodes", 3 * 1024, "bytes", bytes_per_step(60)),
        Budget("bytes per step at 250 nodes", 10 * 1024, "bytes", bytes_per_step(250)),
        Budget("scrub at 60 nodes", 8, "ms", scrub_ms(browser, 60, num_steps)),
        Budget("scrub at 250 nodes", 16, "ms", scrub_ms(browser, 250, num_steps)),
        Budget("lag at 30 messages/s, p95", 100, "ms", stream.lag_ms),
        Budget("work a message at 60 nodes", 1000 / 30, "ms", stream.work_ms),
    ]


def main() -> None:
    with chromium() as browser:
        budgets = measure(browser, num_steps=60, num_messages=600)
        paint = first_paint_ms(browser)
        budgets.append(Budget("first paint of a recorded run", 1_500, "ms", paint))
        is_real = "--engine" in sys.argv[1:]
        lags = engine_lags_ms(browser, num_tokens=96, is_real=is_real)
        name = f"lag behind the {'real' if is_real else 'made-up'} engine, p95"
        budgets.append(Budget(name, 100, "ms", percentile(lags, 0.95)))
    for budget in budgets:
        print(budget.line)  # noqa: T201  the report is what it is run for


if __name__ == "__main__":
    main()
