// What leaves the page: texts, tables, snippets and links, each with where it came from.

import assert from "node:assert/strict";
import test from "node:test";

import { verdictOf } from "../../assets/viewer/compare.js";
import { linkHash, pythonSnippet, readLink, runCsv, stepText } from "../../assets/viewer/exports.js";
import * as now from "../../assets/viewer/state.js";
import { eagleStep, trace } from "./samples.mjs";

function opened(steps, change = {}) {
  const made = trace(steps);
  Object.assign(made.settings, { max_new_tokens: 64, top_p: 1, top_k: 0 }, change);
  return now.apply(now.initialState(), { v: 1, kind: "trace", run: "Story", recording: "Story", label: "", text: "", trace: made });
}

test("a link brings back run, options, step and node", () => {
  const state = opened([eagleStep(), eagleStep()], { seed: 7, temperature: 0.5 });
  now.lookAt(state, "eagle", 1);
  state.view.node = "bonus";
  const link = readLink(linkHash(state));
  assert.deepEqual(link.ask, { run: "Story", prompt: "Hi", max_new_tokens: "64", temperature: "0.5", top_p: "1", top_k: "0", tree: "tree:8", rule: "greedy", seed: "7", head: state.environment.head });
  assert.deepEqual(link.place, { lane: "eagle", step: 1, node: "bonus" });
});

test("a link carries stop strings, but no prompt that is too long or follows a conversation", () => {
  const state = opened([eagleStep()], { stop: ["END", "#"] });
  assert.deepEqual(JSON.parse(readLink(linkHash(state)).ask.stop), ["END", "#"]);
  assert.equal(readLink(linkHash(opened([eagleStep()], { stop: [] }))).ask.stop, "[]", "else the form would keep its own");
  const follower = { ...state, earlier: [{ role: "user", content: "a" }] };
  for (const other of [follower, { ...state, prompt: "x".repeat(2000) }]) {
    const { ask } = readLink(linkHash(other));
    assert.deepEqual([ask.prompt, ask.rule], [undefined, "greedy"]);
  }
});

test("a lossy rule and how to cite are said in whatever leaves the page", () => {
  const state = opened([eagleStep()], { rule: "lossy_typical" });
  state.cite = "Somebody, 2024";
  for (const text of [stepText(state), runCsv(state)]) assert.match(text, /CHANGES THE TEXT'S LAW[^]*cite Somebody, 2024/);
  assert.doesNotMatch(stepText(opened()), /CHANGES|cite/);
});

test("nothing in a link is taken at its word", () => {
  assert.equal(readLink(""), null);
  assert.equal(readLink("#settings"), null);
  const { place } = readLink("#run=x&lane=<img>&step=-9&node=1e9");
  assert.deepEqual(place, { lane: "eagle", step: 0, node: null });
});

test("a link's place is cut to what the trace has", () => {
  const state = now.initialState();
  state.awaited = { lane: "eagle", step: 500, node: 400 };
  now.apply(state, { v: 1, kind: "trace", run: "x", label: "", text: "", trace: trace() });
  assert.deepEqual([state.view.step, state.view.node, state.awaited], [0, null, null]);
});

test("the page's first recording gives way to what a link or a reload brought", () => {
  const state = opened();
  now.apply(state, { v: 1, kind: "trace", opening: true, run: "First", recording: "First", label: "First", text: "Ready", trace: trace() });
  assert.equal(state.recording, "Story");
  assert.equal(state.status.text, "Ready");
});

test("the CSV has a row per step, its environment above, and no formula", () => {
  const text = runCsv(opened([{ ...eagleStep(), text: ["=1+1", "\n", '"'] }]));
  const lines = text.trimEnd().split("\r\n");
  const rows = lines.filter((line) => !line.startsWith("#"));
  assert.ok(lines[0].startsWith("# target t, head h"));
  assert.equal(rows[0], "lane,step,drafted,accepted,committed,start_ms,draft_ms,verify_ms,commit_ms,text");
  assert.equal(rows.length, 1 + 3 + 1);
  assert.equal(rows.at(-1), 'eagle,1,3,2,3,0.000,8,50,2,"""=1+1\\n\\"""""');
});

test("the step as text tells every node and the machine", () => {
  const text = stepText(opened());
  assert.match(text, /^eagle, step 1 of 1: 2 accepted \+ bonus token/);
  assert.match(text, /␣b .*d 0.50 {2}t 0.90 {2}a 1.00 {2}draw – {2}accepted/);
  assert.match(text, /cpu, float32, 2 threads/);
  assert.match(text, /prompt "Hi"/);
});

test("the snippet repeats the run's options", () => {
  const snippet = pythonSnippet(opened([eagleStep()], { seed: 3, stop: ["END"], record_dropped: true }));
  for (const option of ['record_dropped=True,', 'seed=3,', 'tree="tree:8",', 'rule="greedy",', 'stop=tuple(["END"]),']) assert.ok(snippet.includes(`\n    ${option}\n`));
  assert.match(snippet, /earlier = \[Turn\(\*\*turn\) for turn in \[\]\]\n.*bench.race\("Hi", options, earlier=earlier\)/);
});

test("whatever a file says stays behind its # and within its quotes", () => {
  const evil = "x\nimport os\r\n=1+1\u2028";
  const state = opened();
  Object.assign(state.environment, { target: evil, head: evil, device: evil, dtype: evil, versions: { [evil]: evil } });
  Object.assign(state, { prompt: evil, created: evil, cite: evil, earlier: [{ role: evil, content: evil }] });
  for (const made of [pythonSnippet(state), runCsv(state)]) assert.doesNotMatch(made, /^(import os|=1)/m);
  assert.equal(pythonSnippet(state).split("\n")[2], "from eagle_core import RunOptions, Turn, dump_trace");
});

test("two traces part where the first step differs, and it is said why", () => {
  const refused = { ...eagleStep(), verdicts: "oxa-", path: [0, 2], text: [" z", " c"], draw: [null, 0.9, 0.1, null], accept: [null, 0.5, 0.5, 0.5] };
  const kept = { ...eagleStep(), draw: [null, 0.3, null, 0.2], accept: [null, 0.5, 0.5, 0.5] };
  assert.equal(verdictOf(opened(), opened()).text, "Equal throughout: 1 step.");
  const { step, text } = verdictOf(opened([eagleStep(), kept]), opened([eagleStep(), refused], { seed: 1 }));
  assert.equal(step, 1);
  assert.match(text, /both drafted the same, but ‹␣a› met another fate: a 0.500, draw 0.300 against a 0.500, draw 0.900\. What differs: seed 0 against 1\./);
  const drafted = verdictOf(opened(), opened([{ ...eagleStep(), tokens: [5, 7, 9, 9] }]));
  assert.match(drafted.text, /first in node 2: ‹␣z› against ‹␣b›/);
  assert.match(verdictOf(opened(), opened([eagleStep(), eagleStep()])).text, /until one of them ends: 1 steps against 2/);
});
