// Saved traces are read with the same distrust as in Python: both over tests/fixtures/traces.json.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { RecordError, readTrace } from "../../assets/viewer/record.js";

const { trace, cases } = JSON.parse(readFileSync(new URL("../fixtures/traces.json", import.meta.url), "utf-8"));

function changed({ at, value }) {
  const copy = structuredClone(trace);
  if (at.length) at.slice(0, -1).reduce((inner, key) => inner[key], copy)[at.at(-1)] = value;
  return JSON.stringify(copy);
}

for (const one of cases) {
  test(`${one.name} is ${one.refused === null ? "read" : "refused"}`, () => {
    if (one.refused === null) readTrace(changed(one));
    else assert.throws(() => readTrace(changed(one)), (error) => error instanceof RecordError && error.message.includes(one.refused) && error.message.length < 400);
  });
}

test("what is no JSON ends in a sentence, too", () => {
  for (const text of ["", "{", "[".repeat(200_000), "null", "[]", "5", '"x"', '{"version":NaN}']) {
    assert.throws(() => readTrace(text), RecordError);
  }
});

test("a setting that nobody knows is left out, for a name could be code", () => {
  const { settings } = readTrace(changed({ at: ["settings", "x=1)\nimport os #"], value: 1 }));
  assert.deepEqual(settings, trace.settings);
});

test("the shipped recordings are read", () => {
  for (const name of ["01-code", "02-explain", "03-story-sampled"]) {
    readTrace(readFileSync(new URL(`../../assets/traces/${name}.json`, import.meta.url), "utf-8"));
  }
});

test("laws are checked where there are any", () => {
  const withLaws = (laws) => {
    const copy = structuredClone(trace);
    copy.lanes[1].events[1].laws = laws;
    return JSON.stringify(copy);
  };
  readTrace(withLaws([{ node: 0, target: [[5, 7], [0.6, 0.2]], draft: null }]));
  for (const wrong of [5, [5], [{ node: 99, target: [[], []] }], [{ node: 0, target: [[5], []] }], [{ node: 0, target: [[5], [2]] }], [{ node: 0 }]]) {
    assert.throws(() => readTrace(withLaws(wrong)), RecordError);
  }
});
