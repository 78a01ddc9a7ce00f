// What a visitor can take along, each with the environment it came from. Pure.

import { lookOf } from "./phases.js";
import { figures, laneInView, METHODS, speedup, stepInView } from "./state.js";
import { rowsOf } from "./table.js";
import { milliseconds } from "./text.js";
import { summary } from "./why.js";

const MAX_LINK_PROMPT = 1500; // characters; longer links are cut by mail programs and chats

/** One line per fact: where a trace was made and with what. */
export function provenance({ environment, settings, created, prompt }) {
  const { target, head, device, dtype, threads, versions } = environment;
  const programs = Object.entries(versions ?? {}).map(([name, version]) => `${name} ${version}`).join(", ");
  return [
    `target ${target}, head ${head}`,
    `${device}, ${dtype}, ${threads} threads${programs ? `, ${programs}` : ""}`,
    Object.entries(settings).map(([name, value]) => `${name.replaceAll("_", " ")} ${JSON.stringify(value)}`).join(", "),
    `recorded ${created ?? "just now"} with EAGLE, step by step`,
    `prompt ${JSON.stringify(prompt)}`,
  ];
}

/** The step in view as an indented tree of plain text. */
export function stepText(state) {
  const step = stepInView(state);
  const { steps, method } = laneInView(state);
  const lines = rowsOf({ step, pieces: state.pieces, look: lookOf(step, { phase: null, phases: [], isHiding: false }) })
    .map(({ token, depth, draft, target, accept, draw, verdict }) => `${`${"  ".repeat(depth)}${token}`.padEnd(32)} d ${draft}  t ${target}  a ${accept}  draw ${draw}  ${verdict}`);
  return [
    `${method}, step ${step.number + 1} of ${steps.length}: ${summary(step)}`,
    `draft ${milliseconds(step.draft_ms)}, verify ${milliseconds(step.verify_ms)}, commit ${milliseconds(step.commit_ms)}`,
    "", ...lines, "", ...provenance(state), "",
  ].join("\n");
}

/** A row per step of both lanes; lines of the environment before the header begin with "#". */
export function runCsv(state) {
  const names = ["lane", "step", "drafted", "accepted", "committed", "start_ms", "draft_ms", "verify_ms", "commit_ms", "text"];
  const row = (method) => (step) => [
    method, step.number + 1, step.tokens.length - 1, step.path.length - 1, step.text.length,
    step.startMs.toFixed(3), step.draft_ms, step.verify_ms, step.commit_ms, cell(step.text.join("")),
  ].join(",");
  const eagle = figures(state.lanes.eagle);
  const notes = [...provenance(state), `tau ${eagle.tau.toFixed(4)}, speedup ${speedup(state).toFixed(4)}`];
  return [
    ...notes.map((note) => `# ${note}`), names.join(","),
    ...METHODS.flatMap((method) => state.lanes[method].steps.map(row(method))), "",
  ].join("\r\n");
}

/** As a JSON string within a CSV cell: blanks stay visible, and no spreadsheet takes it for a formula. */
const cell = (text) => `"${JSON.stringify(text).replaceAll('"', '""')}"`;

/** Python that repeats the run with this project's engine; JSON's texts and numbers are Python's, too. */
export function pythonSnippet(state) {
  const { settings, prompt } = state;
  const options = Object.entries(settings).map(([name, value]) => `    ${name}=${name === "stop" ? `tuple(${JSON.stringify(value)})` : JSON.stringify(value)},`);
  return [
    ...provenance(state).slice(0, 2).map((line) => `# ${line}`),
    "from eagle_core import RunOptions, dump_trace", "from eagle_core.workbench import Workbench", "",
    "bench = Workbench.load()  # or target=…, head=…, device=…, dtype=…",
    "options = RunOptions(", ...options, ")",
    `recording = bench.race(${JSON.stringify(prompt)}, options)`,
    "for moment in recording:", '    print(moment.method, repr("".join(moment.texts)))',
    "trace = recording.trace()", "print(trace.speedup, trace.lane(\"eagle\").tau)",
    "print(dump_trace(trace), file=open(\"trace.json\", \"w\", encoding=\"utf-8\"))", "",
  ].join("\n");
}

/** The part after "#" of a link to this place: the recording by name, or what it takes to run it again. */
export function linkHash(state) {
  const { view, settings, prompt } = state;
  const values = new URLSearchParams();
  if (state.recording) values.set("run", state.recording);
  if (prompt.length <= MAX_LINK_PROMPT) values.set("prompt", prompt);
  for (const [name, key] of LINK_OPTIONS) values.set(name, settings[key]);
  values.set("lane", view.lane);
  values.set("step", view.step + 1);
  if (view.node !== null) values.set("node", view.node);
  return `#${values}`;
}

const LINK_OPTIONS = [["length", "max_new_tokens"], ["temperature", "temperature"], ["tree", "tree"], ["seed", "seed"]];

/** The parts of a link; nothing of it is trusted: places are cut to numbers here, options checked by the server. */
export function readLink(hash) {
  const values = new URLSearchParams(hash.replace(/^#/, ""));
  if (![...LINK_OPTIONS.map(([name]) => name), "run", "prompt"].some((name) => values.has(name))) return null;
  const text = (name) => values.get(name)?.slice(0, 50_000) ?? null;
  const node = text("node");
  return {
    ask: Object.fromEntries(["run", "prompt", ...LINK_OPTIONS.map(([name]) => name)].map((name) => [name, text(name)])),
    place: {
      lane: METHODS.includes(text("lane")) ? text("lane") : "eagle",
      step: Math.max((Number.parseInt(text("step"), 10) || 1) - 1, 0),
      node: node === "bonus" ? node : /^\d{1,4}$/.test(node ?? "") ? Number(node) : null,
    },
  };
}
