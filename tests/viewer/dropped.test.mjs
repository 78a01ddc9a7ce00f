// Candidates that a dynamic tree dropped: where they stand, what is said of them, and that nothing else changes.

import assert from "node:assert/strict";
import test from "node:test";

import { runCsv, stepText } from "../../assets/viewer/exports.js";
import { lawRows } from "../../assets/viewer/inspector.js";
import { layoutTree, neighbour, putBelow } from "../../assets/viewer/layout.js";
import { lookOf, phasesOf, withDropped } from "../../assets/viewer/phases.js";
import { scene } from "../../assets/viewer/stage.js";
import * as now from "../../assets/viewer/state.js";
import { rowsOf } from "../../assets/viewer/table.js";
import { layoutOf, nodeKey, parentsWithBonus } from "../../assets/viewer/tree.js";
import { reason, spoken, summary } from "../../assets/viewer/why.js";
import { eagleStep, trace } from "./samples.mjs";

const pieces = { 5: "The", 7: " a", 8: " z", 9: " b", 11: " c" };
// The sample: root ─ 1 ─ 3 ─ bonus, root ─ 2. Dropped: 4 below 1, 5 below 4, 6 below the root.
const step = () => ({
  ...eagleStep(),
  dropped: { tokens: [7, 8, 9], parents: [1, 4, 0], draft: [0.04, 0.5, 0.03], values: [0.024, 0.012, 0.03], least_kept: 0.25 },
});

function opened(...steps) {
  const state = now.apply(now.initialState(), { v: 1, kind: "trace", run: "x", label: "", text: "", trace: trace(steps) });
  now.moveTo(state, 0);
  return state;
}

test("shown, they are nodes numbered on from the step's own, the bonus token still the last", () => {
  const shown = withDropped(step());
  assert.deepEqual(shown.tokens, [5, 7, 8, 9, 7, 8, 9]);
  assert.deepEqual(shown.parents, [null, 0, 0, 1, 1, 4, 0]);
  assert.equal(shown.verdicts, "oa-addd");
  assert.deepEqual(shown.accept.slice(4), [null, null, null]);
  assert.deepEqual(lookOf(shown).kinds, ["root", "accepted", "unreached", "accepted", "dropped", "dropped", "dropped", "bonus"]);
  assert.deepEqual(parentsWithBonus(shown).map((_, node) => nodeKey(shown, node)), [0, 1, 2, 3, 4, 5, 6, "bonus"]);
});

test("a step that dropped nothing is shown as it is, and any other as the same object each time", () => {
  const [plain, telling] = [eagleStep(), step()];
  assert.equal(withDropped(plain), plain);
  assert.equal(withDropped(telling), withDropped(telling));
});

function random(seed) {
  let state = seed;
  return () => (state = (state * 48271) % 2147483647) / 2147483647;
}

/** A tree of `kept` nodes, then `more` candidates below any node before them, then a bonus token. */
function randomCase(seed) {
  const next = random(seed);
  const [kept, more] = [1 + Math.floor(next() * 25), 1 + Math.floor(next() * 80)];
  const parents = [null];
  while (parents.length < kept + more) parents.push(Math.floor(next() * parents.length));
  for (let node = 1; node < kept; node++) parents[node] = Math.floor(next() * node);
  const bonus = Math.floor(next() * kept);
  return { base: [...parents.slice(0, kept), bonus], parents: [...parents, bonus], kept, end: kept + more };
}

const cases = Array.from({ length: 80 }, (_, seed) => randomCase(seed + 1));

test("nothing that stood there moves, and no two nodes stand in the same place", () => {
  for (const { base, parents, kept, end } of cases) {
    const before = layoutTree(base);
    const after = putBelow(before, parents, kept, end);
    const without = (places) => [...places.slice(0, kept), ...places.slice(end)];
    assert.deepEqual(without(after.rows), before.rows);
    assert.deepEqual(without(after.columns), before.columns);
    assert.equal(new Set(after.rows.map((row, node) => `${after.columns[node]}/${row}`)).size, parents.length);
    assert.equal(after.numRows, Math.max(...after.rows) + 1);
  }
});

test("each stands a column after its parent and never above it, and their edges do not cross", () => {
  for (const { base, parents, kept, end } of cases) {
    const { rows, columns } = putBelow(layoutTree(base), parents, kept, end);
    for (let one = kept; one < end; one++) {
      assert.equal(columns[one], columns[parents[one]] + 1);
      assert.ok(rows[one] >= rows[parents[one]]);
      for (let other = kept; other < one; other++) {
        if (columns[one] !== columns[other]) continue;
        assert.ok((rows[parents[one]] - rows[parents[other]]) * (rows[one] - rows[other]) >= 0);
      }
    }
  }
});

test("arrows lead to them and back", () => {
  const shown = withDropped(step());
  const go = (node, key) => neighbour(parentsWithBonus(shown), layoutOf(shown), node, key);
  assert.equal(go(2, "ArrowDown"), 6);
  assert.equal(go(4, "ArrowRight"), 5);
  assert.equal(go(5, "ArrowLeft"), 4);
});

test("why one was dropped is said by its path value and the smallest one kept", () => {
  const shown = withDropped(step());
  assert.equal(reason(shown, 5), "Never shown to the target: its path value is 0.012, and the smallest one kept is 0.25.");
  const none = withDropped({ ...step(), dropped: { ...step().dropped, least_kept: null } });
  assert.match(reason(none, 4), /0\.024, and no draft was worth the target's time\.$/);
  assert.equal(spoken(shown, 4, "␣a"), "token ␣a, dropped, draft probability 0.04");
});

test("the status line counts them while they are shown", () => {
  assert.equal(summary(withDropped(step())), "2 accepted + bonus token · 3 drafted + 3 dropped · 1 target pass");
  assert.equal(summary(step()), "2 accepted + bonus token · 3 drafted · 1 target pass");
  const bare = { ...step(), tokens: [5], parents: [null], verdicts: "o", draft: [null], target: [null], accept: [null], draw: [null], path: [0] };
  bare.dropped = { ...bare.dropped, parents: [0, 1, 0] };
  assert.equal(summary(withDropped(bare)), "1 target pass, 1 token + 3 dropped");
});

test("the table lists them below their parents, without a place in the walk", () => {
  const shown = withDropped(step());
  const rows = rowsOf({ step: shown, pieces, look: lookOf(shown) });
  assert.deepEqual(rows.map(({ node }) => node), [0, 1, 3, 4, 5, 2, 6, "bonus"]);
  assert.deepEqual(rows[4], { node: 5, token: "␣z", depth: "3", tried: "–", after: "␣a", draft: "0.50", target: "–", accept: "–", draw: "–", verdict: "dropped" });
});

test("phases are the step's own, and a level shows what was dropped of it", () => {
  const state = opened(step());
  state.prefs.showsDropped = true;
  const [telling] = state.lanes.eagle.steps;
  assert.deepEqual(phasesOf(telling, pieces).length, phasesOf(eagleStep(), pieces).length);
  state.view.phase = 0;
  assert.deepEqual(scene(state, telling).look.kinds, ["root", "drafted", "drafted", null, null, null, "dropped", null]);
  state.view.phase = 2;
  assert.deepEqual(scene(state, telling).look.kinds.slice(4), ["dropped", "dropped", "dropped", null]);
  state.view.phase = null;
  state.prefs.isHiding = true;
  assert.deepEqual(scene(state, telling).look.kinds, ["root", "drafted", "drafted", "drafted", "dropped", "dropped", "dropped", null]);
});

test("one that was picked gives way while they are out of sight", () => {
  const state = opened(step());
  const [telling] = state.lanes.eagle.steps;
  const selected = () => scene(state, telling).selected;
  const usual = selected();
  state.prefs.showsDropped = true;
  state.view.node = 5;
  assert.equal(selected(), 5);
  state.prefs.showsDropped = false;
  assert.equal(selected(), usual);
  state.view.node = "bonus";
  assert.equal(selected(), "bonus");
});

test("what is shown for them leaves laws, texts and files of the step as they are", () => {
  const laws = [{ node: 1, target: [[9], [0.9]], draft: null }];
  assert.deepEqual(lawRows(withDropped({ ...step(), laws }), 1).map(({ token }) => token), [9, 7], "a choice of the head's that was dropped is still its choice");
  const [telling, plain] = [opened(step()), opened(eagleStep())];
  telling.prefs.showsDropped = true;
  assert.equal(stepText(telling), stepText(plain));
  assert.equal(runCsv(telling), runCsv(plain));
});

test("messages of a run on its way need not have them, and the end brings them", () => {
  const state = now.initialState();
  now.apply(state, { v: 1, kind: "start", run: "r", seq: 0, prompt: "", settings: {}, environment: {} });
  state.prefs.showsDropped = true;
  now.apply(state, { v: 1, kind: "events", run: "r", seq: 1, events: [eagleStep()], pieces });
  assert.equal(scene(state, now.stepInView(state)).step.kept, undefined);
  now.apply(state, { v: 1, kind: "end", run: "r", seq: 2, text: "Done.", stopped: false, trace: trace([step()]) });
  assert.equal(scene(state, now.stepInView(state)).step.tokens.length, 7);
});
