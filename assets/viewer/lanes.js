// The two lanes: figures above, text below. Tokens are told apart by shape and colour.

import { h, nodeAt, pointing, setText } from "./dom.js";
import { figures, isLossy, veiledFrom } from "./state.js";
import { term } from "./terms.js";
import { ratio, rate, seconds, visible } from "./text.js";

const NAMES = { plain: "Plain decoding", eagle: "EAGLE" };
const NOTES = {
  plain: "one target pass, one token",
  eagle: "draft a tree, verify it in one target pass",
};
const FIGURES = {
  "tokens per target pass": ({ tau }) => ratio(tau), "target passes": ({ numPasses }) => String(numPasses),
  tokens: ({ numTokens }) => String(numTokens), clock: ({ decodeMs }) => seconds(decodeMs),
};

/** A lane's card: `{element, update(state)}`. */
export function createLane(method, act) {
  const rateText = h("span", { class: "ev-rate" }, "–");
  const values = Object.fromEntries(Object.keys(FIGURES).map((name) => [name, h("dd", {}, "–")]));
  const text = h("div", { class: "ev-text", dir: "auto", tabindex: 0, role: "region", "aria-label": `${NAMES[method]}: text` });
  pointing(text, placeOf, {
    pick: ({ step, node }) => act.pick(method, step, node),
    hover: (place) => act.hover(place && { lane: method, ...place }),
  });
  const note = h("p", { class: "ev-fine" }, NOTES[method]);
  const element = h("section", { class: `ev-lane ev-lane-${method}`, "aria-label": NAMES[method] },
    h("header", {},
      h("div", {}, h("h2", {}, NAMES[method]), note),
      h("p", { class: "ev-speed", title: "(tokens − 1) ÷ seconds of the decode phase" }, rateText, h("span", { class: "ev-unit" }, "tokens/s"))),
    h("dl", { class: "ev-figures" }, Object.entries(values).map(([name, value]) => h("div", {}, h("dt", {}, term(name)), value))),
    text);
  return { element, update: painter(method, { rateText, values, text, note }) };
}

/** Step and node of the token pointed at; the first token belongs to no step and opens the first. */
function placeOf(event) {
  const group = event.target.closest(".ev-group");
  return group && { step: Number(group.dataset.step) || 0, node: nodeAt(event) };
}

function painter(method, { rateText, values, text, note }) {
  const shown = { lane: null };
  return (state) => {
    const lane = state.lanes[method];
    if (lane !== shown.lane) {
      text.replaceChildren();
      Object.assign(shown, { lane, numTokens: 0, groups: [], current: null, lit: [], veiled: Infinity });
    }
    const isLive = state.phase === "running" && state.view.isFollowing;
    // Places are read before anything is written: reading after writing costs a layout.
    const isAtEnd = isLive && text.scrollHeight - text.scrollTop - text.clientHeight < 24;
    addTokens(text, lane, shown);
    veil(shown, veiledFrom(state, method));
    const group = state.view.lane === method ? shown.groups[state.view.step] : undefined;
    if (isAtEnd) text.scrollTop = text.scrollHeight;
    else if (group && group !== shown.current) reveal(text, group);
    if (group !== shown.current) {
      shown.current?.classList.remove("ev-current");
      group?.classList.add("ev-current");
      shown.current = group;
    }
    light(shown, state.hover?.lane === method ? state.hover : null);
    const lossy = method === "eagle" && isLossy(state);
    setText(note, lossy ? "lossy rule: changes the text's law" : NOTES[method]);
    note.classList.toggle("ev-lossy", lossy);
    const known = figures(lane);
    setText(rateText, rate(known.tokensPerS));
    for (const [name, value] of Object.entries(values)) setText(value, FIGURES[name](known));
  };
}

/** Append what is new, one group per step. */
function addTokens(text, lane, shown) {
  let group = text.lastElementChild;
  for (const token of lane.tokens.slice(shown.numTokens)) {
    const name = String(token.step ?? "prefill");
    if (group?.dataset.step !== name) {
      group = h("span", { class: "ev-group", "data-step": name });
      text.append(group);
      if (token.step !== null) shown.groups[token.step] = group;
      if (token.step >= shown.veiled) group.classList.add("ev-veiled");
    }
    group.append(chip(token));
  }
  shown.numTokens = lane.tokens.length;
}

function chip(token) {
  const element = h("span", { class: `ev-chip ev-${token.origin}`, "data-node": token.node }, token.text);
  if (token.text.includes("\n")) element.dataset.glyph = visible(token.text).replace(/[^⏎]/g, "");
  return element;
}

/** Hold back the groups from step `from` on; only those that change are touched. */
function veil(shown, from) {
  const begin = Math.min(from, shown.veiled);
  shown.groups.slice(begin, Math.max(from, shown.veiled)).forEach((group, index) => group.classList.toggle("ev-veiled", begin + index >= from));
  shown.veiled = from;
}

/** The hovered step's group, and the token of the hovered node in it. */
function light(shown, place) {
  const group = place && shown.groups[place.step];
  const chip = group?.querySelector(`[data-node="${place.node}"]`);
  const lit = [group, chip].filter(Boolean);
  for (const element of shown.lit) if (!lit.includes(element)) element.classList.remove("ev-lit");
  for (const element of lit) element.classList.add("ev-lit");
  shown.lit = lit;
}

function reveal(box, group) {
  const top = group.offsetTop - box.offsetTop;
  if (top < box.scrollTop || top + group.offsetHeight > box.scrollTop + box.clientHeight) {
    box.scrollTop = top - box.clientHeight / 2;
  }
}
