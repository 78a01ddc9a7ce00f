// One quiet menu for everything that leaves the page or comes into it.

import { button, h, setText } from "./dom.js";
import { linkHash, provenance, pythonSnippet, runCsv, stepText } from "./exports.js";
import { openTrace, packed, pngOf, save, svgText } from "./files.js";
import { scene } from "./stage.js";
import { stepInView } from "./state.js";

/** `{element, update(state)}`; files dropped on `root` or picked go to `onTrace(trace, name)`. */
export function createShare({ root, onTrace, onCompare }) {
  let state = null;
  const said = h("p", { class: "ev-share-said ev-fine", role: "status" });
  const picker = h("input", { type: "file", accept: ".json,.gz,application/json", class: "ev-unseen", tabindex: -1, "aria-label": "Trace file", onchange: () => {
    if (picker.files[0]) take(picker.files[0], taker);
    picker.value = "";
  } });
  let taker = onTrace;
  const take = async (file, receive) => {
    try {
      receive(await openTrace(file), file.name.slice(0, 80));
      setText(said, "");
      box.open = false;
    } catch (error) {
      setText(said, `Could not open ${file.name.slice(0, 60)}: ${error.message}.`);
      box.open = true;
    }
  };
  const pick = (receive) => () => {
    taker = receive;
    picker.click();
  };
  const copy = (what, text) => async () => {
    const written = text();
    const isCopied = await copyText(written, box);
    setText(said, isCopied ? `${what} copied.` : "This browser lets no page copy.");
  };
  const name = (end) => `eagle-step-${state.view.step + 1}.${end}`;
  const svg = () => svgText({ ...state, ...scene(state, stepInView(state)), notes: provenance(state).join("\n"), host: root });
  const trace = () => JSON.stringify(state.trace);
  const groups = {
    "The run": [
      ["Open a trace…", pick(onTrace)],
      ["Compare with a trace…", pick(onCompare)],
      ["Save trace (.json)", () => save("eagle-trace.json", trace(), "application/json"), "trace"],
      ["Save trace (.json.gz)", async () => save("eagle-trace.json.gz", await packed(trace())), "trace"],
      ["Save run as CSV", () => save("eagle-run.csv", runCsv(state), "text/csv"), "trace"],
      ["Copy Python that repeats it", copy("The snippet is", () => pythonSnippet(state)), "trace"],
    ],
    "This step": [
      ["Copy a link to it", copy("The link is", () => `${location.origin}${location.pathname}${location.search}${linkHash(state)}`), "step"],
      ["Copy it as text", copy("The step is", () => stepText(state)), "step"],
      ["Save tree as SVG", () => save(name("svg"), svg(), "image/svg+xml"), "step"],
      ["Save tree as PNG", async () => save(name("png"), await pngOf(svg())), "step"],
    ],
  };
  const buttons = [];
  const item = ([label, run, needs]) => {
    const one = button(label, run, { class: "ev-menu-item" });
    buttons.push({ one, needs });
    return h("li", {}, one);
  };
  const menu = h("div", { class: "ev-menu" },
    Object.entries(groups).map(([title, items]) => h("div", {}, h("p", { class: "ev-fine" }, title), h("ul", {}, items.map(item)))), said, picker);
  const box = h("details", { class: "ev-share" }, h("summary", { class: "ev-button" }, "Save and share"), menu);
  closeWhenLeft(box);
  acceptDrops(root, (file) => take(file, onTrace));
  const update = (newState) => {
    state = newState;
    const has = { trace: state.trace !== null, step: stepInView(state) !== null && state.settings !== null };
    for (const { one, needs } of buttons) one.disabled = needs !== undefined && !has[needs];
  };
  return { element: box, update };
}

/** Through the clipboard, else a selected field. */
async function copyText(text, box) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = h("textarea", { class: "ev-unseen" });
    field.value = text;
    box.append(field);
    field.select();
    const isCopied = document.execCommand("copy");
    field.remove();
    return isCopied;
  }
}

function closeWhenLeft(box) {
  document.addEventListener("pointerdown", ({ target }) => {
    if (!box.contains(target)) box.open = false;
  });
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    box.open = false;
    box.querySelector("summary").focus();
  });
}

function acceptDrops(root, take) {
  const on = (name, act) => root.addEventListener(name, (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    act(event);
  });
  const mark = (isOver) => root.classList.toggle("ev-dropping", isOver);
  on("dragover", () => mark(true));
  on("dragleave", (event) => root.contains(event.relatedTarget) || mark(false));
  on("drop", (event) => {
    mark(false);
    take(event.dataTransfer.files[0]);
  });
}
