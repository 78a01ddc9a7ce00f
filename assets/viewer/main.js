// The viewer: takes messages in, keeps one state, draws it once per frame, answers mouse and keys.

import { h, setAttribute, setText } from "./dom.js";
import { keyList, onKey } from "./keyboard.js";
import { createCompare } from "./compare.js";
import { readLink } from "./exports.js";
import { keep, kept } from "./files.js";
import { createLane } from "./lanes.js";
import { phasesOf } from "./phases.js";
import { SPEEDS, createPlayer } from "./player.js";
import { createScore } from "./score.js";
import { createShare } from "./share.js";
import { createStage, scene } from "./stage.js";
import * as now from "./state.js";
import { createSteps } from "./steps.js";
import { createMeaning } from "./terms.js";
import { count, treeName } from "./text.js";
import { dropped, summary } from "./why.js";

/**
 * Build the viewer inside `element`; `read()` gives the newest message, `watch(callback)` tells of
 * one, `follow(link)` asks the server for what a link names, `tell()` says that another whole trace
 * is on show: the page's panels find it in the state, which is given back.
 */
export function mount(element, { read, watch, follow, tell }) {
  const state = now.initialState();
  let told = null;
  const draw = coalesce(() => {
    page.update(state);
    if (state.trace && state.trace !== told) tell();
    told = state.trace;
  });
  const act = actions(state, draw);
  const page = createPage(act);
  Object.assign(act, { zoom: page.zoom, fit: page.fit });
  element.replaceChildren(page.element);
  page.element.addEventListener("keydown", (event) => onKey(event, { act, state }));
  new ResizeObserver(draw).observe(page.element);
  const take = () => {
    const text = read();
    if (!text) return;
    const message = JSON.parse(text);
    now.apply(state, message);
    if (message.kind === "end") keep(message.trace, "Last run of this tab");
    draw();
  };
  begin(state, act, follow);
  watch(take);
  take();
  draw();
  return state;
}

/** A link says what to show first; without one a reload brings back the last finished trace. */
function begin(state, act, follow) {
  const enter = () => {
    const link = readLink(location.hash);
    if (!link) return false;
    state.awaited = link.place;
    follow(link.ask);
    return true;
  };
  addEventListener("hashchange", enter);
  const last = enter() ? null : kept();
  if (last) act.open(last.trace, last.label);
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

/** Everything a visitor can do; each act changes the state and has it drawn. */
function actions(state, draw) {
  const player = createPlayer(state, { draw, phasesOf: (step) => phasesOf(step, state.pieces) });
  const changing = (change) => (...args) => {
    change(...args);
    state.isMoved = true; // by the visitor: announced to screen readers
    draw();
  };
  const moving = (change) => changing((...args) => {
    player.pause();
    change(...args);
  });
  const toggle = (name) => changing(() => { state.prefs[name] = !state.prefs[name]; });
  return {
    moveTo: moving((step) => now.moveTo(state, step)),
    by: moving((steps) => now.moveTo(state, state.view.step + steps)),
    pick: moving((method, step, node = null) => {
      now.lookAt(state, method, step);
      state.view.node = node;
    }),
    lane: moving((method = otherLane(state)) => now.lookAt(state, method, matchingStep(state, method))),
    first: moving(() => now.moveTo(state, 0)),
    last: moving(() => now.moveTo(state, now.lastStep(state))),
    select: moving((node) => { state.view.node = node; }),
    phase: moving((index) => goToPhase(state, index)),
    phaseBy: moving((by) => goToPhase(state, nextPhase(state, by))),
    hide: toggle("isHiding"),
    table: toggle("isTable"),
    dropped: () => now.stepInView(state)?.dropped && toggle("showsDropped")(),
    speed: changing((speed) => { state.prefs.speed = speed; }),
    faster: changing((by) => { state.prefs.speed = SPEEDS[SPEEDS.indexOf(state.prefs.speed) + by] ?? state.prefs.speed; }),
    play: changing(() => (state.view.isPlaying ? player.pause() : player.play())),
    redraw: draw,
    open: moving((trace, label) => {
      now.apply(state, { v: now.VERSION, kind: "trace", run: "file", label, trace, ...state.status });
      keep(trace, label);
    }),
    hover(place) {
      const { lane, step } = state.view;
      state.hover = place && { lane, step, node: null, ...place };
      draw();
    },
  };
}

const otherLane = ({ view }) => now.METHODS.find((method) => method !== view.lane);

/** The step of the other lane that wrote the same place of the text. */
function matchingStep(state, method) {
  const token = now.stepInView(state)?.firstToken ?? 0;
  return state.lanes[method].tokens[token]?.step ?? now.lastStep(state);
}

/** A phase pressed again gives the whole step back. */
function goToPhase(state, index) {
  const isSame = state.view.phase === index;
  Object.assign(state.view, { phase: isSame ? null : index, node: null, clockMs: null, isFollowing: false });
}

/** After the last phase, and before the first, comes the whole step. */
function nextPhase(state, by) {
  const numStops = phasesOf(now.stepInView(state), state.pieces).length + 1;
  const next = (((state.view.phase ?? -1) + 1 + by + numStops) % numStops) - 1;
  return next < 0 ? null : next;
}

function createPage(act) {
  const status = createStatus();
  const score = createScore(act);
  const lanes = now.METHODS.map((method) => createLane(method, act));
  const steps = createSteps(act);
  const stage = createStage(act);
  const compare = createCompare(act);
  const facts = h("p", { class: "ev-facts ev-fine" });
  const badge = h("p", { class: "ev-badge" });
  const announcer = h("p", { class: "ev-unseen", "aria-live": "polite" });
  const empty = h("p", { class: "ev-empty" }, "Type a prompt above and press Run: both lanes answer it here.");
  const content = h("div", { class: "ev-content" },
    score.element,
    h("div", { class: "ev-lanes" }, lanes.map((lane) => lane.element)),
    facts,
    h("section", { class: "ev-panel", "aria-label": "Steps", tabindex: 0 }, steps.element, stage.element, hint()),
    compare.element);
  const tools = h("div", { class: "ev-top-tools" }, badge);
  const element = h("div", { class: "ev" }, h("div", { class: "ev-top-line" }, status.element, tools), empty, content, announcer);
  const share = createShare({
    root: element,
    onTrace: (trace, name) => act.open(trace, `Opened: ${name}`),
    onCompare: (trace, name) => {
      compare.take(trace, name);
      act.redraw();
    },
  });
  tools.append(share.element);
  element.append(createMeaning(element));
  const update = (state) => {
    status.update(state);
    setText(badge, state.label ?? "");
    badge.hidden = !state.label;
    setAttribute(element, "data-phase", state.phase);
    const isEmpty = !now.hasAnswer(state) && state.phase !== "running";
    empty.hidden = !isEmpty;
    content.hidden = isEmpty;
    share.update(state);
    if (isEmpty) return;
    for (const part of [...lanes, score, stage, compare]) part.update(state);
    setText(facts, environmentLine(state));
    const heading = stepHeading(state);
    steps.update(state, heading);
    if (state.isMoved && !state.view.isPlaying) setText(announcer, `${heading.title}: ${heading.said}`);
    state.isMoved = false;
  };
  return { element, update, zoom: stage.zoom, fit: stage.fit };
}

function createStatus() {
  const text = h("span", {});
  const fill = h("span", { class: "ev-progress-fill" });
  const progress = h("span", { class: "ev-progress", "aria-hidden": "true" }, fill);
  const element = h("div", { class: "ev-status", role: "status", "aria-live": "polite" }, h("span", { class: "ev-dot", "aria-hidden": "true" }), text, progress);
  const update = ({ status, phase }) => {
    setText(text, status.text);
    setAttribute(element, "data-kind", phase === "running" && status.tone !== "error" ? "busy" : status.tone);
    progress.hidden = status.fraction === null;
    fill.style.width = `${100 * (status.fraction ?? 0)}%`;
    element.hidden = status.text === "";
  };
  return { element, update };
}

/** The step's line, and what is `said` to who cannot see: what its phase does, where one is looked at. */
function stepHeading(state) {
  const step = now.stepInView(state);
  if (!step) return { title: "Step", about: "no step yet", said: "no step yet" };
  const { look, phases, step: shown } = scene(state, step);
  const about = look.kinds.includes("drafted") ? `${count(step.tokens.length - 1, "token")} drafted${dropped(shown)}` : summary(shown);
  const name = state.view.lane === "eagle" ? "Step" : "Plain pass";
  return { title: `${name} ${step.number + 1} of ${now.laneInView(state).steps.length}`, about, said: phases[state.view.phase]?.text ?? about };
}

function hint() {
  const row = (kind, mark, text) => h("li", {}, h("span", { class: `ev-sample ev-${kind}`, "aria-hidden": "true" }, mark), h("span", {}, text));
  const bold = (text) => h("b", {}, text);
  return h("details", { class: "ev-hint", open: true },
    h("summary", {}, "How to read a step"),
    h("ul", {},
      row("accepted", "✓", ["Left to right, the head guesses a tree of next tokens. One target pass checks all of it and keeps the ", bold("accepted"), " path."]),
      row("refused", "✕", ["Siblings are tried from the top: ", bold("d"), " is the draft probability, ", bold("a"), " the chance of acceptance. Dashed is ", bold("refused"), ", dotted was never reached."]),
      row("bonus", "◆", ["The ", bold("bonus token"), " is the target's own, free with the pass. It ends the step and is the root of the next."])),
    h("details", { class: "ev-keys-box" }, h("summary", {}, "Keys, while this viewer has the focus"), keyList()));
}

function environmentLine(state) {
  const { environment, settings, label, created } = state;
  if (!environment || !settings) return "";
  const prefill = state.lanes.plain.prefill ?? state.lanes.eagle.prefill;
  return [
    label && created && `recorded on ${created.slice(0, 10)}`,
    `${environment.target}, head ${environment.head}`,
    `${environment.device}, ${environment.dtype}, ${count(environment.threads, "thread")}`,
    `${treeName(settings.tree)}, rule ${settings.rule.replaceAll("_", " ")}, temperature ${settings.temperature}, seed ${settings.seed}`,
    prefill && `${state.earlier.length ? "conversation" : "prompt"} of ${count(prefill.prompt_tokens, "token")}`,
  ].filter(Boolean).join(" · ");
}
