// The sums beside a node: recounted from the numbers shown, they give the recorded probability.

import assert from "node:assert/strict";
import test from "node:test";

import { arithmetic } from "../../assets/viewer/why.js";
import { lawRows } from "../../assets/viewer/inspector.js";
import { eagleStep } from "./samples.mjs";

const siblings = (columns) => ({ ...eagleStep(), tokens: [5, 7, 8, 9], parents: [null, 0, 0, 0], verdicts: "oxa-", path: [0, 2], ...columns });

test("greedy says whether the token is the target's argmax", () => {
  assert.deepEqual(arithmetic(eagleStep(), 1, "greedy"), ["a = 1: the token is the target's argmax"]);
  assert.deepEqual(arithmetic(eagleStep(), 2, "greedy"), ["a = 0: the target's argmax is another token"]);
  assert.deepEqual(arithmetic(eagleStep(), 0, "greedy"), []);
});

test("one-hot divides by what the refused siblings left", () => {
  const step = siblings({ target: [null, 0.2, 0.4, 0.1], accept: [null, 0.2, 0.5, 0.25], draw: [null, 0.7, 0.3, null], draft: [null, 0.5, 0.3, 0.1] });
  assert.deepEqual(arithmetic(step, 1, "one_hot"), ["a = t = 0.2", "draw 0.7000 ≥ 0.2000: refused"]);
  assert.deepEqual(arithmetic(step, 2, "one_hot"), [
    "refused before it: 0.2 = 0.2",
    "a = t ÷ (1 − refused) = 0.4 ÷ 0.8 = 0.5",
    "draw 0.3000 < 0.5000: kept",
  ]);
  assert.equal(arithmetic(step, 3, "one_hot").length, 2); // no draw: it was not tried
});

test("without replacement both laws lose what was drawn", () => {
  const step = siblings({ target: [null, 0.3, 0.4, 0.1], accept: [null, 0.6, 0.5, 1], draw: [null, 0.7, 0.3, null], draft: [null, 0.5, 0.25, 0.1] });
  assert.equal(arithmetic(step, 1, "without_replacement")[0], "a = min(1, t ÷ d) = min(1, 0.3 ÷ 0.5) = 0.6");
  assert.deepEqual(arithmetic(step, 2, "without_replacement").slice(0, 3), [
    "d′ = d ÷ (1 − drawn before) = 0.25 ÷ 0.5 = 0.5",
    "t′ = its share of what the refusals left of the target law",
    "a = min(1, t′ ÷ d′) = min(1, 0.25 ÷ 0.5) = 0.5",
  ]);
});

test("a rule that is not known here still shows its coin", () => {
  const step = siblings({ accept: [null, 0.6, 0.5, 1], draw: [null, 0.7, 0.3, null] });
  assert.deepEqual(arithmetic(step, 2, "iid"), ["draw 0.3000 < 0.5000: kept"]);
  assert.deepEqual(arithmetic(step, 2, "block"), ["draw 0.3000 < 0.5000"]); // decided for the chain as a whole
});

test("both laws stand side by side, best of the target first; children stand in for an unkept draft law", () => {
  const laws = [{ node: 0, target: [[8, 7], [0.7, 0.2]], draft: null }, { node: 1, target: [[9], [0.9]], draft: [[9, 4], [0.5, 0.4]] }];
  const step = { ...eagleStep(), laws };
  assert.deepEqual(lawRows(step, 0), [{ token: 8, target: 0.7, draft: 0.3 }, { token: 7, target: 0.2, draft: 0.6 }]);
  assert.deepEqual(lawRows(step, 1), [{ token: 9, target: 0.9, draft: 0.5 }, { token: 4, target: null, draft: 0.4 }]);
  assert.deepEqual(lawRows(step, 3), []);
  assert.deepEqual(lawRows(eagleStep(), 0), []);
});
