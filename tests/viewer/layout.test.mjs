// Where nodes stand: no overlap, no crossing, and the same place every time.

import assert from "node:assert/strict";
import test from "node:test";

import { childrenOf, layoutTree } from "../../assets/viewer/layout.js";

// EAGLE's static tree of 25 drafts, level by level.
const STATIC = [null, 0, 0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 4, 5, 5, 5, 6, 6, 7, 7, 8, 13, 13, 13, 21, 21];

function random(seed) {
  let state = seed;
  return () => (state = (state * 48271) % 2147483647) / 2147483647;
}

function randomTree(seed, size) {
  const next = random(seed);
  const parents = [null];
  while (parents.length < size) parents.push(Math.floor(next() * parents.length));
  return parents;
}

const trees = [[null], STATIC, ...Array.from({ length: 60 }, (_, seed) => randomTree(seed + 1, 2 + (seed * 3) % 90))];

test("no two nodes stand in the same place", () => {
  for (const parents of trees) {
    const { rows, columns } = layoutTree(parents);
    const places = new Set(rows.map((row, node) => `${columns[node]}/${row}`));
    assert.equal(places.size, parents.length);
  }
});

test("a first child stands on its parent's row, later ones below in the order tried", () => {
  for (const parents of trees) {
    const { rows } = layoutTree(parents);
    childrenOf(parents).forEach((children, node) => {
      if (children.length) assert.equal(rows[children[0]], rows[node]);
      children.slice(1).forEach((child, index) => assert.ok(rows[child] > rows[children[index]]));
    });
  }
});

test("edges between two depths do not cross", () => {
  for (const parents of trees) {
    const { rows, columns } = layoutTree(parents);
    const edges = parents.map((parent, node) => ({ parent, node })).filter(({ parent }) => parent !== null);
    for (const one of edges) {
      for (const other of edges) {
        if (columns[one.node] !== columns[other.node]) continue;
        const above = rows[one.parent] - rows[other.parent];
        const below = rows[one.node] - rows[other.node];
        assert.ok(above * below >= 0, `edges to ${one.node} and ${other.node} cross`);
      }
    }
  }
});

test("the same tree is laid out the same, and a bonus child moves nothing above it", () => {
  assert.deepEqual(layoutTree(STATIC), layoutTree(STATIC));
  const plain = layoutTree(STATIC);
  const withBonus = layoutTree([...STATIC, 21]);
  STATIC.forEach((_, node) => {
    assert.equal(withBonus.columns[node], plain.columns[node]);
    if (plain.rows[node] === 0) assert.equal(withBonus.rows[node], 0);
  });
});

test("subtrees use free room: the static tree needs fewer rows than it has leaves", () => {
  const leaves = childrenOf(STATIC).filter((children) => !children.length).length;
  assert.ok(layoutTree(STATIC).numRows < leaves);
});

test("a chain as long as a trace allows does not overflow the stack", () => {
  const chain = [null, ...Array(4095).keys()];
  assert.equal(layoutTree(chain).numColumns, 4096);
});
