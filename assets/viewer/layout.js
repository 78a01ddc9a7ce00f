// Where the nodes of a draft tree stand: column = depth, row = as high as the order allows. Pure.
//
//     root ─ the ─ cat ─ sat      A first child stands on its parent's row, so a tree whose first
//          │     └ dog            choices are kept is a straight line. Later siblings come below,
//          └ a ─ man              in the order tried; subtrees move up into free room, but no row
//                                 of one depth is used twice and no two edges cross.

/**
 * `parents[i]` is the parent of node i, null for the root; parents come before their children.
 * Returns `{rows, columns, numRows, numColumns}`, the first two indexed by node.
 */
export function layoutTree(parents) {
  const children = childrenOf(parents);
  const offsets = new Array(parents.length).fill(0);
  const contours = new Array(parents.length);
  for (let node = parents.length - 1; node >= 0; node--) {
    contours[node] = stack(children[node], contours, offsets);
    for (const child of children[node]) contours[child] = null;
  }
  return place(parents, offsets);
}

/** `make(step)`, worked out once for each step. */
export function oncePerStep(make) {
  const known = new WeakMap();
  return (step) => {
    if (!known.has(step)) known.set(step, make(step));
    return known.get(step);
  };
}

/** All children of a node's parent. */
export const siblingsOf = ({ parents }, node) => childrenOf(parents)[parents[node]];

export function childrenOf(parents) {
  const children = parents.map(() => []);
  parents.forEach((parent, node) => parent !== null && children[parent].push(node));
  return children;
}

/** Put subtrees below each other; a contour is the first and last row used, per depth. */
function stack(nodes, contours, offsets) {
  const below = [];
  for (const node of nodes) {
    const own = contours[node];
    let offset = 0;
    for (let depth = 0; depth < Math.min(below.length, own.length); depth++) {
      offset = Math.max(offset, below[depth].last - own[depth].first + 1);
    }
    offsets[node] = offset;
    own.forEach(({ first, last }, depth) => {
      below[depth] = { first: below[depth]?.first ?? first + offset, last: last + offset };
    });
  }
  below.unshift({ first: 0, last: 0 });
  return below;
}

function place(parents, offsets) {
  const rows = [];
  const columns = [];
  parents.forEach((parent, node) => {
    rows.push((rows[parent] ?? 0) + offsets[node]);
    columns.push((columns[parent] ?? -1) + 1);
  });
  return sized(rows, columns);
}

const sized = (rows, columns) => ({ rows, columns, numRows: Math.max(...rows) + 1, numColumns: Math.max(...columns) + 1 });

/**
 * `layout` with the nodes `from` to `end` of `parents` put in: each below all that stands in its
 * column, level with its parent or lower. Nothing else moves, and their edges cross no others of them.
 */
export function putBelow(layout, parents, from, end) {
  const [rows, columns] = [layout.rows, layout.columns].map((places) => places.toSpliced(from, 0, ...new Array(end - from)));
  const levels = [];
  for (let node = from; node < end; node++) {
    columns[node] = columns[parents[node]] + 1;
    (levels[columns[node]] ??= []).push(node);
  }
  levels.forEach((nodes, column) => {
    let free = layout.rows.reduce((row, last, node) => (layout.columns[node] === column ? Math.max(row, last + 1) : row), 0);
    for (const node of nodes.sort((one, other) => rows[parents[one]] - rows[parents[other]])) {
      rows[node] = Math.max(free, rows[parents[node]]);
      free = rows[node] + 1;
    }
  });
  return sized(rows, columns);
}

/**
 * The node that an arrow key leads to: → the first child, ← the parent, ↑ and ↓ the neighbours in
 * the same column. Null where there is none.
 */
export function neighbour(parents, { rows, columns }, node, key) {
  if (key === "ArrowLeft") return parents[node];
  if (key === "ArrowRight") return nearest(childrenOf(parents)[node]);
  const isAfter = (other) => (key === "ArrowDown" ? rows[other] > rows[node] : rows[other] < rows[node]);
  const column = parents.map((_, other) => other).filter((other) => columns[other] === columns[node] && isAfter(other));
  column.sort((one, other) => Math.abs(rows[one] - rows[node]) - Math.abs(rows[other] - rows[node]));
  return nearest(column);
}

const nearest = (nodes) => nodes[0] ?? null;
