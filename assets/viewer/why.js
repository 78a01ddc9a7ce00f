// Why a node met its fate: in one sentence, and by its numbers put into the rule. Pure.

import { siblingsOf } from "./layout.js";
import { MEANINGS } from "./terms.js";
import { figure, probability } from "./text.js";

export const VERDICTS = { o: "root", a: "accepted", x: "refused", "-": "not reached", d: "dropped" };

const CHOICES = { greedy: "the token it holds most probable", seeded: "its own draw here, the one plain decoding makes too" };

/** One sentence about node `node` of `step`, judged by `rule`. */
export function reason(step, node, rule = "greedy") {
  if (node === 0) return MEANINGS.root;
  if (step.verdicts[node] === "-") return whyNotReached(step, node);
  if (step.verdicts[node] === "d") return whyDropped(step, node);
  const isKept = step.verdicts[node] === "a";
  const end = isKept ? "so it is kept." : "so it is refused.";
  if (rule === "block") return "The chain is judged as a whole: the longest block whose coin wins is kept.";
  const [draw, chance] = [step.draw[node], step.accept[node].toFixed(3)];
  if (draw !== null) return `The draw ${draw.toFixed(3)} is ${isKept ? "" : "not "}below the acceptance probability ${chance}, ${end}`;
  if (rule in CHOICES) return `The target takes ${CHOICES[rule]}: ${isKept ? "this" : "another"} one, ${end}`;
  return `Its acceptance probability is ${chance}, ${end}`;
}

function whyNotReached(step, node) {
  const parent = step.parents[node];
  const hasKeptSibling = step.path.some((kept) => kept < node && step.parents[kept] === parent);
  const why = !step.path.includes(parent) ? "its parent was not kept" : hasKeptSibling ? "a sibling before it was kept" : "the answer ended before it";
  return `Never tried: ${why}.`;
}

function whyDropped({ dropped, kept }, node) {
  const value = figure(dropped.values[node - kept.tokens.length]);
  const least = (dropped.least_kept ?? null) === null ? "no draft was worth the target's time" : `the smallest one kept is ${figure(dropped.least_kept)}`;
  return `Never shown to the target: its path value is ${value}, and ${least}.`;
}

export function bonusReason(step) {
  const end = step.path.at(-1);
  const hasRefused = step.parents.some((parent, node) => parent === end && step.verdicts[node] === "x");
  if (step.tokens.length === 1) return "The target's own token: one pass, one token.";
  const why = hasRefused ? "Every child tried here was refused, so the target puts in its own token." : "The target's own token after the kept path, free with the same pass.";
  return `${why} It is the root of the next step.`;
}

/**
 * Lines of text for node `node` of `step` under `rule`; empty where the rule is not known here.
 * t is the target probability, d the draft probability, both under the law of the node's parent.
 */
export function arithmetic(step, node, rule) {
  if (node === 0 || step.accept[node] === null) return [];
  const before = siblingsOf(step, node).filter((sibling) => sibling < node);
  const numbers = { t: step.target[node], d: step.draft[node], a: step.accept[node], draw: step.draw[node], step, before };
  const lines = { greedy, one_hot: oneHot, without_replacement: withoutReplacement }[rule]?.(numbers) ?? [];
  return [...lines, ...coin(numbers, rule)];
}

function greedy({ a }) {
  return [a === 1
    ? "a = 1: the token is the target's argmax"
    : "a = 0: the target's argmax is another token"];
}

function oneHot({ t, a, step, before }) {
  const refused = sum(before.map((sibling) => step.target[sibling]));
  if (!before.length) return [`a = t = ${figure(a)}`];
  return [
    `refused before it: ${before.map((sibling) => figure(step.target[sibling])).join(" + ")} = ${figure(refused)}`,
    `a = t ÷ (1 − refused) = ${figure(t)} ÷ ${figure(1 - refused)} = ${figure(a)}`,
  ];
}

function withoutReplacement({ t, d, a, step, before }) {
  const drawn = sum(before.map((sibling) => step.draft[sibling]));
  if (!before.length) return [`a = min(1, t ÷ d) = min(1, ${figure(t)} ÷ ${figure(d)}) = ${figure(a)}`];
  const left = d / (1 - drawn);
  const share = a < 1 ? `${figure(a * left)} ÷ ${figure(left)}` : "at least 1";
  return [
    `d′ = d ÷ (1 − drawn before) = ${figure(d)} ÷ ${figure(1 - drawn)} = ${figure(left)}`,
    "t′ = its share of what the refusals left of the target law",
    `a = min(1, t′ ÷ d′) = min(1, ${share}) = ${figure(a)}`,
  ];
}

/** A block's coins do not decide node by node. */
function coin({ draw, a }, rule) {
  if (draw === null) return [];
  const end = rule === "block" ? "" : draw < a ? ": kept" : ": refused";
  return [`draw ${draw.toFixed(4)} ${draw < a ? "<" : "≥"} ${a.toFixed(4)}${end}`];
}

const sum = (numbers) => numbers.reduce((total, one) => total + (one ?? 0), 0);

/** What a step did, as one line. */
export function summary(step) {
  const numDrafts = (step.kept ?? step).tokens.length - 1;
  const numAccepted = step.path.length - 1;
  if (!numDrafts) return `1 target pass, 1 token${dropped(step)}`;
  const bonus = step.bonus === null ? "" : " + bonus token";
  return `${numAccepted} accepted${bonus} · ${numDrafts} drafted${dropped(step)} · 1 target pass`;
}

/** How many candidates are shown that were dropped, to be put behind those drafted. */
export const dropped = (step) => (step.kept ? ` + ${step.dropped.tokens.length} dropped` : "");

/** A node in words, for a screen reader. */
export function spoken(step, node, name) {
  const verdict = VERDICTS[step.verdicts[node]];
  if (node === 0) return `root, token ${name}`;
  const accept = step.accept[node] === null ? "" : `, acceptance probability ${probability(step.accept[node])}`;
  return `token ${name}, ${verdict}, draft probability ${probability(step.draft[node])}${accept}`;
}
