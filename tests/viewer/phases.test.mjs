// A step told phase by phase, and what of it may be seen while the answer is held back.

import assert from "node:assert/strict";
import test from "node:test";

import { neighbour } from "../../assets/viewer/layout.js";
import { lookOf, phasesOf, triedNodes } from "../../assets/viewer/phases.js";
import * as now from "../../assets/viewer/state.js";
import { rowsOf } from "../../assets/viewer/table.js";
import { layoutOf } from "../../assets/viewer/tree.js";
import { eagleStep, plainStep, prefill, trace } from "./samples.mjs";

const pieces = { 5: "The", 7: " a", 8: " z", 9: " b", 11: " c" };
// root ─ 1 refused, root ─ 2 accepted ─ 3 refused, 4 accepted
const step = () => ({
  ...eagleStep(), tokens: [5, 7, 8, 9, 11], parents: [null, 0, 0, 2, 2], verdicts: "oxaxa", path: [0, 2, 4],
  draft: [null, 0.6, 0.3, 0.5, 0.2], target: [null, 0.2, 0.6, 0.3, 0.5], accept: [null, 0.2, 0.75, 0.3, 0.71], draw: [null, 0.9, 0.1, 0.8, 0.5],
});

test("the coins come in the order of the walk", () => {
  assert.deepEqual(triedNodes(step()), [1, 2, 3, 4]);
  assert.deepEqual(triedNodes(eagleStep()), [1, 3]);
});

test("a step is drafted level by level, scored, tossed and committed", () => {
  const kinds = phasesOf(step(), pieces).map(({ kind }) => kind);
  assert.deepEqual(kinds, ["level", "level", "target", "coin", "coin", "coin", "coin", "commit"]);
  assert.match(phasesOf(step(), pieces)[3].text, /‹␣a› · draw 0.90, acceptance probability 0.20: refused/);
  assert.match(phasesOf(step(), pieces).at(-1).text, /^Commit 3 tokens: ␣z ␣c ␣c$/);
  assert.deepEqual(phasesOf(plainStep(7), pieces), []);
});

test("each phase shows what is known by then and no more", () => {
  const phases = phasesOf(step(), pieces);
  const look = (phase, isHiding = false) => lookOf(step(), { phase, phases, isHiding });
  assert.deepEqual(look(0).kinds, ["root", "drafted", "drafted", null, null, null]);
  assert.equal(look(1).hasAccept, false);
  assert.deepEqual(look(2), { kinds: ["root", "drafted", "drafted", "drafted", "drafted", null], hasAccept: true });
  assert.deepEqual(look(4).kinds, ["root", "refused", "accepted", "drafted", "drafted", null]);
  assert.deepEqual(look(7).kinds, ["root", "refused", "accepted", "refused", "accepted", "bonus"]);
  assert.deepEqual(look(null).kinds, look(7).kinds);
});

test("hidden verdicts give nothing away, neither in the tree nor in the table", () => {
  const phases = phasesOf(step(), pieces);
  const look = lookOf(step(), { phase: null, phases, isHiding: true });
  assert.deepEqual(look.kinds, ["root", "drafted", "drafted", "drafted", "drafted", null]);
  const rows = rowsOf({ step: step(), pieces, look });
  assert.deepEqual([...new Set(rows.map(({ verdict }) => verdict))], ["root", "not judged yet"].slice(rows[0].verdict === "root" ? 0 : 1));
  assert.ok(rows.slice(1).every(({ accept, draw, target }) => accept === "–" && draw === "–" && target === "–"));
});

test("the table tells every node's facts in the order of the walk", () => {
  const rows = rowsOf({ step: step(), pieces, look: lookOf(step(), { phase: null, phases: [], isHiding: false }) });
  assert.deepEqual(rows.map(({ node }) => node), [0, 1, 2, 3, 4, "bonus"]);
  assert.deepEqual(rows[4], { node: 4, token: "␣c", depth: "2", tried: "2nd", after: "␣z", draft: "0.20", target: "0.50", accept: "0.71", draw: "0.50", verdict: "accepted" });
});

test("arrows lead to parent, first child and the neighbours in the column", () => {
  const { parents } = step();
  const layout = layoutOf({ ...step(), bonus: null });
  const go = (node, key) => neighbour(parents, layout, node, key);
  assert.equal(go(0, "ArrowRight"), 1);
  assert.equal(go(4, "ArrowLeft"), 2);
  assert.equal(go(1, "ArrowDown"), 2);
  assert.equal(go(2, "ArrowUp"), 1);
  assert.equal(go(1, "ArrowRight"), null);
  assert.equal(go(0, "ArrowLeft"), null);
});

function opened() {
  return now.apply(now.initialState(), { v: 1, kind: "trace", run: "x", label: "", text: "", trace: trace([step(), eagleStep()]) });
}

test("the clock of a replay goes through steps and their phases, and veils what comes later", () => {
  const state = opened();
  const phases = (one) => phasesOf(one, pieces);
  now.showAt(state, 1, phases); // of 8 ms of drafting two levels
  assert.deepEqual([state.view.step, state.view.phase], [0, 0]);
  now.showAt(state, 20, phases);
  assert.equal(phases(state.lanes.eagle.steps[0])[state.view.phase].kind, "target");
  now.showAt(state, 59.9, phases);
  assert.equal(phases(state.lanes.eagle.steps[0])[state.view.phase].kind, "commit");
  assert.equal(now.veiledFrom(state, "eagle"), 0);
  assert.equal(now.veiledFrom(state, "plain"), 1); // plain steps take 40 ms
  now.showAt(state, 61, phases);
  assert.equal(state.view.step, 1);
  now.moveTo(state, 0);
  assert.equal(now.veiledFrom(state, "eagle"), Infinity);
});

test("hidden verdicts veil both texts from the step on", () => {
  const state = opened();
  now.moveTo(state, 0);
  state.prefs.isHiding = true;
  assert.equal(now.veiledFrom(state, "eagle"), 0);
  assert.equal(now.veiledFrom(state, "plain"), 0);
  state.view.phase = 5;
  assert.equal(now.veiledFrom(state, "eagle"), Infinity);
});

test("a run keeps what the visitor set about looking", () => {
  const state = opened();
  state.prefs.isTable = true;
  now.apply(state, { v: 1, kind: "start", run: "r", seq: 0, prompt: "", settings: {}, environment: {} });
  now.apply(state, { v: 1, kind: "events", run: "r", seq: 1, events: [prefill("eagle")], pieces: {} });
  assert.equal(state.prefs.isTable, true);
  assert.equal(state.trace, null);
});
