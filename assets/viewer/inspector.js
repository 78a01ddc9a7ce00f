// The numbers of one node, written out.

import { h, s } from "./dom.js";
import { childrenOf, layoutTree } from "./layout.js";
import { milliseconds, ordinal, pieceOf, probability } from "./text.js";
import { VERDICTS, bonusReason, reason } from "./why.js";

/** A fresh inspector for the selected node of `step` ("bonus" for the bonus token). */
export function drawInspector(step, { node, pieces }) {
  const about = node === "bonus" ? bonusCard(step, pieces) : nodeCard(step, node, pieces);
  return h("div", { class: "ev-card-body" }, about, timesCard(step));
}

function nodeCard(step, node, pieces) {
  const { name } = VERDICTS[step.verdicts[node]];
  return h("section", {},
    title(pieceOf(pieces, step.tokens[node]), { a: "accepted", x: "refused", o: "root", "-": "unreached" }[step.verdicts[node]], name),
    h("p", { class: "ev-fine" }, place(step, node)),
    node === 0 ? null : h("dl", { class: "ev-bars" },
      bar("Draft probability", step.draft[node], "draft"),
      bar("Target probability", step.target[node], "target"),
      bar("Acceptance probability", step.accept[node], "accept", step.draw[node])),
    h("p", { class: "ev-reason" }, reason(step, node)));
}

function bonusCard(step, pieces) {
  return h("section", {},
    title(pieceOf(pieces, step.bonus), "bonus", "bonus token"),
    h("p", { class: "ev-fine" }, `token ${step.bonus}`),
    h("p", { class: "ev-reason" }, bonusReason(step)));
}

function title(name, kind, verdict) {
  const mark = { accepted: "✓ ", refused: "✕ ", bonus: "◆ " }[kind] ?? "";
  return h("h4", { class: "ev-node-title" }, h("code", {}, name), h("span", { class: `ev-verdict ev-${kind}` }, mark + verdict));
}

function place(step, node) {
  const depth = layoutTree(step.parents).columns[node];
  if (node === 0) return `token ${step.tokens[0]} · depth 0`;
  const siblings = childrenOf(step.parents)[step.parents[node]];
  const rank = siblings.indexOf(node) + 1;
  const among = siblings.length > 1 ? ` · ${ordinal(rank)} of ${siblings.length} siblings` : "";
  return `token ${step.tokens[node]} · depth ${depth}${among}`;
}

function bar(label, value, kind, draw = null) {
  const percent = 100 * (value ?? 0);
  return [
    h("dt", {}, label, draw === null ? null : h("span", { class: "ev-draw" }, `draw ${draw.toFixed(2)}`)),
    h("dd", {}, h("span", { class: "ev-number" }, probability(value)),
      s("svg", { class: `ev-bar ev-bar-${kind}`, viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
        s("rect", { class: "ev-bar-rail", width: 100, height: 6, y: 2 }),
        s("rect", { class: "ev-bar-fill", width: percent, height: 6, y: 2 }),
        draw === null ? null : s("path", { class: "ev-bar-draw", d: `M${100 * draw} 0V10` }))),
  ];
}

function timesCard(step) {
  const rows = [["Draft", step.draft_ms], ["Verify", step.verify_ms], ["Commit", step.commit_ms], ["Step", step.ms]];
  return h("section", { class: "ev-times" },
    h("h4", {}, "Time of this step"),
    h("dl", {}, rows.map(([name, ms]) => [h("dt", {}, name), h("dd", {}, milliseconds(ms))])),
    step.notice ? h("p", { class: "ev-reason" }, step.notice) : null);
}
