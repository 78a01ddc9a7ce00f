// Moving in time: buttons, slider, and the bars of milliseconds per step that stand on it.

import { h, s, setAttribute, setText } from "./dom.js";
import { SPEEDS, speedName } from "./player.js";
import { laneInView, METHODS } from "./state.js";
import { milliseconds } from "./text.js";

const HEIGHT = 76;
const THUMB = 16; // width of the slider's thumb: its centre travels between half of it and the rest
const CUT_AT = 3; // times the usual step
const PARTS = ["draft", "verify", "commit"];
const NAMES = { eagle: "EAGLE", plain: "Plain" };

/** `{element, update(state, heading)}`; `act` has what the buttons do. */
export function createSteps(act) {
  const button = (run, label, hint) => h("button", { type: "button", class: "ev-button", "aria-label": hint, title: hint, onclick: run }, label);
  const play = button(act.play, "▶", "Play (Space)");
  const speed = h("select", { class: "ev-speed-choice", "aria-label": "Speed of play" }, SPEEDS.map((one) => h("option", { value: one }, speedName(one))));
  speed.addEventListener("change", () => act.speed(Number(speed.value)));
  const lanes = METHODS.toReversed().map((method) => h("button", { type: "button", class: "ev-tab", onclick: () => act.lane(method) }, NAMES[method]));
  const slider = h("input", { type: "range", min: 1, max: 1, value: 1, step: 1, class: "ev-slider", "aria-label": "Step" });
  slider.addEventListener("input", () => act.moveTo(Number(slider.value) - 1));
  const chart = createChart(act);
  const title = h("h2", { class: "ev-step-title" }, "Step");
  const about = h("p", { class: "ev-step-about" }, "");
  const live = h("button", { type: "button", class: "ev-button ev-live", onclick: act.last, title: "Follow the newest step (End)" }, "● Live");
  const element = h("div", { class: "ev-steps" },
    h("div", { class: "ev-steps-head" }, h("div", { class: "ev-step-name" }, title, about),
      h("div", { class: "ev-controls" },
        h("div", { class: "ev-tabs", role: "group", "aria-label": "Lane to look at" }, lanes), live,
        button(act.first, "⇤", "First step (Home)"), button(() => act.by(-1), "←", "Step back (←)"), play,
        button(() => act.by(1), "→", "Step forward (→)"), button(act.last, "⇥", "Last step (End)"), speed)),
    chart.element, slider);
  const update = (state, { title: newTitle, about: newAbout }) => {
    const { steps } = laneInView(state);
    setText(title, newTitle);
    setText(about, newAbout);
    setAttribute(slider, "max", Math.max(steps.length, 1));
    slider.value = state.view.step + 1;
    slider.disabled = steps.length < 2;
    setAttribute(slider, "aria-valuetext", `step ${state.view.step + 1} of ${steps.length}`);
    setText(play, state.view.isPlaying ? "❚❚" : "▶");
    setAttribute(play, "aria-label", state.view.isPlaying ? "Pause (Space)" : "Play (Space)");
    speed.value = state.prefs.speed;
    lanes.forEach((tab, index) => setAttribute(tab, "aria-pressed", METHODS.toReversed()[index] === state.view.lane));
    live.hidden = state.phase !== "running";
    setAttribute(live, "aria-pressed", state.view.isFollowing);
    chart.update(state);
  };
  return { element, update };
}

function createChart(act) {
  const parts = Object.fromEntries(PARTS.map((part) => [part, s("path", { class: `ev-part-${part}` })]));
  const frame = (name) => s("rect", { class: name, y: 1, height: HEIGHT - 1, rx: 2 });
  const [cursor, lit] = [frame("ev-cursor"), frame("ev-lit-bar")];
  const line = s("path", { class: "ev-plain-line" });
  const svg = s("svg", { class: "ev-bars-of-steps", height: HEIGHT, "aria-hidden": "true" }, PARTS.map((part) => parts[part]), line, lit, cursor);
  const top = h("span", { class: "ev-top" }, "");
  const plainNote = h("span", { class: "ev-plain-note" }, "");
  const key = h("p", { class: "ev-key" }, h("span", {}, "ms per step"), plainNote, top);
  const box = h("div", { class: "ev-chart", role: "img" }, svg);
  let drawn = {};
  let width = 600;
  new ResizeObserver(([{ contentRect }]) => { width = contentRect.width || width; }).observe(box);
  const stepUnder = (event) => {
    const place = (event.clientX - svg.getBoundingClientRect().left - THUMB / 2) / Math.max(width - THUMB, 1);
    return Math.min(Math.max(Math.round(place * (drawn.numSteps - 1)), 0), drawn.numSteps - 1);
  };
  svg.addEventListener("click", (event) => drawn.numSteps && act.moveTo(stepUnder(event)));
  svg.addEventListener("pointermove", (event) => drawn.numSteps && act.hover({ step: stepUnder(event) }));
  svg.addEventListener("pointerleave", () => act.hover(null));
  const update = (state) => {
    const { steps } = laneInView(state);
    const reference = typicalMs(state.lanes.plain.steps);
    if (steps !== drawn.steps || steps.length !== drawn.numSteps || width !== drawn.width || reference !== drawn.reference) {
      drawn = { steps, numSteps: steps.length, width, reference, ...drawBars(steps, { reference, width, parts }) };
      const y = HEIGHT - (reference / drawn.most) * HEIGHT;
      const isShown = reference && state.view.lane === "eagle";
      setAttribute(line, "d", isShown ? `M0 ${y}H${width}` : "M0 0");
      setText(plainNote, isShown ? `┄ a plain pass, ${milliseconds(reference)}` : "");
      setText(top, steps.length ? `top ${milliseconds(drawn.most)}${drawn.isCut ? ", taller bars are cut" : ""}` : "");
      setAttribute(box, "aria-label", steps.length ? `Milliseconds of ${steps.length} steps, at most ${milliseconds(drawn.most)}` : "No steps yet");
    }
    const { view, hover } = state;
    frameStep(cursor, steps.length ? view.step : null, drawn);
    frameStep(lit, hover?.lane === view.lane ? hover.step : null, drawn);
  };
  return { element: h("div", {}, key, box), update };
}

function drawBars(steps, { reference, width, parts }) {
  const { top: most, isCut } = scaleOf(steps, reference);
  const gap = (width - THUMB) / Math.max(steps.length - 1, 1);
  const bar = Math.max(Math.min(gap * 0.7, THUMB), 1);
  const shape = barShapes(steps, { most, gap, bar });
  for (const part of PARTS) setAttribute(parts[part], "d", shape[part]);
  return { most, isCut, gap, bar };
}

function frameStep(rect, step, { gap, bar }) {
  setAttribute(rect, "width", step === null ? 0 : bar + 4);
  if (step !== null) setAttribute(rect, "x", THUMB / 2 + step * gap - bar / 2 - 2);
}

function barShapes(steps, { most, gap, bar }) {
  const shape = { draft: "", verify: "", commit: "" };
  for (const step of steps) {
    const x = THUMB / 2 + step.number * gap - bar / 2;
    let y = HEIGHT;
    for (const part of PARTS) {
      const height = (step[`${part}_ms`] / most) * HEIGHT;
      y -= height;
      shape[part] += `M${x.toFixed(1)} ${y.toFixed(1)}h${bar.toFixed(1)}v${height.toFixed(1)}h-${bar.toFixed(1)}z`;
    }
  }
  return shape;
}

/** The top of the axis; a few steps far beyond the others are cut rather than flatten them all. */
export function scaleOf(steps, reference) {
  const longest = steps.reduce((most, { ms }) => Math.max(most, ms), reference) || 1;
  const usual = CUT_AT * Math.max(typicalMs(steps), reference);
  return longest > usual && usual > 0 ? { top: usual, isCut: true } : { top: longest, isCut: false };
}

/** The median length of a step. */
export function typicalMs(steps) {
  if (!steps.length) return 0;
  const sorted = steps.map(({ ms }) => ms).sort((one, other) => one - other);
  return sorted[Math.floor(sorted.length / 2)];
}
