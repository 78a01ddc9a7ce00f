// The viewer's memory: what messages do to it, and what its figures say.

import assert from "node:assert/strict";
import test from "node:test";

import * as now from "../../assets/viewer/state.js";
import { eagleStep, plainStep, prefill, trace } from "./samples.mjs";

const begin = { v: 1, kind: "start", run: "r1", seq: 0, prompt: "Hi", settings: { temperature: 0 }, environment: {} };

function running(...batches) {
  const state = now.apply(now.initialState(), begin);
  batches.forEach((events, index) => now.apply(state, { v: 1, kind: "events", run: "r1", seq: index + 1, events, pieces: { 7: " a" } }));
  return state;
}

test("a run fills both lanes and counts as the project does", () => {
  const state = running([prefill("plain"), prefill("eagle")], [plainStep(1), eagleStep()]);
  const eagle = now.figures(state.lanes.eagle);
  assert.equal(eagle.numTokens, 4); // first token, two accepted, bonus
  assert.equal(eagle.numPasses, 1);
  assert.equal(eagle.tau, 3);
  assert.equal(eagle.decodeMs, 60);
  assert.equal(eagle.tokensPerS, 50);
  assert.equal(now.figures(state.lanes.plain).tau, 1);
  assert.equal(now.speedup(state), 50 / 25);
  assert.deepEqual(state.lanes.eagle.tokens.map(({ origin }) => origin), ["prefill", "accepted", "accepted", "bonus"]);
});

test("the newest step is followed until the visitor looks back", () => {
  const state = running([prefill("eagle")], [eagleStep(), eagleStep()]);
  assert.equal(state.view.step, 1);
  now.moveTo(state, 0);
  now.apply(state, { v: 1, kind: "events", run: "r1", seq: 3, events: [eagleStep()], pieces: {} });
  assert.equal(state.view.step, 0);
  now.moveTo(state, now.lastStep(state));
  now.apply(state, { v: 1, kind: "events", run: "r1", seq: 4, events: [eagleStep()], pieces: {} });
  assert.equal(state.view.step, 3);
});

test("a lost message is noticed, and the last one makes the trace whole", () => {
  const state = running([prefill("plain"), prefill("eagle")]);
  now.apply(state, { v: 1, kind: "events", run: "r1", seq: 3, events: [eagleStep()], pieces: {} });
  assert.equal(state.hasGap, true);
  assert.equal(state.lanes.eagle.steps.length, 0);
  now.apply(state, { v: 1, kind: "end", run: "r1", seq: 4, stopped: false, text: "Done.", trace: trace() });
  assert.equal(state.hasGap, false);
  assert.equal(state.lanes.eagle.steps.length, 1);
  assert.equal(state.phase, "finished");
});

test("events of another run are ignored, but its end is shown", () => {
  const state = running([prefill("eagle")]);
  now.apply(state, { v: 1, kind: "events", run: "other", seq: 2, events: [eagleStep()], pieces: {} });
  assert.equal(state.lanes.eagle.steps.length, 0);
  now.apply(state, { v: 1, kind: "end", run: "other", seq: 9, stopped: true, text: "Stopped", trace: trace() });
  assert.equal(state.lanes.eagle.steps.length, 1);
  assert.equal(state.phase, "stopped");
});

test("an error leaves what was there", () => {
  const state = running([prefill("plain"), prefill("eagle")], [eagleStep()]);
  now.apply(state, { v: 1, kind: "error", run: "r2", text: "The prompt is empty." });
  assert.equal(state.status.tone, "error");
  assert.equal(state.lanes.eagle.steps.length, 1);
  const fresh = now.apply(now.initialState(), { v: 1, kind: "error", run: "r2", text: "No." });
  assert.equal(fresh.phase, "empty");
});

test("news of the model and recordings do not disturb a run", () => {
  const state = running([prefill("eagle")]);
  now.apply(state, { v: 1, kind: "status", about: "model", text: "Ready", fraction: null });
  assert.equal(state.status.text, "Running");
  now.apply(state, { v: 1, kind: "trace", run: "old", label: "Old", text: "", trace: trace() });
  assert.equal(state.run, "r1");
});

test("a recorded trace opens on the step that tells most", () => {
  const state = now.initialState();
  const dull = { ...eagleStep(), path: [0], verdicts: "oxx-", text: [" b"] };
  const recorded = trace([dull, eagleStep(), dull]);
  now.apply(state, { v: 1, kind: "trace", run: "rec", label: "Recorded", text: "Ready", trace: recorded });
  assert.equal(state.view.step, 1);
  assert.equal(now.nodeInView(state), 3);
  assert.equal(state.phase, "finished");
});

test("texts are compared token by token", () => {
  const same = now.apply(now.initialState(), { v: 1, kind: "trace", run: "x", label: "", text: "", trace: trace() });
  assert.deepEqual(now.comparison(same), { position: 4, isSame: true });
  same.lanes.plain.tokens[2].id = 99;
  assert.deepEqual(now.comparison(same), { position: 2, isSame: false });
  const open = running([prefill("plain"), prefill("eagle")], [plainStep(7)]);
  assert.deepEqual(now.comparison(open), { position: 1, isSame: null });
});

test("a message of another version asks for a reload", () => {
  const state = now.apply(now.initialState(), { v: 2, kind: "start" });
  assert.equal(state.status.tone, "error");
});
