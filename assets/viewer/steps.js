// Moving in time: buttons, slider, and the bars of tokens per step that stand on it.

import { box, button, h, paths, pointing, s, setAttribute, setText, signButton } from "./dom.js";
import { SPEEDS, speedName } from "./player.js";
import { laneInView, METHODS } from "./state.js";
import { count } from "./text.js";

const HEIGHT = 48;
const THUMB = 16; // width of the slider's thumb: its centre travels between half of it and the rest
const PARTS = ["accepted", "bonus"];
const NAMES = { eagle: "EAGLE", plain: "Plain", accepted: "accepted", bonus: "the target's own" };

/** `{element, update(state, heading)}`; `act` has what the buttons do. */
export function createSteps(act) {
  const play = signButton("▶", "Play (Space)", act.play);
  const speed = h("select", { class: "ev-speed-choice", "aria-label": "Speed of play", onchange: () => act.speed(Number(speed.value)) }, SPEEDS.map((one) => h("option", { value: one }, speedName(one))));
  const order = METHODS.toReversed();
  const lanes = order.map((method) => button(NAMES[method], () => act.lane(method), { class: "ev-tab" }));
  const slider = h("input", { type: "range", min: 1, max: 1, value: 1, step: 1, class: "ev-slider", "aria-label": "Step", oninput: () => act.moveTo(Number(slider.value) - 1) });
  const chart = createChart(act);
  const title = h("h2", { class: "ev-step-title" }, "Step");
  const about = h("p", { class: "ev-step-about" });
  const live = button("● Live", act.last, { class: "ev-button ev-live", title: "Follow the newest step (End)" });
  const element = h("div", { class: "ev-steps" },
    h("div", { class: "ev-steps-head" }, h("div", { class: "ev-step-name" }, title, about),
      h("div", { class: "ev-controls" },
        h("div", { class: "ev-tabs", role: "group", "aria-label": "Lane to look at" }, lanes), live,
        signButton("⇤", "First step (Home)", act.first), signButton("←", "Step back (←)", () => act.by(-1)), play,
        signButton("→", "Step forward (→)", () => act.by(1)), signButton("⇥", "Last step (End)", act.last), speed)),
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
    lanes.forEach((tab, index) => setAttribute(tab, "aria-pressed", order[index] === state.view.lane));
    live.hidden = state.phase !== "running";
    setAttribute(live, "aria-pressed", state.view.isFollowing);
    chart.update(state);
  };
  return { element, update };
}

/** A bar per step: how many tokens it committed, accepted ones below the bonus token. */
function createChart(act) {
  const parts = paths(PARTS, (part) => `ev-bar-of-${part}`);
  const frames = paths(["lit-bar", "cursor"], (name) => `ev-${name}`);
  const svg = s("svg", { class: "ev-bars-of-steps", height: HEIGHT, "aria-hidden": "true" }, parts.elements, frames.elements);
  const top = h("span", { class: "ev-top" });
  const key = h("p", { class: "ev-key" }, h("span", {}, "tokens per step"), PARTS.map((part) => h("span", {}, h("i", { class: `ev-swatch ev-swatch-${part}` }), NAMES[part])), top);
  const chart = h("div", { class: "ev-chart", role: "img" }, svg);
  let drawn = { numSteps: 0 };
  let width = 600;
  new ResizeObserver(([{ contentRect }]) => { width = contentRect.width || width; }).observe(chart);
  const stepUnder = (event) => {
    if (!drawn.numSteps) return null;
    const place = (event.clientX - svg.getBoundingClientRect().left - THUMB / 2) / Math.max(width - THUMB, 1);
    return { step: Math.min(Math.max(Math.round(place * (drawn.numSteps - 1)), 0), drawn.numSteps - 1) };
  };
  pointing(svg, stepUnder, { pick: ({ step }) => act.moveTo(step), hover: act.hover });
  const update = (state) => {
    const { steps } = laneInView(state);
    if (steps !== drawn.steps || steps.length !== drawn.numSteps || width !== drawn.width) {
      const gap = (width - THUMB) / Math.max(steps.length - 1, 1);
      drawn = { steps, numSteps: steps.length, width, gap, bar: Math.max(Math.min(gap * 0.7, THUMB), 1) };
      const { most, ...shapes } = barShapes(steps, drawn);
      parts.draw(shapes);
      setText(top, steps.length ? `at most ${count(most, "token")}` : "");
      setAttribute(chart, "aria-label", `Tokens of ${count(steps.length, "step")}, at most ${most}`);
    }
    const { view, hover } = state;
    const frame = (step) => (step === null ? null : box(THUMB / 2 + step * drawn.gap - drawn.bar / 2 - 2, 1, drawn.bar + 4, HEIGHT - 1));
    frames.draw({ cursor: frame(steps.length ? view.step : null), "lit-bar": frame(hover?.lane === view.lane ? hover.step : null) });
  };
  return { element: h("div", {}, key, chart), update };
}

/** `{accepted, bonus, most}`: one path per part, scaled to the step that committed most. */
export function barShapes(steps, { gap, bar }) {
  const most = steps.reduce((top, { text }) => Math.max(top, text.length), 0);
  const unit = HEIGHT / Math.max(most, 1);
  const shapes = { accepted: "", bonus: "" };
  for (const { number, path, bonus } of steps) {
    const block = (part, from, height) => {
      if (height) shapes[part] += box(THUMB / 2 + number * gap - bar / 2, HEIGHT - (from + height) * unit, bar, height * unit - 1);
    };
    block("accepted", 0, path.length - 1);
    block("bonus", path.length - 1, bonus === null ? 0 : 1);
  }
  return { ...shapes, most };
}
