"""What the viewer costs, measured in headless Chromium: `python tests/measure_viewer.py`.

Scrubbing and streaming are measured on the viewer alone, over made-up steps; the first paint on the
whole page, served by `tests/fake_app.py`. The figures are those of this machine at this moment.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
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
        return f"{self.name:44} {self.measured:9.1f} of {self.limit:g} {self.unit}  {verdict}"


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


def open_viewer(browser: Any) -> Any:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto("about:blank")
    page.set_content(f"<!doctype html><html><head>{viewer_head()}</head><body></body></html>")
    page.evaluate(f"script => {{ {HARNESS} }}", viewer_script())
    page.wait_for_selector(".ev", state="attached")
    return page


def scrub_ms(browser: Any, num_nodes: int, num_steps: int) -> float:
    """Processor milliseconds of script, style and layout for one step."""
    page = open_viewer(browser)
    trace = made_trace(num_nodes, 2 * num_steps + 1)
    page.evaluate(
        "text => send(text)",
        messages.recording("x", trace=trace, label="", text="", tone="info"),
    )
    page.wait_for_selector(".ev-node")
    page.focus(".ev-panel")
    page.keyboard.press("Home")
    page.evaluate(SCRUB, {"count": num_steps})  # warm
    client = page.context.new_cdp_session(page)
    client.send("Performance.enable", {"timeDomain": "threadTicks"})
    before = _work_ms(client)
    page.evaluate(SCRUB, {"count": num_steps})
    spent = _work_ms(client) - before
    page.close()
    return spent / num_steps


def _work_ms(client: Any) -> float:
    metrics = client.send("Performance.getMetrics")["metrics"]
    return float(sum(1000 * one["value"] for one in metrics if one["name"] in WORK))


def stream_lag_ms(browser: Any, num_messages: int, per_second: float = 30) -> float:
    """95th percentile from a message to its drawing; fails where one was lost or out of order."""
    page = open_viewer(browser)
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
    lags = page.evaluate(STREAM, {"texts": texts, "gapMs": 1000 / per_second})
    page.wait_for_selector(f".ev-lane-eagle [data-step='{num_messages - 1}']")
    shown = page.text_content(".ev-lane-eagle .ev-text")
    page.close()
    told = list(dict.fromkeys(part.rstrip("]") for part in shown.split("[")[1:]))
    assert told == [str(number) for number in numbers], "messages were lost or out of order"
    return float(sorted(lags)[int(0.95 * (len(lags) - 1))])


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
    return float(measured)


def measure(browser: Any, *, num_steps: int, num_messages: int) -> list[Budget]:
    """Everything but the first paint, which needs the whole page."""
    return [
        Budget("bytes per step at 60 nodes", 3 * 1024, "bytes", bytes_per_step(60)),
        Budget("bytes per step at 250 nodes", 10 * 1024, "bytes", bytes_per_step(250)),
        Budget("scrub at 60 nodes", 8, "ms", scrub_ms(browser, 60, num_steps)),
        Budget("scrub at 250 nodes", 16, "ms", scrub_ms(browser, 250, num_steps)),
        Budget("lag at 30 messages/s, p95", 100, "ms", stream_lag_ms(browser, num_messages)),
    ]


def main() -> None:
    with chromium() as browser:
        budgets = measure(browser, num_steps=60, num_messages=600)
        budgets.append(
            Budget("first paint of a recorded run", 1_500, "ms", first_paint_ms(browser))
        )
    for budget in budgets:
        print(budget.line)  # noqa: T201  the report is what it is run for


if __name__ == "__main__":
    main()
