// The step's tree as a table: the same facts for a screen reader, for copying, for anyone.

import { h, nodeAt } from "./dom.js";
import { childrenOf, layoutTree } from "./layout.js";
import { ordinal, pieceOf, probability } from "./text.js";
import { VERDICTS } from "./why.js";

const HEADS = ["Token", "Depth", "Tried", "After", "Draft", "Target", "Acceptance", "Draw", "Verdict"];

/** `{element, update({step, pieces, selected, look})}`; a click or Enter on a token selects it. */
export function createTable({ onSelect }) {
  const body = h("tbody", { onclick: (event) => onSelect(nodeAt(event)) });
  const element = h("div", { class: "ev-table-box", tabindex: 0, role: "region", "aria-label": "Draft tree as a table" },
    h("table", { class: "ev-table" },
      h("caption", { class: "ev-unseen" }, "Every node of the draft tree, parents before their children"),
      h("thead", {}, h("tr", {}, HEADS.map((name) => h("th", { scope: "col" }, name)))), body));
  const update = (shown) => {
    const focused = body.contains(document.activeElement) ? document.activeElement.closest("[data-node]").dataset.node : null;
    body.replaceChildren(...rowsOf(shown).map((row) => drawRow(row, shown)));
    if (focused !== null) body.querySelector(`[data-node="${focused}"] button`)?.focus({ preventScroll: true });
  };
  return { element, update };
}

/** The facts of every visible node as texts, in the order of the walk down the tree. Pure. */
export function rowsOf({ step, pieces, look }) {
  const { columns } = layoutTree(step.parents);
  const children = childrenOf(step.parents);
  const name = (node) => pieceOf(pieces, step.tokens[node]);
  const row = (node) => {
    const parent = step.parents[node];
    const isJudged = look.kinds[node] !== "drafted";
    const number = (column, isShown = true) => (node === 0 || !isShown ? "–" : probability(step[column][node]));
    return {
      node, token: name(node), depth: String(columns[node]),
      tried: parent === null || step.verdicts[node] === "d" ? "–" : ordinal(children[parent].indexOf(node) + 1),
      after: parent === null ? "–" : name(parent),
      draft: number("draft"), target: number("target", look.hasAccept), accept: number("accept", look.hasAccept),
      draw: number("draw", isJudged),
      verdict: isJudged ? VERDICTS[step.verdicts[node]] : "not judged yet",
    };
  };
  const walk = (node) => [node, ...children[node].flatMap(walk)];
  const rows = walk(0).filter((node) => look.kinds[node] !== null).map(row);
  if (look.kinds.at(-1) === null) return rows;
  const end = step.path.at(-1);
  return [...rows, {
    node: "bonus", token: pieceOf(pieces, step.bonus), depth: String(columns[end] + 1), tried: "–", after: name(end),
    draft: "–", target: "–", accept: "–", draw: "–", verdict: "bonus token",
  }];
}

function drawRow({ node, token, ...facts }, { selected }) {
  return h("tr", { "data-node": node, "data-verdict": facts.verdict, "aria-current": node === selected ? "true" : null },
    h("th", { scope: "row" }, h("button", { type: "button", class: "ev-row-name" }, token)),
    Object.values(facts).map((fact) => h("td", {}, fact))); // in the order of HEADS
}
