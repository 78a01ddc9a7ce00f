// The numbers of one node, written out.

import { h, s } from "./dom.js";
import { childrenOf, siblingsOf } from "./layout.js";
import { term } from "./terms.js";
import { milliseconds, ordinal, pieceOf, probability } from "./text.js";
import { MARKS, layoutOf } from "./tree.js";
import { VERDICTS, arithmetic, bonusReason, reason } from "./why.js";

const NUM_BARS = 10;

/** A fresh inspector for the selected node of `step` ("bonus" for the bonus token). */
export function drawInspector({ step, selected: node, pieces, look, rule }) {
  const isUnseen = look.kinds[node === "bonus" ? look.kinds.length - 1 : node] === null;
  const about = () => (node === "bonus" ? bonusCard(step, pieces) : nodeCard(step, node, { pieces, look, rule }));
  const cards = isUnseen ? h("p", { class: "ev-fine" }, "Not there yet: go on a phase.") : [about(), lawsCard(step, node, { pieces, look })];
  return h("div", { class: "ev-card-body" }, cards, timesCard(step));
}

function nodeCard(step, node, { pieces, look, rule }) {
  const kind = look.kinds[node];
  const isJudged = kind !== "drafted";
  const name = isJudged ? VERDICTS[step.verdicts[node]] : "drafted";
  const lines = isJudged && look.hasAccept ? arithmetic(step, node, rule) : [];
  return h("section", {},
    title(pieceOf(pieces, step.tokens[node]), kind, name),
    h("p", { class: "ev-fine" }, place(step, node)),
    node === 0 ? null : h("dl", { class: "ev-bars" },
      bar("draft probability", step.draft[node], "draft"),
      look.hasAccept && kind !== "dropped" ? [
        bar("target probability", step.target[node], "target"),
        bar("acceptance probability", step.accept[node], "accept", isJudged ? step.draw[node] : null),
      ] : null),
    lines.length ? h("div", { class: "ev-arithmetic" }, lines.map((line) => h("p", {}, line))) : null,
    isJudged ? h("p", { class: "ev-reason" }, reason(step, node, rule)) : null);
}

function bonusCard(step, pieces) {
  return h("section", {},
    title(pieceOf(pieces, step.bonus), "bonus", "bonus token"),
    h("p", { class: "ev-fine" }, `token ${step.bonus}`),
    h("p", { class: "ev-reason" }, bonusReason(step)));
}

function title(name, kind, verdict) {
  return h("h3", { class: "ev-node-title" }, h("code", {}, name), h("span", { class: `ev-verdict ev-${kind}` }, MARKS[kind] && `${MARKS[kind]} `, term(verdict)));
}

function place(step, node) {
  const depth = layoutOf(step).columns[node];
  if (node === 0) return `token ${step.tokens[0]} · depth 0`;
  const siblings = siblingsOf(step, node);
  const rank = siblings.indexOf(node) + 1;
  const among = siblings.length > 1 ? ` · ${ordinal(rank)} of ${siblings.length} siblings` : "";
  return `token ${step.tokens[node]} · depth ${depth}${among}`;
}

function bar(name, value, kind, draw = null) {
  const label = name[0].toUpperCase() + name.slice(1);
  return [
    h("dt", {}, term(name, label), draw === null ? null : h("span", { class: "ev-draw" }, term("draw"), ` ${draw.toFixed(2)}`)),
    h("dd", {}, h("span", { class: "ev-number" }, probability(value)),
      drawBar(kind, s("rect", { class: "ev-bar-rail", width: 100, height: 6, y: 2 }),
        s("rect", { class: "ev-bar-fill", width: 100 * (value ?? 0), height: 6, y: 2 }),
        draw === null ? null : s("path", { class: "ev-bar-draw", d: `M${100 * draw} 0V10` }))),
  ];
}

const drawBar = (kind, ...shapes) => s("svg", { class: `ev-bar ev-bar-${kind}`, viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" }, shapes);

/** The top of both laws after the node's path, where the trace has them. */
function lawsCard(step, node, { pieces, look }) {
  if (node === 0 || !look.hasAccept) return null;
  const parent = node === "bonus" ? step.path.at(-1) : step.parents[node];
  const rows = lawRows(step, parent);
  if (!rows.length) return null;
  const own = node === "bonus" ? step.bonus : step.tokens[node];
  const half = (value, kind) => [h("td", {}, probability(value)), h("td", { class: "ev-law-bar" }, drawBar(kind, s("rect", { class: "ev-bar-fill", width: 100 * (value ?? 0), height: 8, y: 1 })))];
  return h("section", { class: "ev-laws" },
    h("h3", {}, `Most probable after ‹${pieceOf(pieces, step.tokens[parent])}›`),
    h("table", {},
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "token"), h("th", { scope: "col", colspan: 2 }, term("target law", "target")), h("th", { scope: "col", colspan: 2 }, term("draft law", "draft")))),
      h("tbody", {}, rows.map(({ token, target, draft }) => h("tr", { class: token === own ? "ev-own" : null },
        h("th", { scope: "row" }, pieceOf(pieces, token)),
        half(target, "target"), half(draft, "draft"))))));
}

/** `[{token, target, draft}]` at `parent`; a law known for its drafted children only says so by null. */
export function lawRows(step, parent) {
  const laws = (step.laws ?? []).find(({ node }) => node === parent);
  if (!laws) return [];
  const pairs = ([tokens, probs]) => tokens.map((token, rank) => [token, probs[rank]]);
  const target = new Map(pairs(laws.target));
  const children = childrenOf(step.parents)[parent].map((child) => [step.tokens[child], step.draft[child]]);
  const draft = new Map([...children, ...pairs(laws.draft ?? [[]])]);
  const rows = [...new Set([...target.keys(), ...draft.keys()])].map((token) => ({ token, target: target.get(token) ?? null, draft: draft.get(token) ?? null }));
  return rows.sort((one, other) => other.target - one.target || other.draft - one.draft).slice(0, NUM_BARS);
}

function timesCard(step) {
  const rows = [["draft", step.draft_ms], ["verify", step.verify_ms], ["commit", step.commit_ms], [null, step.ms]];
  return h("section", { class: "ev-times" },
    h("h3", {}, "Time of this step"),
    h("dl", {}, rows.map(([name, ms]) => [h("dt", {}, name === null ? "Step" : term(name, name[0].toUpperCase() + name.slice(1))), h("dd", {}, milliseconds(ms))])),
    step.notice ? h("p", { class: "ev-reason" }, step.notice) : null);
}
