// How tokens and numbers are written.

import assert from "node:assert/strict";
import test from "node:test";

import { clip, milliseconds, ordinal, pieceOf, probability, treeName, visible } from "../../assets/viewer/text.js";
import { niceCeiling, sameness } from "../../assets/viewer/score.js";
import { barShapes } from "../../assets/viewer/steps.js";
import { apply, initialState } from "../../assets/viewer/state.js";
import { reason, summary } from "../../assets/viewer/why.js";
import { eagleStep, plainStep, trace } from "./samples.mjs";

test("spaces, newlines and unseen characters are made visible", () => {
  assert.equal(visible(" the\n"), "␣the⏎");
  assert.equal(visible("\u202eab\u0000"), "\\u202eab\\u0000");
  assert.equal(visible("<img src=x onerror=alert(1)>"), "<img␣src=x␣onerror=alert(1)>");
  assert.equal(visible("日本 é"), "日本␣é");
});

test("a piece without text is shown as its number", () => {
  assert.equal(pieceOf({ 4: "" }, 4), "#4");
  assert.equal(pieceOf({}, 9), "#9");
});

test("long tokens are cut by width", () => {
  assert.equal(clip("abcdef", 6), "abcdef");
  assert.equal(clip("abcdefg", 6), "abcde…");
  assert.equal(clip("日本語日本語", 6), "日本…");
});

test("probabilities have two digits and never pretend to be certain", () => {
  assert.equal(probability(0.614), "0.61");
  assert.equal(probability(1), "1.00");
  assert.equal(probability(0), "0.00");
  assert.equal(probability(0.0004), "<.01");
  assert.equal(probability(0.9994), ">.99");
  assert.equal(probability(null), "–");
});

test("numbers read well", () => {
  assert.equal(milliseconds(4.12), "4.1 ms");
  assert.equal(milliseconds(61.7), "62 ms");
  assert.equal(milliseconds(12_340), "12.3 s");
  assert.deepEqual([1, 2, 3, 4, 11, 12, 13, 21, 22].map(ordinal), ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "22nd"]);
  assert.equal(treeName("tree:25"), "tree of 25");
  assert.equal(treeName("ranks:0.1.00"), "tree by hand of 3");
  assert.deepEqual([0, 950, 1400, 2000, 5363].map(niceCeiling), [0, 1000, 1500, 2000, 6000]);
});

test("a node's fate is told with its numbers", () => {
  const step = eagleStep();
  assert.match(reason(step, 1), /most probable: this one, so it is kept/);
  assert.match(reason(step, 1, "seeded"), /its own draw here/);
  assert.match(reason(step, 1, "lossy_typical"), /acceptance probability is 1.000, so it is kept/);
  assert.match(reason(step, 1, "block"), /as a whole/);
  assert.match(reason(step, 2), /a sibling before it was kept/);
  const sampled = { ...step, draw: [null, 0.25, null, 0.5], accept: [null, 0.75, 0, 0.9] };
  assert.match(reason(sampled, 1), /draw 0\.250 is below the acceptance probability 0\.750/);
  const refused = { ...sampled, verdicts: "ox--", path: [0], draw: [null, 0.8, null, null] };
  assert.match(reason(refused, 1), /not below/);
  assert.match(reason(refused, 3), /its parent was not kept/);
  assert.equal(summary(step), "2 accepted + bonus token · 3 drafted · 1 target pass");
  assert.equal(summary(plainStep(4)), "1 target pass, 1 token");
});

test("a step's bar shows accepted tokens below the bonus token", () => {
  const { steps } = apply(initialState(), { v: 1, kind: "trace", run: "x", label: "", text: "", trace: trace([eagleStep(), { ...eagleStep(), path: [0], text: [" c"] }]) }).lanes.eagle;
  const { accepted, bonus, most } = barShapes(steps, { gap: 20, bar: 10 });
  assert.equal(most, 3);
  assert.equal(accepted.split("M").length - 1, 1);
  assert.match(bonus, /^M3.00 0.00h10.00v15.00h-10.00zM23.00 32.00h/);
});

test("the verdict on both texts says what it may", () => {
  const state = apply(initialState(), { v: 1, kind: "trace", run: "x", label: "", text: "", trace: trace() });
  assert.deepEqual(sameness(state), { text: "✓ Same text: all 4 tokens are equal", is: "same" });
  state.lanes.plain.tokens[2].id = 8;
  assert.match(sameness(state).text, /part at token 3: plain ‹␣z›, EAGLE ‹␣b›/);
  state.settings = { temperature: 0.7 };
  assert.match(sameness(state).text, /their law is the same/);
  state.settings = { temperature: 0.7, rule: "lossy_typical" };
  assert.match(sameness(state).text, /this rule CHANGES THE LAW/);
  state.settings = { temperature: 0.7, rule: "seeded" };
  assert.match(sameness(state).text, /^≠ The texts part/);
});
