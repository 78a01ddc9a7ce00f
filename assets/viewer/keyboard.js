// Keys: what each does, and the list of them.

import { h } from "./dom.js";
import { neighbour } from "./layout.js";
import { layoutOf, nodeKey, nodeNumber, parentsWithBonus } from "./tree.js";
import { scene } from "./stage.js";
import { stepInView } from "./state.js";

const KEYS = [
  ["← →", "a step back or forward; with Shift ten (, and . also within the tree)"],
  ["Home End", "first, last step"],
  ["Space", "play or pause; < and > change the speed"],
  ["[ ]", "a phase of the step back or forward"],
  ["↑ ↓ ← →", "in the tree: neighbour, parent, first child"],
  ["L", "look at the other lane"],
  ["H T D", "hide verdicts; the tree as a table; what the tree dropped"],
  ["+ − 0", "zoom in, zoom out, the whole tree"],
];

/** The list of keys, for people. */
export function keyList() {
  return h("dl", { class: "ev-keys" }, KEYS.map(([keys, what]) => h("div", {}, h("dt", {}, keys.split(" ").map((key) => h("kbd", {}, key))), h("dd", {}, what))));
}

/** Answer a key pressed somewhere in the viewer; fields and menus keep their own keys. */
export function onKey(event, { act, state }) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const { target } = event;
  if (target.closest("textarea, select, input:not(.ev-slider), dialog, .ev-menu")) return;
  const action = (target.closest("[role=treeitem]") && nodeAction(event, { act, state })) ?? anywhere(event, act);
  if (!action) return;
  event.preventDefault();
  action();
}

function anywhere({ key, shiftKey, target }, act) {
  const isPressed = target.closest("button, summary, a"); // there Space and Enter press
  const isScroller = target.closest(".ev-tree-box, .ev-table-box");
  const far = shiftKey ? 10 : 1;
  const keys = {
    ArrowLeft: () => act.by(-far), ArrowRight: () => act.by(far), ",": () => act.by(-1), ".": () => act.by(1),
    Home: act.first, End: act.last, "[": () => act.phaseBy(-1), "]": () => act.phaseBy(1),
    "<": () => act.faster(-1), ">": () => act.faster(1), l: () => act.lane(), h: act.hide, t: act.table, d: act.dropped,
    "+": () => act.zoom(1.25), "=": () => act.zoom(1.25), "-": () => act.zoom(0.8), 0: act.fit,
  };
  if (!isPressed) keys[" "] = act.play;
  if (isScroller && key.startsWith("Arrow")) return null; // it scrolls
  return keys[key.length === 1 ? key.toLowerCase() : key] ?? null;
}

/** Inside the tree arrows go from node to node; Enter and Space find it selected already. */
function nodeAction({ key }, { act, state }) {
  if (key === "Enter" || key === " ") return () => {};
  if (!key.startsWith("Arrow")) return null;
  const { step, selected, look } = scene(state, stepInView(state));
  const next = neighbour(parentsWithBonus(step), layoutOf(step), nodeNumber(step, selected), key);
  return () => look.kinds[next] && act.select(nodeKey(step, next)); // what is out of sight has no kind
}
