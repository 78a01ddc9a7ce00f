// How a node's acceptance probability came about, with its numbers put into the rule. Pure.

import { childrenOf } from "./layout.js";
import { figure as number } from "./text.js";

/**
 * Lines of text for node `node` of `step` under `rule`; empty where the rule is not known here.
 * t is the target probability, d the draft probability, both under the law of the node's parent.
 */
export function arithmetic(step, node, rule) {
  if (node === 0 || step.accept[node] === null) return [];
  const before = siblingsBefore(step, node);
  const lines = { greedy, one_hot: oneHot, without_replacement: withoutReplacement }[rule]?.(step, node, before) ?? [];
  return [...lines, ...coin(step, node, rule)];
}

function siblingsBefore(step, node) {
  const siblings = childrenOf(step.parents)[step.parents[node]];
  return siblings.slice(0, siblings.indexOf(node));
}

function greedy(step, node) {
  return [step.accept[node] === 1
    ? "a = 1: the token is the target's argmax"
    : "a = 0: the target's argmax is another token"];
}

function oneHot(step, node, before) {
  const refused = sum(before.map((sibling) => step.target[sibling]));
  const [t, a] = [step.target[node], step.accept[node]];
  if (!before.length) return [`a = t = ${number(a)}`];
  return [
    `refused before it: ${before.map((sibling) => number(step.target[sibling])).join(" + ")} = ${number(refused)}`,
    `a = t ÷ (1 − refused) = ${number(t)} ÷ ${number(1 - refused)} = ${number(a)}`,
  ];
}

function withoutReplacement(step, node, before) {
  const drawn = sum(before.map((sibling) => step.draft[sibling]));
  const [t, d, a] = [step.target[node], step.draft[node], step.accept[node]];
  if (!before.length) return [`a = min(1, t ÷ d) = min(1, ${number(t)} ÷ ${number(d)}) = ${number(a)}`];
  const left = d / (1 - drawn);
  const share = a < 1 ? `${number(a * left)} ÷ ${number(left)}` : "at least 1";
  return [
    `d′ = d ÷ (1 − drawn before) = ${number(d)} ÷ ${number(1 - drawn)} = ${number(left)}`,
    "t′ = its share of what the refusals left of the target law",
    `a = min(1, t′ ÷ d′) = min(1, ${share}) = ${number(a)}`,
  ];
}

/** A block's coins do not decide node by node. */
function coin(step, node, rule) {
  const [draw, a] = [step.draw[node], step.accept[node]];
  if (draw === null) return [];
  const end = rule === "block" ? "" : draw < a ? ": kept" : ": refused";
  return [`draw ${draw.toFixed(4)} ${draw < a ? "<" : "≥"} ${a.toFixed(4)}${end}`];
}

const sum = (numbers) => numbers.reduce((total, one) => total + (one ?? 0), 0);
