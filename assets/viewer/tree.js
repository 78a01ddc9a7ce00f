// The draft tree of one step as SVG. Verdicts are told by line style and mark as well as colour.
//
// The box scrolls as any box does; zooming changes the scale in it. To be quick, elements are used
// again, edges of one kind are one path, and only what lies in the box is drawn.

import { h, nodeAt, paths, pointing, s, setAttribute, setText } from "./dom.js";
import { layoutTree, oncePerStep, putBelow } from "./layout.js";
import { clip, pieceOf, probability } from "./text.js";
import { spoken } from "./why.js";

const NODE = { width: 106, height: 42 };
const PITCH = { x: 134, y: 52 };
const MARGIN = 6;
const LABEL_COLUMNS = 10;
const SMALLEST_SCALE = 0.92; // of a tree that is too wide, until the visitor zooms
const SCALES = { least: 0.12, most: 2.5, far: 0.5 }; // below `far` no letter can be read
const MAX_HEIGHT = 560;
const EDGE_KINDS = ["dropped", "drafted", "unreached", "refused", "bonus", "accepted"]; // later ones lie on top
export const MARKS = { accepted: "✓", refused: "✕", dropped: "↓", bonus: "◆" };
const ROUND = `M7 0h${NODE.width - 14}a7 7 0 0 1 7 7v${NODE.height - 14}a7 7 0 0 1-7 7h-${NODE.width - 14}a7 7 0 0 1-7-7v-${NODE.height - 14}a7 7 0 0 1 7-7z`;
// Cut corners: the bonus token is no draft, and looks like none.
const CUT = `M9 0H${NODE.width - 9}L${NODE.width} ${NODE.height / 2}L${NODE.width - 9} ${NODE.height}H9L0 ${NODE.height / 2}Z`;

/** The drafted tree with the bonus token as the last child of the kept path's end. */
export const parentsWithBonus = (step) => (step.bonus === null ? step.parents : [...step.parents, step.path.at(-1)]);

/** Nodes are named by number, the bonus token "bonus". */
export const nodeKey = (step, node) => (node === step.tokens.length ? "bonus" : node);

export const nodeNumber = (step, key) => (key === "bonus" ? step.tokens.length : key);

/** The layout of a step with its bonus token; what was dropped moves nothing. */
export const layoutOf = oncePerStep((step) => {
  const { kept, tokens } = step;
  const parents = parentsWithBonus(step);
  return kept ? putBelow(layoutOf(kept), parents, kept.tokens.length, tokens.length) : layoutTree(parents);
});

/**
 * `{element, update, zoom, fit}`. `update({step, steps, pieces, selected, look, hovered})`
 * draws one step in a box that is tall enough for the tallest of `steps`.
 */
export function createTree({ onSelect, onHover }) {
  const picture = createPicture();
  const { svg } = picture;
  const scrolled = () => {
    camera.left = element.scrollLeft;
    camera.top = element.scrollTop;
    draw();
  };
  const element = h("div", { class: "ev-tree-box", onscroll: scrolled }, svg);
  const camera = { scale: null, isFit: false, left: 0, top: 0, width: 700, height: MAX_HEIGHT };
  let shown = null;

  const draw = () => {
    if (!shown) return;
    drawStep(shown, { ...picture, camera });
    // Elements pass from node to node; the focus stays with the selected one.
    if (svg.contains(document.activeElement)) svg.querySelector(".ev-selected")?.focus({ preventScroll: true });
  };
  pointing(svg, nodeAt, { pick: onSelect, hover: onHover });
  new ResizeObserver(([{ contentRect }]) => {
    Object.assign(camera, { width: contentRect.width || 700, height: contentRect.height || MAX_HEIGHT });
    draw();
  }).observe(element);
  const zoom = (times) => {
    camera.scale = Math.min(Math.max(scaleOf(shown.layout, camera) * times, SCALES.least), SCALES.most);
    camera.isFit = false;
    draw();
  };
  const fit = () => {
    Object.assign(camera, camera.isFit ? { isFit: false, scale: null } : { isFit: true });
    draw();
  };
  element.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return; // a pinch, too, comes as a wheel with Ctrl
    event.preventDefault();
    zoom(Math.exp(-event.deltaY / 200));
  }, { passive: false });
  dragToPan(element);

  const update = (next) => {
    const isOther = next.step !== shown?.step || next.selected !== shown?.selected;
    shown = { ...next, layout: layoutOf(next.step) };
    element.style.height = `${boxHeight([...next.steps, next.step], camera)}px`;
    draw();
    if (isOther) reveal(element, shown, camera);
  };
  return { element, update, zoom, fit };
}

/** The whole of a step as a fresh drawing, for a file. */
export function drawWhole(step, { pieces, look }) {
  const layout = layoutOf(step);
  const picture = createPicture();
  const camera = { scale: 1, isFit: false, left: 0, top: 0, width: sizeOf(layout.numColumns, "x"), height: sizeOf(layout.numRows, "y") };
  drawStep({ step, pieces, look, selected: null, hovered: null, layout }, { ...picture, camera });
  return picture.svg;
}

function createPicture() {
  const edges = paths(EDGE_KINDS, (kind) => `ev-edge ev-${kind}`);
  const ground = s("g", {}, s("g", { "aria-hidden": "true" }, edges.elements));
  const svg = s("svg", { class: "ev-tree", role: "tree", "aria-label": "Draft tree, left to right by depth" }, ground);
  return { svg, ground, edges, pool: [] };
}

const sizeOf = (count, axis) => 2 * MARGIN + (count - 1) * PITCH[axis] + (axis === "x" ? NODE.width : NODE.height);

function scaleOf({ numColumns, numRows }, camera) {
  const wide = camera.width / sizeOf(numColumns, "x");
  if (camera.isFit) return Math.max(Math.min(wide, camera.height / sizeOf(numRows, "y"), 1), SCALES.least);
  return camera.scale ?? Math.max(Math.min(wide, 1), SMALLEST_SCALE);
}

/** Tall enough for the tallest step, so that the page does not jump between steps. */
function boxHeight(steps, camera) {
  const numRows = steps.reduce((most, step) => Math.max(most, layoutOf(step).numRows), 1);
  return Math.min(Math.ceil(sizeOf(numRows, "y") * (camera.isFit ? 1 : camera.scale ?? 1)) + 14, MAX_HEIGHT);
}

function drawStep({ step, pieces, selected, look, hovered, layout }, { svg, ground, edges, pool, camera }) {
  const scale = scaleOf(layout, camera);
  const [width, height] = [sizeOf(layout.numColumns, "x"), sizeOf(layout.numRows, "y")];
  setAttribute(svg, "width", Math.round(width * scale));
  setAttribute(svg, "height", Math.round(height * scale));
  setAttribute(svg, "class", scale < SCALES.far ? "ev-tree ev-far" : "ev-tree");
  setAttribute(ground, "transform", `scale(${scale})`); // a viewBox would have all text laid out anew
  const parents = parentsWithBonus(step);
  const at = (node) => ({ x: MARGIN + layout.columns[node] * PITCH.x, y: MARGIN + layout.rows[node] * PITCH.y });
  drawEdges(parents, look, at, edges);
  const isSeen = windowOf(camera, scale);
  let numDrawn = 0;
  parents.forEach((_, node) => {
    const key = nodeKey(step, node);
    const kind = look.kinds[node];
    if (kind === null || (key !== selected && !isSeen(at(node)))) return;
    pool[numDrawn] ??= createNode(ground);
    pool[numDrawn].show(factsOf(step, node, { kind, key, pieces, look, layout }), at(node), { isSelected: key === selected, isHovered: key === hovered });
    numDrawn += 1;
  });
  for (const spare of pool.slice(numDrawn)) spare.hide();
}

/** Whether a node's place lies in the visible part; laying out text is what drawing costs most. */
function windowOf({ left, top, width, height }, scale) {
  const [x, y] = [left / scale - NODE.width, top / scale - NODE.height];
  const [right, bottom] = [(left + width) / scale, (top + height) / scale];
  return (place) => place.x >= x && place.x <= right && place.y >= y && place.y <= bottom;
}

function drawEdges(parents, look, at, edges) {
  const lines = {};
  parents.forEach((parent, node) => {
    const kind = look.kinds[node];
    if (parent !== null && kind !== null) lines[kind] = (lines[kind] ?? "") + edgePath(at(parent), at(node));
  });
  edges.draw(lines);
}

function edgePath(from, to) {
  const x = from.x + NODE.width;
  const y = from.y + NODE.height / 2;
  const middle = (x + to.x) / 2;
  const end = to.y + NODE.height / 2;
  return `M${x} ${y}C${middle} ${y} ${middle} ${end} ${to.x} ${end}`;
}

function factsOf(step, node, { kind, key, pieces, look, layout }) {
  const isBonus = key === "bonus";
  const name = pieceOf(pieces, isBonus ? step.bonus : step.tokens[node]);
  const draft = probability(step.draft[node]);
  const hasAccept = look.hasAccept && (step.accept[node] ?? null) !== null;
  return {
    key, kind, name, mark: MARKS[kind] ?? "",
    level: layout.columns[node] + 1,
    words: isBonus ? `bonus token ${name}` : kind === "drafted" ? `token ${name}, draft probability ${draft}` : spoken(step, node, name),
    note: isBonus ? "bonus token" : node === 0 ? "root" : `d ${draft}`,
    accept: hasAccept ? `a ${probability(step.accept[node])}` : "",
  };
}

/** One node's elements, used again for another node. */
function createNode(ground) {
  const box = s("path", { class: "ev-box" });
  const token = s("text", { class: "ev-token", y: 17 });
  const texts = {
    words: s("title"), // the node's name for screen readers, and its whole text for the mouse
    mark: s("text", { class: "ev-mark", x: 9, y: 17 }), note: s("tspan", { x: 9 }), accept: s("tspan", { class: "ev-accept", x: 56 }),
  };
  const numbers = s("text", { class: "ev-numbers", y: 34 }, texts.note, texts.accept);
  const group = s("g", { role: "treeitem" }, texts.words, box, texts.mark, token, numbers);
  ground.append(group);
  return {
    hide: () => setAttribute(group, "display", "none"),
    show({ key, kind, name, level, ...facts }, { x, y }, { isSelected, isHovered }) {
      const isBonus = kind === "bonus";
      const attributes = {
        display: null, class: `ev-node ev-${kind}${isSelected ? " ev-selected" : ""}${isHovered ? " ev-lit" : ""}`, transform: `translate(${x} ${y})`,
        "data-node": key, "aria-level": level, tabindex: isSelected ? 0 : -1, "aria-selected": isSelected,
      };
      for (const [name, value] of Object.entries(attributes)) setAttribute(group, name, value);
      setAttribute(box, "d", isBonus ? CUT : ROUND);
      setAttribute(token, "x", facts.mark ? 23 : 9);
      writeName(token, clip(name, isBonus ? LABEL_COLUMNS - 1 : LABEL_COLUMNS));
      for (const [one, text] of Object.entries(texts)) setText(text, facts[one]);
    },
  };
}

/** Glyphs that stand for spaces are part of the name by now; they are drawn fainter. */
function writeName(text, name) {
  if (text.textContent === name) return;
  const parts = name.split(/([␣⏎⇥]+)/).filter(Boolean);
  text.replaceChildren(...parts.map((part) => (/^[␣⏎⇥]/.test(part) ? s("tspan", { class: "ev-glyph" }, part) : part)));
}

/** Scroll as little as needed to have the selected node in the box. */
function reveal(box, { step, selected, layout }, camera) {
  const node = nodeNumber(step, selected);
  if (node === null || layout.rows[node] === undefined) return;
  const scale = scaleOf(layout, camera);
  const [x, y] = [layout.columns[node] * PITCH.x * scale, layout.rows[node] * PITCH.y * scale];
  const [width, height] = [sizeOf(1, "x") * scale, sizeOf(1, "y") * scale];
  const nearest = (from, to, place, length) => Math.min(Math.max(place, to - length), from);
  const left = nearest(x, x + width, camera.left, camera.width);
  const top = nearest(y, y + height, camera.top, camera.height);
  if (left !== camera.left || top !== camera.top) box.scrollTo(left, top);
}

/** The mouse takes and moves the ground; fingers scroll. */
function dragToPan(box) {
  let from = null;
  box.addEventListener("pointerdown", (event) => {
    if (event.pointerType !== "mouse" || event.button !== 0 || event.target.closest(".ev-node")) return;
    from = { x: event.clientX + box.scrollLeft, y: event.clientY + box.scrollTop };
    box.setPointerCapture(event.pointerId);
    box.classList.add("ev-held");
  });
  box.addEventListener("pointermove", (event) => from && box.scrollTo(from.x - event.clientX, from.y - event.clientY));
  box.addEventListener("lostpointercapture", () => {
    from = null;
    box.classList.remove("ev-held");
  });
}
