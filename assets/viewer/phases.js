// A step told phase by phase: each drafted level, the target pass, the coins in order, the commit;
// and what of its tree may be seen at a phase, or while verdicts are hidden. Pure.

import { childrenOf, layoutTree } from "./layout.js";
import { count, pieceOf } from "./text.js";
import { committed } from "./state.js";

const KINDS = { o: "root", a: "accepted", x: "refused", "-": "unreached", d: "dropped" };

/** `[{kind, mark, text, depth?, node?}]` in order; empty for a step that drafted nothing. */
export function phasesOf(step, pieces) {
  if (step.tokens.length < 2) return [];
  const { columns } = layoutTree(step.parents);
  const numLevels = Math.max(...columns);
  const levels = Array.from({ length: numLevels }, (_, index) => {
    const width = columns.filter((column) => column === index + 1).length;
    return { kind: "level", mark: String(index + 1), depth: index + 1, text: `The head drafts level ${index + 1}: ${count(width, "token")}` };
  });
  const pass = { kind: "target", mark: "target", text: `One target pass scores the root and all ${count(step.tokens.length - 1, "draft")}` };
  const coins = triedNodes(step).map((node) => coinPhase(step, node, pieces));
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
export function lookOf(step, { phase, phases, isHiding }) {
  if (phase === null || !phases.length) return isHiding && phases.length ? unjudged(step) : whole(step);
  const { kind, depth } = phases[phase];
  if (kind === "commit") return whole(step);
  if (kind === "level") return unjudged(step, depth);
  const seen = new Set(phases.slice(0, phase + 1).map(({ node }) => node));
  const judged = whole(step).kinds.map((final, node) => (seen.has(node) || !isForTarget(step, node) ? final : "drafted"));
  return { kinds: [...judged.slice(0, step.tokens.length), null], hasAccept: true };
}

/** Whether the target is asked about a node: neither the root nor what was dropped. */
const isForTarget = (step, node) => "ax-".includes(step.verdicts[node]);

const whole = (step) => ({
  kinds: [...[...step.verdicts].map((letter) => KINDS[letter]), step.bonus === null ? null : "bonus"],
  hasAccept: true,
});

function unjudged(step, depth = Infinity) {
  const { columns } = layoutTree(step.parents);
  const kinds = columns.map((column, node) => (column > depth ? null : isForTarget(step, node) ? "drafted" : KINDS[step.verdicts[node]]));
  return { kinds: [...kinds, null], hasAccept: false };
}
