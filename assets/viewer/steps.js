// Moving in time: buttons, slider, and the bars of milliseconds per step that stand on it.

import { h, s, setAttribute, setText } from "./dom.js";
import { laneInView, METHODS } from "./state.js";
import { milliseconds } from "./text.js";

const HEIGHT = 76;
const THUMB = 16; // width of the slider's thumb: its centre travels between half of it and the rest
const CUT_AT = 3; // times the usual step
const PARTS = ["draft", "verify", "commit"];
const NAMES = { eagle: "EAGLE", plain: "Plain" };

/** `{element, update(state)}`; `act` has first, back, play, forward, last, moveTo and lane. */
export function createSteps(act) {
  const button = (name, label, hint) => h("button", { type: "button", class: "ev-button", "aria-label": hint, title: hint, onclick: act[name] }, label);
  const play = button("play", "▶", "Play (Space)");
  const lanes = METHODS.toReversed().map((method) => h("button", { type: "button", class: "ev-tab", onclick: () => act.lane(method) }, NAMES[method]));
  const slider = h("input", { type: "range", min: 1, max: 1, value: 1, step: 1, class: "ev-slider", "aria-label": "Step" });
  slider.addEventListener("input", () => act.moveTo(Number(slider.value) - 1));
  const chart = createChart(act.moveTo);
  const title = h("h3", { class: "ev-step-title" }, "Step");
  const about = h("p", { class: "ev-step-about" }, "");
  const live = h("button", { type: "button", class: "ev-button ev-live", onclick: act.last, title: "Follow the newest step (End)" }, "● Live");
  const element = h("div", { class: "ev-steps" },
    h("div", { class: "ev-steps-head" }, h("div", { class: "ev-step-name" }, title, about),
      h("div", { class: "ev-controls" },
        h("div", { class: "ev-tabs", role: "group", "aria-label": "Lane to look at" }, lanes), live,
        button("first", "⇤", "First step (Home)"), button("back", "←", "Step back (←)"), play,
        button("forward", "→", "Step forward (→)"), button("last", "⇥", "Last step (End)"))),
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
    lanes.forEach((tab, index) => setAttribute(tab, "aria-pressed", METHODS.toReversed()[index] === state.view.lane));
    live.hidden = state.phase !== "running";
    setAttribute(live, "aria-pressed", state.view.isFollowing);
    chart.update(state);
  };
  return { element, update };
}

function createChart(onPick) {
  const parts = Object.fromEntries(PARTS.map((part) => [part, s("path", { class: `ev-part-${part}` })]));
  const cursor = s("rect", { class: "ev-cursor", y: 1, height: HEIGHT - 1, rx: 2 });
  const line = s("path", { class: "ev-plain-line" });
  const svg = s("svg", { class: "ev-bars-of-steps", height: HEIGHT, "aria-hidden": "true" }, PARTS.map((part) => parts[part]), line, cursor);
  const top = h("span", { class: "ev-top" }, "");
  const plainNote = h("span", { class: "ev-plain-note" }, "");
  const key = h("p", { class: "ev-key" }, h("span", {}, "ms per step"), PARTS.map((part) => h("span", {}, h("i", { class: `ev-swatch ev-swatch-${part}` }), part)), plainNote, top);
  const box = h("div", { class: "ev-chart", role: "img" }, svg);
  let numSteps = 0;
  let width = 600;
  new ResizeObserver(([{ contentRect }]) => { width = contentRect.width || width; }).observe(box);
  svg.addEventListener("click", (event) => {
    const { left } = svg.getBoundingClientRect();
    const place = (event.clientX - left - THUMB / 2) / Math.max(width - THUMB, 1);
    if (numSteps) onPick(Math.round(place * (numSteps - 1)));
  });
  const update = (state) => {
    const { steps } = laneInView(state);
    numSteps = steps.length;
    const reference = typicalMs(state.lanes.plain.steps);
    const { top: most, isCut } = scaleOf(steps, reference);
    const gap = (width - THUMB) / Math.max(numSteps - 1, 1);
    const bar = Math.max(Math.min(gap * 0.7, THUMB), 1);
    const shape = barShapes(steps, { most, gap, bar });
    for (const part of PARTS) setAttribute(parts[part], "d", shape[part]);
    setAttribute(cursor, "x", THUMB / 2 + state.view.step * gap - bar / 2 - 2);
    setAttribute(cursor, "width", numSteps ? bar + 4 : 0);
    const y = HEIGHT - (reference / most) * HEIGHT;
    setAttribute(line, "d", reference && state.view.lane === "eagle" ? `M0 ${y}H${width}` : "M0 0");
    setText(plainNote, reference && state.view.lane === "eagle" ? `┄ a plain pass, ${milliseconds(reference)}` : "");
    setText(top, numSteps ? `top ${milliseconds(most)}${isCut ? ", taller bars are cut" : ""}` : "");
    setAttribute(box, "aria-label", numSteps ? `Milliseconds of ${numSteps} steps, at most ${milliseconds(most)}` : "No steps yet");
  };
  return { element: h("div", {}, key, box), update };
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
