// The headline: how many times faster, whether both texts are equal, and the race on one time axis.

import { box, h, paths, pointing, s, setAttribute, setText } from "./dom.js";
import { comparison, figures, isLossy, lengthMs, METHODS, speedup, stepAt } from "./state.js";
import { term } from "./terms.js";
import { count, pieceOf, rate, seconds } from "./text.js";

const NAMES = { plain: "Plain", eagle: "EAGLE" };
const PARTS = ["draft", "verify", "commit"];

/** `{element, update(state)}` of the headline. Pointing at a strip lights its step; a click opens it. */
export function createScore(act) {
  const number = h("p", { class: "ev-speedup" }, "–");
  const formula = h("p", { class: "ev-fine" });
  const verdict = h("p", { class: "ev-same" });
  const strips = METHODS.map((method) => createStrip(method, act));
  const axis = h("p", { class: "ev-axis ev-fine", "aria-hidden": "true" }, h("span", {}, "0 s"), h("span", {}));
  const key = h("span", { class: "ev-key" }, PARTS.map((part) => h("span", {}, h("i", { class: `ev-swatch ev-swatch-${part}` }), term(part))));
  const element = h("section", { class: "ev-score", "aria-label": "Speedup" },
    h("div", { class: "ev-headline" }, h("h2", {}, term("speedup", "Speedup")), number, formula, verdict),
    h("div", { class: "ev-race" },
      h("div", { class: "ev-race-head" }, h("h2", {}, "The race", h("span", { class: "ev-fine" }, " decode time; one block is one step")), key),
      strips.map((strip) => strip.element), axis));
  const update = (state) => {
    const { plain, eagle } = state.lanes;
    const times = speedup(state);
    setText(number, times ? `${times.toFixed(2)}×` : "–");
    setText(formula, times ? `= EAGLE ${rate(figures(eagle).tokensPerS)} ÷ plain ${rate(figures(plain).tokensPerS)} tokens/s` : "EAGLE tokens/s ÷ plain tokens/s");
    const words = sameness(state);
    setText(verdict, words.text);
    setAttribute(verdict, "data-is", words.is);
    const domain = niceCeiling(lengthMs(state));
    setText(axis.lastChild, domain ? `${domain / 1000} s` : "");
    for (const strip of strips) strip.update(state, domain);
  };
  return { element, update };
}

function createStrip(method, act) {
  const parts = paths(PARTS, (part) => `ev-part-${part}`);
  const marks = paths(["lit", "current", "clockline"], (name) => `ev-strip-${name}`);
  const svg = s("svg", { viewBox: "0 0 1000 10", preserveAspectRatio: "none", "aria-hidden": "true" }, parts.elements, marks.elements);
  const clock = h("span", { class: "ev-strip-clock" });
  const rail = h("div", { class: "ev-rail" }, svg, clock);
  let drawn = {};
  const stepUnder = (event) => {
    const box = rail.getBoundingClientRect();
    const ms = ((event.clientX - box.left) / box.width) * drawn.domain;
    const step = drawn.lane && stepAt(drawn.lane.steps, ms);
    return step ? { lane: method, step: step.number } : null;
  };
  pointing(rail, stepUnder, { pick: ({ step }) => act.pick(method, step), hover: act.hover });
  const update = (state, domain) => {
    const lane = state.lanes[method];
    const { length } = lane.steps;
    const scale = domain ? 1000 / domain : 0;
    if (lane !== drawn.lane || length !== drawn.length || domain !== drawn.domain) {
      parts.draw(stripShapes(lane.steps, scale));
      drawn = { lane, length, domain };
    }
    const { view, hover } = state;
    const frame = (place) => {
      const step = place?.lane === method && lane.steps[place.step];
      return step ? box(step.startMs * scale, 0, step.ms * scale, 10) : null;
    };
    const clockline = view.clockMs === null || matchMedia("(prefers-reduced-motion: reduce)").matches ? null : `M${(view.clockMs * scale).toFixed(1)} 0v10`;
    marks.draw({ current: frame(view), lit: frame(hover), clockline });
    setText(clock, length ? seconds(lane.decodeMs) : "");
    const share = domain ? lane.decodeMs / domain : 0;
    clock.style.left = `${100 * share}%`;
    clock.classList.toggle("ev-inside", share > 0.88);
  };
  const element = h("div", { class: `ev-strip ev-strip-of-${method}` }, h("span", { class: "ev-strip-name" }, NAMES[method]), rail);
  return { element, update };
}

/** One path per part of a step: `{draft, verify, commit}`, with a gap after each step. */
function stripShapes(steps, scale) {
  const shapes = { draft: "", verify: "", commit: "" };
  for (const step of steps) {
    const gap = Math.min(1.2, 0.25 * step.ms * scale);
    const shrink = step.ms ? (step.ms * scale - gap) / step.ms : 0;
    let x = step.startMs * scale;
    for (const part of PARTS) {
      const width = step[`${part}_ms`] * shrink;
      if (width > 0) shapes[part] += box(x, 0, width, 10);
      x += width;
    }
  }
  return shapes;
}

/** The next of 1, 1.5, 2, 3, 4, 5, 6, 8 × a power of ten, so that the axis seldom moves. */
export function niceCeiling(ms) {
  if (ms <= 0) return 0;
  const power = 10 ** Math.floor(Math.log10(ms));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((n) => n * power >= ms) * power;
}

/** Whether both lanes write the same, in words: `{text, is}`, is one of same, differs, open. */
export function sameness(state) {
  const { position, isSame } = comparison(state);
  if (!position && isSame === null) return { text: "", is: "open" };
  if (isSame) return { text: `✓ Same text: all ${count(position, "token")} are equal`, is: "same" };
  if (isSame === null) return { text: `Same text so far: ${count(position, "token")}`, is: "open" };
  const { temperature, rule } = state.settings ?? {};
  if (temperature > 0 && rule !== "seeded") {
    const [law, is] = isLossy(state) ? ["this rule CHANGES THE LAW", "differs"] : ["their law is the same", "open"];
    return { text: `Sampled: each lane draws its own tokens, so the texts part at token ${position + 1}; ${law}`, is };
  }
  return { text: `≠ ${whereTheyPart(state, position)}`, is: "differs" };
}

function whereTheyPart(state, position) {
  const [plain, eagle] = METHODS.map((method) => state.lanes[method].tokens[position]);
  const name = (token) => (token ? `‹${pieceOf(state.pieces, token.id)}›` : "nothing");
  return `The texts part at token ${position + 1}: plain ${name(plain)}, EAGLE ${name(eagle)}`;
}
