// The viewer: takes messages in, keeps one state, draws it once per frame, answers mouse and keys.

import { h, setAttribute, setText } from "./dom.js";
import { drawInspector } from "./inspector.js";
import { createLane } from "./lanes.js";
import { createScore } from "./score.js";
import * as now from "./state.js";
import { createSteps } from "./steps.js";
import { count, treeName } from "./text.js";
import { drawTree, treeHeight } from "./tree.js";
import { summary } from "./why.js";

const PLAY_MS = 600;

/** Build the viewer inside `element`; `read()` gives the newest message, `watch(callback)` tells of one. */
export function mount(element, { read, watch }) {
  const state = now.initialState();
  const draw = coalesce(() => page.update(state));
  const act = actions(state, draw);
  const page = createPage(act);
  element.replaceChildren(page.element);
  page.element.addEventListener("keydown", (event) => onKey(event, act));
  new ResizeObserver(draw).observe(page.element);
  const take = () => {
    const text = read();
    if (!text) return;
    now.apply(state, JSON.parse(text));
    draw();
  };
  watch(take);
  take();
  draw();
  return state;
}

/** At most one call per frame, however often it is asked for. */
function coalesce(callback) {
  let isAsked = false;
  return () => {
    if (isAsked) return;
    isAsked = true;
    requestAnimationFrame(() => {
      isAsked = false;
      callback();
    });
  };
}

function actions(state, draw) {
  let timer = null;
  const pause = () => {
    clearInterval(timer);
    state.view.isPlaying = false;
  };
  const doing = (change) => (...args) => {
    pause();
    change(...args);
    state.isMoved = true; // by the visitor: announced to screen readers
    draw();
  };
  const tick = () => {
    if (state.view.step >= now.lastStep(state)) pause();
    else now.moveTo(state, state.view.step + 1);
    draw();
  };
  return {
    moveTo: doing((step) => now.moveTo(state, step)),
    pick: doing((method, step) => now.lookAt(state, method, step)),
    lane: doing((method) => now.lookAt(state, method, matchingStep(state, method))),
    first: doing(() => now.moveTo(state, 0)),
    back: doing(() => now.moveTo(state, state.view.step - 1)),
    forward: doing(() => now.moveTo(state, state.view.step + 1)),
    last: doing(() => now.moveTo(state, now.lastStep(state))),
    select: doing((node) => { state.view.node = node; }),
    play() {
      if (state.view.isPlaying) return doing(() => {})();
      if (state.view.step >= now.lastStep(state)) now.moveTo(state, 0);
      state.view.isFollowing = false;
      state.view.isPlaying = true;
      timer = setInterval(tick, PLAY_MS);
      return draw();
    },
  };
}

/** The step of the other lane that wrote the same place of the text. */
function matchingStep(state, method) {
  const token = now.stepInView(state)?.firstToken ?? 0;
  return state.lanes[method].tokens[token]?.step ?? now.lastStep(state);
}

function onKey(event, act) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const isButton = event.target.closest?.("button, summary");
  const node = event.target.closest?.("[data-node]");
  const keys = { ArrowLeft: act.back, ArrowRight: act.forward, Home: act.first, End: act.last };
  if (!isButton && !node) keys[" "] = act.play;
  if (node) Object.assign(keys, nodeKeys(node, act));
  const action = keys[event.key];
  if (!action) return;
  event.preventDefault();
  action();
}

/** Inside the tree ↑ and ↓ go from node to node, Enter and Space select. */
function nodeKeys(node, act) {
  const go = (other) => other && act.select(nodeOf(other));
  const isNode = (element) => (element?.dataset?.node === undefined ? null : element);
  const select = () => act.select(nodeOf(node));
  return {
    ArrowUp: () => go(isNode(node.previousElementSibling)),
    ArrowDown: () => go(isNode(node.nextElementSibling)),
    Enter: select,
    " ": select,
  };
}

const nodeOf = (element) => (element.dataset.node === "bonus" ? "bonus" : Number(element.dataset.node));

function createPage(act) {
  const status = createStatus();
  const score = createScore({ onPick: act.pick });
  const lanes = Object.fromEntries(now.METHODS.map((method) => [method, createLane(method, { onPick: act.pick })]));
  const steps = createSteps(act);
  const stage = createStage(act);
  const facts = h("p", { class: "ev-facts ev-fine" }, "");
  const badge = h("p", { class: "ev-badge" }, "");
  const announcer = h("p", { class: "ev-unseen", "aria-live": "polite" }, "");
  const empty = h("p", { class: "ev-empty" }, "Type a prompt above and press Run: both lanes answer it here, token by token.");
  const content = h("div", { class: "ev-content" },
    score.element,
    h("div", { class: "ev-lanes" }, now.METHODS.map((method) => lanes[method].element)),
    facts,
    h("section", { class: "ev-panel", "aria-label": "Steps", tabindex: 0 }, steps.element, stage.element));
  const element = h("div", { class: "ev" }, h("div", { class: "ev-top-line" }, status.element, badge), empty, content, announcer);
  const update = (state) => {
    status.update(state);
    setText(badge, state.label ?? "");
    badge.hidden = !state.label;
    setAttribute(element, "data-phase", state.phase);
    const isEmpty = !now.METHODS.some((method) => state.lanes[method].prefill) && state.phase !== "running";
    empty.hidden = !isEmpty;
    content.hidden = isEmpty;
    if (isEmpty) return;
    for (const method of now.METHODS) {
      const selected = state.view.lane === method && state.lanes[method].steps.length ? state.view.step : null;
      lanes[method].update(state.lanes[method], { selected, isLive: state.phase === "running" && state.view.isFollowing });
    }
    score.update(state);
    setText(facts, environmentLine(state));
    const heading = stepHeading(state);
    steps.update(state, heading);
    stage.update(state);
    if (state.isMoved) setText(announcer, `${heading.title}: ${heading.about}`);
    state.isMoved = false;
  };
  return { element, update };
}

function createStatus() {
  const text = h("span", {}, "");
  const fill = h("span", { class: "ev-progress-fill" });
  const progress = h("span", { class: "ev-progress", "aria-hidden": "true" }, fill);
  const element = h("div", { class: "ev-status", role: "status", "aria-live": "polite" }, h("span", { class: "ev-dot", "aria-hidden": "true" }), text, progress);
  const update = ({ status, phase }) => {
    setText(text, status.text);
    setAttribute(element, "data-kind", phase === "running" && status.kind !== "error" ? "busy" : status.kind);
    progress.hidden = status.fraction === null;
    fill.style.width = `${100 * (status.fraction ?? 0)}%`;
    element.hidden = status.text === "";
  };
  return { element, update };
}

function stepHeading(state) {
  const step = now.stepInView(state);
  if (!step) return { title: "Step", about: "no step yet" };
  const total = now.laneInView(state).steps.length;
  const name = state.view.lane === "eagle" ? "Step" : "Plain pass";
  return { title: `${name} ${step.number + 1} of ${total}`, about: summary(step) };
}

/** Tree and inspector of the step in view; redrawn only when it, or the selection, changes. */
function createStage(act) {
  const box = h("div", { class: "ev-tree-box" });
  const inspector = h("aside", { class: "ev-inspector", "aria-label": "Selected node" });
  const element = h("div", {}, hint(), h("div", { class: "ev-stage" }, box, inspector));
  box.addEventListener("click", (event) => {
    const node = event.target.closest("[data-node]");
    if (node) act.select(nodeOf(node));
  });
  let shown = {};
  const update = (state) => {
    const step = now.stepInView(state);
    const node = now.nodeInView(state);
    if (step === shown.step && node === shown.node) return;
    const hadFocus = box.contains(document.activeElement);
    box.replaceChildren(...(step ? [drawTree(step, { pieces: state.pieces, selected: node })] : []));
    inspector.replaceChildren(...(step ? [drawInspector(step, { node, pieces: state.pieces })] : []));
    if (hadFocus) box.querySelector(".ev-selected")?.focus({ preventScroll: true });
    const steps = now.laneInView(state).steps;
    if (steps !== shown.steps || steps.length !== shown.length) box.style.minHeight = `${treeHeight(steps)}px`;
    shown = { step, node, steps, length: steps.length };
  };
  return { element, update };
}

function hint() {
  const row = (kind, mark, text) => h("li", {}, h("span", { class: `ev-sample ev-${kind}`, "aria-hidden": "true" }, mark), h("span", {}, text));
  const bold = (text) => h("b", {}, text);
  return h("details", { class: "ev-hint", open: true },
    h("summary", {}, "How to read a step"),
    h("ul", {},
      row("accepted", "✓", ["Left to right, the head guesses a tree of next tokens. One target pass checks all of it and keeps the ", bold("accepted"), " path."]),
      row("refused", "✕", ["Siblings are tried from the top: ", bold("d"), " is the draft probability, ", bold("a"), " the chance of acceptance. Dashed is ", bold("refused"), ", dotted was never reached."]),
      row("bonus", "◆", ["The ", bold("bonus token"), " is the target's own, free with the pass. It ends the step and is the root of the next."])));
}

function environmentLine(state) {
  const { environment, settings, label, created } = state;
  if (!environment || !settings) return "";
  const prefill = state.lanes.plain.prefill ?? state.lanes.eagle.prefill;
  return [
    label && created ? `recorded on ${created.slice(0, 10)}` : null,
    `${environment.target}, head ${environment.head}`,
    `${environment.device}, ${environment.dtype}, ${count(environment.threads, "thread")}`,
    `${treeName(settings.tree)}, rule ${settings.rule.replaceAll("_", " ")}, temperature ${settings.temperature}, seed ${settings.seed}`,
    prefill ? `prompt of ${count(prefill.prompt_tokens, "token")}` : null,
  ].filter(Boolean).join(" · ");
}
