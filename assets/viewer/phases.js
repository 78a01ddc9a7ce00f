// A step told phase by phase: each drafted level, the target pass, the coins in order, the commit;
// and what of its tree may be seen at a phase, or while verdicts are hidden. Pure.

import { childrenOf, layoutTree, oncePerStep } from "./layout.js";
import { count, pieceOf } from "./text.js";
import { committed } from "./state.js";

const KINDS = { o: "root", a: "accepted", x: "refused", "-": "unreached", d: "dropped" };

/** `[{kind, mark, text, name?, depth?, node?}]` in order; empty for a step that drafted nothing. */
export function phasesOf(step, pieces) {
  if (step.tokens.length < 2) return [];
  const { columns, numColumns } = layoutTree(step.parents);
  const levels = Array.from({ length: numColumns - 1 }, (_, index) => {
    const depth = index + 1;
    const width = columns.filter((column) => column === depth).length;
    return { kind: "level", mark: String(depth), name: `Draft level ${depth}`, depth, text: `The head drafts level ${depth}: ${count(width, "token")}` };
  });
  const pass = { kind: "target", mark: "target", text: `One target pass scores the root and all ${count(step.tokens.length - 1, "draft")}` };
  const coins = triedNodes(step).map((node, index) => ({ ...coinPhase(step, node, pieces), name: `Coin ${index + 1}` }));
  return [...levels, pass, ...coins, { kind: "commit", mark: "commit", text: commitText(step, pieces) }];
}

/** The nodes the walk tried, in its order. */
export function triedNodes(step) {
  const children = childrenOf(step.parents);
  return step.path.flatMap((node) => children[node].filter((child) => "ax".includes(step.verdicts[child])));
}

function coinPhase(step, node, pieces) {
  const isKept = step.verdicts[node] === "a";
  const name = `‹${pieceOf(pieces, step.tokens[node])}›`;
  const draw = step.draw[node];
  const why = draw === null
    ? `the target ${isKept ? "agrees" : "does not agree"}`
    : `draw ${draw.toFixed(2)}, acceptance probability ${step.accept[node].toFixed(2)}`;
  return { kind: "coin", node, mark: isKept ? "✓" : "✕", text: `${name} · ${why}: ${isKept ? "kept" : "refused"}` };
}

function commitText(step, pieces) {
  const tokens = committed(step);
  return `Commit ${count(tokens.length, "token")}: ${tokens.map((token) => pieceOf(pieces, token)).join(" ")}`;
}

/**
 * What may be seen: `{kinds, hasAccept}`. `kinds` has an entry per node, then one for the bonus
 * token; null is not there yet, "drafted" is there without a verdict. `phase` null shows all.
 */
export function lookOf(step, { phase = null, phases = [], isHiding = false } = {}) {
  const { kind, depth = Infinity } = phases[phase] ?? { kind: isHiding && phases.length ? "level" : "commit" };
  const tried = new Set(phases.slice(0, phase + 1).map(({ node }) => node));
  const isSaid = (node) => kind === "commit" || tried.has(node) || !"ax-".includes(step.verdicts[node]); // the target has no say in the others
  const kinds = layoutTree(step.parents).columns.map((column, node) => (column > depth ? null : isSaid(node) ? KINDS[step.verdicts[node]] : "drafted"));
  return { kinds: [...kinds, kind === "commit" && step.bonus !== null ? "bonus" : null], hasAccept: kind !== "level" };
}

/**
 * The step with the candidates that its tree dropped among its nodes, numbered on from its own, their verdict d;
 * `kept` is the step without them. The same object every time.
 */
export const withDropped = oncePerStep((step) => {
  const { dropped } = step;
  if (!dropped) return step;
  const columns = ["tokens", "parents", "draft", "target", "accept", "draw"].map((name) => [name, [...step[name], ...(dropped[name] ?? dropped.tokens.map(() => null))]]);
  return { ...step, kept: step, ...Object.fromEntries(columns), verdicts: step.verdicts + "d".repeat(dropped.tokens.length) };
});
