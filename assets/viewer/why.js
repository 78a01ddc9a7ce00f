// Why a node met its fate, in one sentence with its numbers. Pure.

import { figure, probability } from "./text.js";

export const VERDICTS = {
  o: { name: "root", mark: "" },
  a: { name: "accepted", mark: "✓" },
  x: { name: "refused", mark: "✕" },
  "-": { name: "not reached", mark: "" },
  d: { name: "dropped", mark: "↓" },
};

const CHOICES = { greedy: "the token it holds most probable", seeded: "its own draw here, the one plain decoding makes too" };

/** One sentence about node `node` of `step`, judged by `rule`. */
export function reason(step, node, rule = "greedy") {
  if (node === 0) return "The root: the last token already in the text. Everything here is guessed after it.";
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
  if (!step.path.includes(parent)) return "Never tried: its parent was not kept.";
  const hasKeptSibling = step.path.some((kept) => kept < node && step.parents[kept] === parent);
  if (hasKeptSibling) return "Never tried: a sibling before it was kept.";
  return "Never tried: the answer ended before it.";
}

function whyDropped({ dropped, kept }, node) {
  const value = `its path value is ${figure(dropped.values[node - kept.tokens.length])}`;
  if (dropped.least_kept === null) return `Dropped before the target's pass: ${value}, and no draft was worth checking.`;
  return `Dropped before the target's pass: ${value}, the smallest one kept ${figure(dropped.least_kept)}.`;
}

export function bonusReason(step) {
  const end = step.path.at(-1);
  const hasRefused = step.parents.some((parent, node) => parent === end && step.verdicts[node] === "x");
  if (step.tokens.length === 1) return "The target's own token: one pass, one token.";
  if (!hasRefused) return "The target's own token after the kept path, free with the same pass. It is the root of the next step.";
  return "Every child tried here was refused, so the target puts in its own token. It is the root of the next step.";
}

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
  const verdict = VERDICTS[step.verdicts[node]].name;
  if (node === 0) return `root, token ${name}`;
  const accept = step.accept[node] === null ? "" : `, acceptance probability ${probability(step.accept[node])}`;
  return `token ${name}, ${verdict}, draft probability ${probability(step.draft[node])}${accept}`;
}
