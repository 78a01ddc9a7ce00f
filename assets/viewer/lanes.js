// The two lanes: figures above, text below. Tokens are told apart by shape and colour.

import { h, setText } from "./dom.js";
import { figures } from "./state.js";
import { count, ratio, rate, seconds, visible } from "./text.js";

const NAMES = { plain: "Plain decoding", eagle: "EAGLE" };
const NOTES = {
  plain: "one target pass, one token",
  eagle: "draft a tree, verify it in one target pass",
};
const FIGURES = [
  ["tau", "tokens per target pass", "τ: (tokens − 1) ÷ target passes after the prefill"],
  ["passes", "target passes", "Passes of the target after the prefill"],
  ["tokens", "tokens", "Tokens written so far"],
  ["clock", "clock", "Engine time of the decode phase, prefill not counted"],
];

/** A lane's card: `{element, update(lane, {selected, isLive})}`. */
export function createLane(method, { onPick }) {
  const rateText = h("span", { class: "ev-rate" }, "–");
  const values = Object.fromEntries(FIGURES.map(([key]) => [key, h("dd", {}, "–")]));
  const text = h("div", { class: "ev-text", dir: "auto", tabindex: 0, role: "region", "aria-label": `${NAMES[method]}: text` });
  text.addEventListener("click", (event) => {
    const group = event.target.closest("[data-step]");
    if (group) onPick(method, Number(group.dataset.step) || 0);
  });
  const element = h("section", { class: `ev-lane ev-lane-${method}`, "aria-label": NAMES[method] },
    h("header", {},
      h("div", {}, h("h3", {}, NAMES[method]), h("p", { class: "ev-fine" }, NOTES[method])),
      h("p", { class: "ev-speed", title: "(tokens − 1) ÷ seconds of the decode phase" }, rateText, h("span", { class: "ev-unit" }, "tokens/s"))),
    h("dl", { class: "ev-figures" }, FIGURES.map(([key, label, hint]) => h("div", { title: hint }, h("dt", {}, label), values[key]))),
    text);
  return { element, update: painter({ rateText, values, text }) };
}

function painter({ rateText, values, text }) {
  let shownLane = null;
  let numShown = 0;
  let current = null;
  return (lane, { selected, isLive }) => {
    if (lane !== shownLane) {
      text.replaceChildren();
      numShown = 0;
      current = null;
      shownLane = lane;
    }
    // Places are read before anything is written: reading after writing costs a layout.
    const isAtEnd = isLive && text.scrollHeight - text.scrollTop - text.clientHeight < 24;
    numShown = addTokens(text, lane, numShown);
    const group = selected === null ? null : text.querySelector(`[data-step="${selected}"]`);
    if (isAtEnd) text.scrollTop = text.scrollHeight;
    else if (group && group !== current) reveal(text, group);
    if (group !== current) {
      current?.classList.remove("ev-current");
      group?.classList.add("ev-current");
      current = group;
    }
    writeFigures(figures(lane), { rateText, values });
  };
}

function writeFigures({ tokensPerS, tau, numPasses, numTokens, decodeMs }, { rateText, values }) {
  setText(rateText, rate(tokensPerS));
  setText(values.tau, ratio(tau));
  setText(values.passes, String(numPasses));
  setText(values.tokens, String(numTokens));
  setText(values.clock, seconds(decodeMs));
}

/** Append what is new, one group per step, and return how many tokens are shown now. */
function addTokens(text, lane, from) {
  let group = null;
  for (const token of lane.tokens.slice(from)) {
    if (group?.dataset.step !== String(token.step)) {
      group = h("span", { class: "ev-group", "data-step": token.step ?? "prefill", title: groupHint(lane, token) });
      text.append(group);
    }
    group.append(chip(token));
  }
  return lane.tokens.length;
}

function chip(token) {
  const element = h("span", { class: `ev-chip ev-${token.origin}` }, token.text);
  if (token.text.includes("\n")) element.dataset.glyph = visible(token.text).replace(/[^⏎]/g, "");
  return element;
}

function groupHint(lane, token) {
  if (token.step === null) return "First token: it comes with the prefill";
  if (lane.method === "plain") return `Target pass ${token.step + 1}`;
  return `Step ${token.step + 1}: ${count(lane.steps[token.step].path.length - 1, "accepted token")}`;
}

function reveal(box, group) {
  const top = group.offsetTop - box.offsetTop;
  if (top < box.scrollTop || top + group.offsetHeight > box.scrollTop + box.clientHeight) {
    box.scrollTop = top - box.clientHeight / 2;
  }
}
