// The draft tree of one step as SVG. Verdicts are told by line style and mark as well as colour.

import { s } from "./dom.js";
import { layoutTree } from "./layout.js";
import { clip, pieceOf, probability } from "./text.js";
import { VERDICTS, spoken } from "./why.js";

const NODE = { width: 106, height: 42 };
const PITCH = { x: 134, y: 52 };
const MARGIN = 6;
const LABEL_COLUMNS = 10;
const SMALLEST_SCALE = 0.92; // of a tree that is too wide: below it the letters would be too small
const KINDS = { o: "root", a: "accepted", x: "refused", "-": "unreached" };

/**
 * Draw `step`; `selected` is a node number or "bonus". Returns an <svg> whose nodes carry data-node.
 */
export function drawTree(step, { pieces, selected }) {
  const parents = parentsWithBonus(step);
  const layout = layoutTree(parents);
  const at = (node) => ({
    x: MARGIN + layout.columns[node] * PITCH.x,
    y: MARGIN + layout.rows[node] * PITCH.y,
  });
  const width = 2 * MARGIN + (layout.numColumns - 1) * PITCH.x + NODE.width;
  const height = 2 * MARGIN + (layout.numRows - 1) * PITCH.y + NODE.height;
  const svg = s("svg", {
    class: "ev-tree", width, height, viewBox: `0 0 ${width} ${height}`,
    style: `min-width: ${SMALLEST_SCALE * width}px`, role: "group",
    "aria-label": "Draft tree, left to right by depth",
  });
  svg.append(drawEdges(step, parents, at), ...drawNodes(step, parents, { at, pieces, selected }));
  return svg;
}

function drawEdges(step, parents, at) {
  const kept = new Set(step.path);
  const edges = parents.map((parent, node) => {
    if (parent === null) return null;
    const kind = node === step.tokens.length ? "bonus" : KINDS[step.verdicts[node]];
    return { kind, path: edgePath(at(parent), at(node)), isKept: kept.has(node) };
  }).filter(Boolean);
  edges.sort((one, other) => one.isKept - other.isKept); // the kept path lies on top
  return s("g", { "aria-hidden": "true" }, edges.map(({ kind, path }) => s("path", { class: `ev-edge ev-${kind}`, d: path })));
}

function edgePath(from, to) {
  const x = from.x + NODE.width;
  const y = from.y + NODE.height / 2;
  const middle = (x + to.x) / 2;
  const end = to.y + NODE.height / 2;
  return `M${x} ${y}C${middle} ${y} ${middle} ${end} ${to.x} ${end}`;
}

function drawNodes(step, parents, { at, pieces, selected }) {
  return parents.map((_, node) => {
    const isBonus = node === step.tokens.length;
    const key = isBonus ? "bonus" : node;
    const facts = isBonus ? bonusFacts(step, pieces) : nodeFacts(step, node, pieces);
    const isSelected = key === selected;
    return s("g", {
      class: `ev-node ev-${facts.kind}${isSelected ? " ev-selected" : ""}`,
      transform: `translate(${at(node).x} ${at(node).y})`,
      "data-node": key,
      role: "button",
      tabindex: isSelected ? 0 : -1,
      "aria-label": facts.spoken,
      "aria-pressed": isSelected,
    }, drawBox(facts.kind), s("text", { class: "ev-mark", x: 9, y: 17 }, facts.mark),
    drawLabel(facts), drawNumbers(facts));
  });
}

function nodeFacts(step, node, pieces) {
  const letter = step.verdicts[node];
  const name = pieceOf(pieces, step.tokens[node]);
  return {
    kind: KINDS[letter], mark: VERDICTS[letter].mark, name,
    spoken: spoken(step, node, name),
    numbers: node === 0 ? null : [probability(step.draft[node]), probability(step.accept[node])],
    note: node === 0 ? "root" : null,
  };
}

function bonusFacts(step, pieces) {
  const name = pieceOf(pieces, step.bonus);
  return { kind: "bonus", mark: "◆", name, spoken: `bonus token ${name}`, numbers: null, note: "bonus token" };
}

function drawBox(kind) {
  const { width, height } = NODE;
  if (kind !== "bonus") return s("rect", { class: "ev-box", width, height, rx: 7 });
  // Cut corners: the bonus token is no draft, and looks like none.
  return s("path", { class: "ev-box", d: `M9 0H${width - 9}L${width} ${height / 2}L${width - 9} ${height}H9L0 ${height / 2}Z` });
}

function drawLabel({ name, mark, kind }) {
  const columns = kind === "bonus" ? LABEL_COLUMNS - 1 : LABEL_COLUMNS; // its corners are cut
  // Glyphs that stand for spaces are part of the name by now; they are drawn fainter.
  const parts = clip(name, columns).split(/([␣⏎⇥]+)/).filter(Boolean);
  return s("text", { class: "ev-token", x: mark ? 23 : 9, y: 17 },
    parts.map((part) => s("tspan", { class: /^[␣⏎⇥]/.test(part) ? "ev-glyph" : null }, part)));
}

function drawNumbers({ numbers, note }) {
  if (!numbers) return s("text", { class: "ev-numbers", x: 9, y: 34 }, note ?? "");
  const [draft, accept] = numbers;
  return s("g", { class: "ev-numbers" },
    s("text", { x: 9, y: 34 }, s("tspan", { class: "ev-unit" }, "d "), draft),
    s("text", { x: 56, y: 34 }, s("tspan", { class: "ev-unit" }, "a "), s("tspan", { class: "ev-accept" }, accept)));
}

/** The height that the tallest of `steps` needs, so that the box does not jump between steps. */
export function treeHeight(steps) {
  const numRows = steps.reduce((most, step) => Math.max(most, rowsOf(step)), 1);
  return 2 * MARGIN + (numRows - 1) * PITCH.y + NODE.height;
}

const knownRows = new WeakMap();

function rowsOf(step) {
  if (!knownRows.has(step)) knownRows.set(step, layoutTree(parentsWithBonus(step)).numRows);
  return knownRows.get(step);
}

/** The drafted tree with the bonus token as the last child of the kept path's end. */
const parentsWithBonus = (step) => (step.bonus === null ? step.parents : [...step.parents, step.path.at(-1)]);
