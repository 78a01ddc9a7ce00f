// The headline: how many times faster, whether both texts are equal, and the race on one time axis.

import { h, s, setAttribute, setText } from "./dom.js";
import { comparison, figures, METHODS, speedup } from "./state.js";
import { count, pieceOf, rate, seconds } from "./text.js";

const NAMES = { plain: "Plain", eagle: "EAGLE" };

/** `{element, update(state)}` of the headline. `onPick(method, step)` follows a click on a strip. */
export function createScore({ onPick }) {
  const number = h("p", { class: "ev-speedup" }, "–");
  const formula = h("p", { class: "ev-fine" }, "");
  const verdict = h("p", { class: "ev-same" }, "");
  const strips = Object.fromEntries(METHODS.map((method) => [method, createStrip(method, onPick)]));
  const axis = h("p", { class: "ev-axis ev-fine", "aria-hidden": "true" }, h("span", {}, "0 s"), h("span", {}, ""));
  const element = h("section", { class: "ev-score", "aria-label": "Speedup" },
    h("div", { class: "ev-headline" }, h("h3", {}, "Speedup"), number, formula, verdict),
    h("div", { class: "ev-race" },
      h("h3", {}, "The race", h("span", { class: "ev-fine" }, " decode time; one block is one target pass")),
      METHODS.map((method) => strips[method].element), axis));
  const update = (state) => {
    const { plain, eagle } = state.lanes;
    const times = speedup(state);
    setText(number, times ? `${times.toFixed(2)}×` : "–");
    setText(formula, times ? `= EAGLE ${rate(figures(eagle).tokensPerS)} ÷ plain ${rate(figures(plain).tokensPerS)} tokens/s` : "EAGLE tokens/s ÷ plain tokens/s");
    const words = sameness(state);
    setText(verdict, words.text);
    setAttribute(verdict, "data-is", words.is);
    const domain = niceCeiling(Math.max(plain.decodeMs, eagle.decodeMs));
    setText(axis.lastChild, domain ? `${domain / 1000} s` : "");
    for (const method of METHODS) strips[method].update(state, domain);
  };
  return { element, update };
}

function createStrip(method, onPick) {
  const blocks = s("path", { class: "ev-strip-blocks" });
  const current = s("path", { class: "ev-strip-current" });
  const svg = s("svg", { viewBox: "0 0 1000 10", preserveAspectRatio: "none", "aria-hidden": "true" }, blocks, current);
  const clock = h("span", { class: "ev-strip-clock" }, "");
  const rail = h("div", { class: "ev-rail" }, svg, clock);
  let lane = null;
  let domain = 0;
  rail.addEventListener("click", (event) => {
    const box = rail.getBoundingClientRect();
    const step = stepAt(lane, ((event.clientX - box.left) / box.width) * domain);
    if (step !== null) onPick(method, step);
  });
  const update = (state, newDomain) => {
    lane = state.lanes[method];
    domain = newDomain;
    const scale = domain ? 1000 / domain : 0;
    const block = ({ startMs, ms }) => {
      const width = (ms * scale - Math.min(1.2, 0.25 * ms * scale)).toFixed(2);
      return `M${(startMs * scale).toFixed(2)} 0h${width}v10h-${width}z`;
    };
    setAttribute(blocks, "d", lane.steps.map(block).join("") || "M0 0");
    const looked = state.view.lane === method ? lane.steps[state.view.step] : null;
    setAttribute(current, "d", looked ? block(looked) : "M0 0");
    setText(clock, lane.steps.length ? seconds(lane.decodeMs) : "");
    const share = domain ? lane.decodeMs / domain : 0;
    clock.style.left = `${100 * share}%`;
    clock.classList.toggle("ev-inside", share > 0.88);
  };
  const element = h("div", { class: `ev-strip ev-strip-of-${method}` }, h("span", { class: "ev-strip-name" }, NAMES[method]), rail);
  return { element, update };
}

function stepAt(lane, ms) {
  if (!lane) return null;
  const step = lane.steps.find(({ startMs, ms: length }) => ms >= startMs && ms < startMs + length);
  return step ? step.number : null;
}

/** The next of 1, 1.5, 2, 3, 4, 5, 6, 8 × a power of ten, so that the axis seldom moves. */
export function niceCeiling(ms) {
  if (ms <= 0) return 0;
  const power = 10 ** Math.floor(Math.log10(ms));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map((n) => n * power).find((nice) => nice >= ms);
}

/** Whether both lanes write the same, in words: `{text, is}`, is one of same, differs, open. */
export function sameness(state) {
  const { position, isSame } = comparison(state);
  if (!position && isSame === null) return { text: "", is: "open" };
  if (isSame) return { text: `✓ Same text: all ${count(position, "token")} are equal`, is: "same" };
  if (isSame === null) return { text: `Same text so far: ${count(position, "token")}`, is: "open" };
  if (state.settings?.temperature > 0) {
    return { text: `Sampled: each lane draws its own tokens, so the texts part at token ${position + 1}; their law is the same`, is: "open" };
  }
  return { text: `≠ ${whereTheyPart(state, position)}`, is: "differs" };
}

function whereTheyPart(state, position) {
  const [plain, eagle] = METHODS.map((method) => state.lanes[method].tokens[position]);
  const name = (token) => (token ? `‹${pieceOf(state.pieces, token.id)}›` : "nothing");
  return `The texts part at token ${position + 1}: plain ${name(plain)}, EAGLE ${name(eagle)}`;
}
