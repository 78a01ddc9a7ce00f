// One step in full: its phases, its tree or table, and the numbers of the selected node.

import { button, h, setAttribute, setText, signButton } from "./dom.js";
import { drawInspector } from "./inspector.js";
import { lookOf, phasesOf, withDropped } from "./phases.js";
import * as now from "./state.js";
import { createTable } from "./table.js";
import { createTree } from "./tree.js";

/** `{element, update(state), zoom, fit}`; redrawn only when what it shows changes. */
export function createStage(act) {
  const tree = createTree({ onSelect: act.select, onHover: (node) => act.hover(node === null ? null : { node }) });
  const table = createTable({ onSelect: act.select });
  const phases = createPhases(act);
  const tools = createTools(act, tree);
  const inspector = h("aside", { class: "ev-inspector", "aria-label": "Selected node" });
  const element = h("div", { class: "ev-stage-box" },
    h("div", { class: "ev-toolbar" }, phases.element, tools.element),
    h("div", { class: "ev-stage" }, h("div", { class: "ev-picture" }, tree.element, table.element), inspector));
  let shown = {};
  const update = (state) => {
    const step = now.stepInView(state);
    element.hidden = !step;
    if (!step) return;
    const next = { ...scene(state, step), isTable: state.prefs.isTable, pieces: state.pieces };
    tools.update(state, step);
    if (isSame(shown, next)) return;
    const isHoverOnly = isSame({ ...shown, hovered: next.hovered }, next);
    shown = next;
    tree.element.hidden = next.isTable;
    table.element.hidden = !next.isTable;
    if (next.isTable) table.update(next);
    else tree.update({ ...next, steps: now.laneInView(state).steps });
    if (isHoverOnly) return;
    phases.update(state, next.phases);
    inspector.replaceChildren(drawInspector({ ...next, rule: state.settings?.rule }));
  };
  return { element, update, zoom: tree.zoom, fit: tree.fit };
}

const knownScenes = new WeakMap();

/** What is to be seen of the step in view; the same objects for the same view, so they can be compared. */
export function scene(state, step) {
  const { phase } = state.view;
  const { isHiding, showsDropped } = state.prefs;
  const mark = `${phase} ${isHiding} ${showsDropped}`;
  let known = knownScenes.get(step);
  if (known?.mark !== mark) {
    const phases = known?.phases ?? phasesOf(step, state.pieces);
    const shown = showsDropped ? withDropped(step) : step;
    known = { mark, phases, step: shown, look: lookOf(shown, { phase, phases, isHiding }) };
    knownScenes.set(step, known);
  }
  const { lane, step: number, node } = state.hover ?? {};
  const hovered = lane === state.view.lane && number === state.view.step ? node ?? null : null;
  return { ...known, selected: now.nodeInView(state, known), hovered };
}

const isSame = (one, other) => Object.keys(other).every((key) => one[key] === other[key]);

/** The phases of the step as a row of small buttons, and what happens at the one looked at. */
function createPhases(act) {
  const press = (event) => {
    const button = event.target.closest("[data-phase]");
    if (button) act.phase(Number(button.dataset.phase));
  };
  const list = h("div", { class: "ev-phase-list", role: "group", "aria-label": "Phases of the step", onclick: press });
  const text = h("p", { class: "ev-phase-text" });
  const element = h("div", { class: "ev-phases" }, list, text);
  let drawn = null;
  const update = (state, phases) => {
    element.hidden = !phases.length;
    const { phase } = state.view;
    if (drawn !== phases) list.replaceChildren(...phaseButtons(phases));
    drawn = phases;
    const isUnsaid = state.prefs.isHiding && phase === null;
    list.querySelectorAll("[data-phase]").forEach((button, index) => {
      setAttribute(button, "aria-pressed", phase === index);
      const isSecret = phases[index].kind === "coin" && (isUnsaid || (phase !== null && index > phase));
      setText(button, isSecret ? "?" : phases[index].mark);
      button.hidden = isSecret && button.previousSibling.textContent === "?"; // their number would tell
    });
    setText(text, phase === null ? (isUnsaid ? "Which path will the target keep? ] goes on phase by phase." : "") : phases[phase].text);
  };
  return { element, update };
}

function phaseButtons(phases) {
  const labels = { level: "draft", coin: "coins" };
  return phases.flatMap(({ kind, name = null }, index) => {
    const isNew = kind in labels && kind !== phases[index - 1]?.kind;
    const one = h("button", { type: "button", class: `ev-phase ev-phase-${kind}`, "data-phase": index, "aria-label": name });
    return isNew ? [h("span", { class: "ev-phase-name", "aria-hidden": "true" }, labels[kind]), one] : [one];
  });
}

function createTools(act, tree) {
  const toggle = (label, title, onclick) => button(label, onclick, { class: "ev-button ev-toggle", title });
  const toggles = {
    isHiding: toggle("Hide verdicts", "Guess first: hide what the target decided (H)", act.hide),
    isTable: toggle("Table", "The same facts as a table (T)", act.table),
    showsDropped: toggle("Dropped", "What the head drafted and the tree did not keep (D)", act.dropped),
  };
  const zooms = [signButton("−", "Zoom out (−)", () => tree.zoom(0.8)), signButton("⤢", "Whole tree, or back (0)", tree.fit), signButton("+", "Zoom in (+)", () => tree.zoom(1.25))];
  const element = h("div", { class: "ev-tools" }, Object.values(toggles), h("span", { class: "ev-zooms", role: "group", "aria-label": "Zoom" }, zooms));
  const update = ({ prefs }, step) => {
    for (const [name, one] of Object.entries(toggles)) setAttribute(one, "aria-pressed", prefs[name]);
    toggles.showsDropped.hidden = !step.dropped && toggles.showsDropped !== document.activeElement; // else the focus were lost
    for (const one of zooms) one.disabled = prefs.isTable;
  };
  return { element, update };
}
