// A second trace beside the one in view: its tree at the same place of the text, and a verdict.

import { button, h, setText } from "./dom.js";
import { scene } from "./stage.js";
import * as now from "./state.js";
import { count, pieceOf } from "./text.js";
import { createTree } from "./tree.js";
import { summary } from "./why.js";

/**
 * The first difference of two runs' EAGLE lanes, in words with its reason: `{step, text}`; `step`
 * is null where they are equal. Pure.
 */
export function verdictOf(one, other) {
  if (!isSame(one, other, "prompt", "earlier")) return { step: null, text: "The prompts differ, so their steps cannot be told against each other." };
  const [mine, yours] = [one.lanes.eagle.steps, other.lanes.eagle.steps];
  const difference = (number) => differenceOf(mine[number], yours[number], one.pieces, other.pieces);
  const step = mine.findIndex((_, number) => !yours[number] || difference(number) !== null);
  const settings = settingsThatDiffer(one, other);
  if (step < 0 && mine.length >= yours.length) return { step: null, text: `Equal throughout: ${count(mine.length, "step")}.` };
  if (step < 0 || !yours[step]) return { step: Math.min(mine.length, yours.length) - 1, text: `Equal until one of them ends: ${mine.length} steps against ${yours.length}.${settings}` };
  return { step, text: `Equal until step ${step + 1}. There ${difference(step)}${settings}` };
}

const isSame = (one, other, ...names) => names.every((name) => JSON.stringify(one[name]) === JSON.stringify(other[name]));

/** In words; null where two steps are the same. */
function differenceOf(mine, yours, myPieces, yourPieces) {
  if (!isSame(mine, yours, "tokens", "parents")) return draftSentence(mine, yours, myPieces, yourPieces);
  if (!isSame(mine, yours, "path")) return pathSentence(mine, yours, myPieces);
  return mine.bonus === yours.bonus ? null : `the target's own tokens differ: ‹${pieceOf(myPieces, mine.bonus)}› against ‹${pieceOf(yourPieces, yours.bonus)}›.`;
}

function draftSentence(mine, yours, myPieces, yourPieces) {
  const node = mine.tokens.findIndex((token, at) => token !== yours.tokens[at] || mine.parents[at] !== yours.parents[at]);
  if (node < 0 || node >= yours.tokens.length) return `the drafts differ in size: ${mine.tokens.length - 1} against ${yours.tokens.length - 1} tokens.`;
  return `the drafts differ, first in node ${node}: ‹${pieceOf(myPieces, mine.tokens[node])}› against ‹${pieceOf(yourPieces, yours.tokens[node])}›.`;
}

function pathSentence(mine, yours, pieces) {
  const node = mine.tokens.findIndex((_, at) => mine.verdicts[at] !== yours.verdicts[at]);
  const name = `‹${pieceOf(pieces, mine.tokens[node])}›`;
  const numbers = [mine, yours].map((step) => `a ${step.accept[node].toFixed(3)}${step.draw[node] === null ? "" : `, draw ${step.draw[node].toFixed(3)}`}`);
  return `both drafted the same, but ${name} met another fate: ${numbers[0]} against ${numbers[1]}.`;
}

function settingsThatDiffer(one, other) {
  const facts = ({ settings, environment: { threads, versions, ...place } }) => ({ ...settings, ...place });
  const [mine, yours] = [facts(one), facts(other)];
  const names = Object.keys(mine).filter((name) => name in yours && String(mine[name]) !== String(yours[name]));
  if (!names.length) return " Settings and machine are the same.";
  return ` What differs: ${names.map((name) => `${name.replaceAll("_", " ")} ${mine[name]} against ${yours[name]}`).join(", ")}.`;
}

/** `{element, update(state), take(trace, name)}`; hidden until there is a second trace. */
export function createCompare(act) {
  const title = h("h2", {});
  const verdict = h("p", { class: "ev-compare-verdict" });
  const about = h("p", { class: "ev-fine" });
  const tree = createTree({ onSelect() {}, onHover() {} });
  tree.element.setAttribute("tabindex", "0");
  tree.element.querySelector("svg").setAttribute("aria-label", "Draft tree of the second trace");
  const jump = button("Go to the first difference", () => act.pick("eagle", found.step));
  const close = button("Close", () => {
    other = null;
    act.redraw();
  });
  const element = h("section", { class: "ev-panel ev-compare", "aria-label": "Second trace", hidden: true },
    h("div", { class: "ev-steps-head" }, title, h("div", { class: "ev-controls" }, jump, close)), verdict, about, tree.element);
  let other = null;
  let found = { step: null };
  let shown = {};
  const take = (trace, name) => {
    other = now.apply(now.initialState(), { v: now.VERSION, kind: "trace", run: name, label: name, text: "", trace });
    shown = {};
  };
  const update = (state) => {
    element.hidden = other === null || !now.stepInView(state);
    if (element.hidden) return;
    const step = stepBeside(state, other);
    if (shown.step === step && shown.lane === state.lanes.eagle) return;
    shown = { step, lane: state.lanes.eagle };
    found = verdictOf(state, other);
    setText(title, `Beside it: ${other.label}`);
    setText(verdict, found.text);
    jump.hidden = found.step === null;
    tree.element.hidden = !step;
    setText(about, step ? `Step ${step.number + 1}, at the same place of the text: ${summary(step)}` : "It ends before this place of the text.");
    if (!step) return;
    other.view.step = step.number;
    tree.update({ ...scene(other, step), steps: now.laneInView(other).steps, pieces: other.pieces });
  };
  return { element, update, take };
}

/** The step of the second trace that wrote the token with which the step in view begins. */
function stepBeside(state, other) {
  other.view.lane = state.view.lane;
  const { steps, tokens } = other.lanes[state.view.lane];
  return steps[tokens[now.stepInView(state).firstToken]?.step] ?? null;
}
