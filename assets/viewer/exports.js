// What a visitor can take along, each with the environment it came from. Pure.

import { lookOf } from "./phases.js";
import { figures, isLossy, laneInView, METHODS, speedup, stepInView } from "./state.js";
import { rowsOf } from "./table.js";
import { milliseconds } from "./text.js";
import { summary } from "./why.js";

const MAX_LINK_PROMPT = 1500; // characters; longer links are cut by mail programs and chats
const json = JSON.stringify;

/** One line per fact, whatever a file says: where a trace was made and with what. */
export function provenance(state) {
  const { environment, settings, created, prompt, earlier, cite } = state;
  const { target, head, device, dtype, threads, versions } = environment;
  return [
    `target ${target}, head ${head}`,
    [device, dtype, `${threads} threads`, ...Object.entries(versions ?? {}).map((pair) => pair.join(" "))].join(", "),
    Object.entries(settings).map(([name, value]) => `${name.replaceAll("_", " ")} ${json(value)}`).join(", "),
    ...(isLossy(state) ? ["this rule CHANGES THE TEXT'S LAW"] : []),
    `recorded ${created ?? "just now"} with EAGLE, step by step`,
    `prompt ${json(prompt)}${earlier.length ? `, after ${json(earlier)}` : ""}`,
    ...(cite ? [`cite ${cite}`] : []),
  ].map((line) => line.replace(/[^\S ]+/g, " "));
}

/** The step in view as an indented tree of plain text. */
export function stepText(state) {
  const step = stepInView(state);
  const { steps, method } = laneInView(state);
  const lines = rowsOf({ step, pieces: state.pieces, look: lookOf(step) })
    .map(({ token, depth, draft, target, accept, draw, verdict }) => `${`${"  ".repeat(depth)}${token}`.padEnd(32)} d ${draft}  t ${target}  a ${accept}  draw ${draw}  ${verdict}`);
  return [
    `${method}, step ${step.number + 1} of ${steps.length}: ${summary(step)}`,
    `draft ${milliseconds(step.draft_ms)}, verify ${milliseconds(step.verify_ms)}, commit ${milliseconds(step.commit_ms)}`,
    "", ...lines, "", ...provenance(state), "",
  ].join("\n");
}

/** A row per step of both lanes; lines of the environment before the header begin with "#". */
export function runCsv(state) {
  const row = (method) => (step) => [
    method, step.number + 1, step.tokens.length - 1, step.path.length - 1, step.text.length,
    step.startMs.toFixed(3), step.draft_ms, step.verify_ms, step.commit_ms, cell(step.text.join("")),
  ].join(",");
  const eagle = figures(state.lanes.eagle);
  const notes = [...provenance(state), `tau ${eagle.tau.toFixed(4)}, speedup ${speedup(state).toFixed(4)}`];
  return [
    ...notes.map((note) => `# ${note}`), "lane,step,drafted,accepted,committed,start_ms,draft_ms,verify_ms,commit_ms,text",
    ...METHODS.flatMap((method) => state.lanes[method].steps.map(row(method))), "",
  ].join("\r\n");
}

/** As a JSON string within a CSV cell: blanks stay visible, and no spreadsheet takes it for a formula. */
const cell = (text) => `"${json(text).replaceAll('"', '""')}"`;

/** Python that repeats the run with this project's engine; JSON's texts and numbers are Python's, too. */
export function pythonSnippet(state) {
  const { settings, prompt, earlier } = state;
  const options = Object.entries(settings).map(([name, value]) => `    ${name}=${name === "stop" ? `tuple(${json(value)})` : value === true ? "True" : json(value)},`);
  return `${provenance(state).slice(0, 2).map((line) => `# ${line}\n`).join("")}from eagle_core import RunOptions, Turn, dump_trace
from eagle_core.workbench import Workbench

bench = Workbench.load()  # or target=…, head=…, device=…, dtype=…
options = RunOptions(
${options.join("\n")}
)
earlier = [Turn(**turn) for turn in ${json(earlier)}]
recording = bench.race(${json(prompt)}, options, earlier=earlier)
for moment in recording:
    print(moment.method, repr("".join(moment.texts)))
trace = recording.trace()
print(trace.speedup, trace.lane("eagle").tau)
print(dump_trace(trace), file=open("trace.json", "w", encoding="utf-8"))
`;
}

/** A link's part after "#" to this place: the recording by name, or what it takes to run it again. */
export function linkHash({ recording, environment, settings, prompt, earlier, view }) {
  const { lane, step, node } = view;
  const isAlone = !earlier.length && prompt.length <= MAX_LINK_PROMPT; // a follow-up alone would ask something else
  const parts = { run: recording, prompt: isAlone ? prompt : null, ...settings, head: environment.head, lane, step: step + 1, node };
  const given = Object.entries(parts).filter(([, value]) => (value ?? null) !== null);
  return `#${new URLSearchParams(given.map(([name, value]) => [name, Array.isArray(value) ? json(value) : value]))}`;
}

/** Nothing of a link is trusted: places are cut to numbers here, the server checks the rest. */
export function readLink(hash) {
  const { lane, step, node, ...ask } = Object.fromEntries(new URLSearchParams(hash.slice(1, 100_000)));
  if (!Object.values(ask).some(Boolean)) return null;
  return {
    ask,
    place: {
      lane: METHODS.includes(lane) ? lane : "eagle",
      step: Math.max((Number.parseInt(step, 10) || 1) - 1, 0),
      node: node === "bonus" ? node : /^\d{1,4}$/.test(node) ? Number(node) : null,
    },
  };
}
