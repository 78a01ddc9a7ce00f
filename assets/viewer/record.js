// A saved trace, read with the same distrust as eagle_core/trace_json.py. Pure.
//
// Whatever is wrong with a file ends in one sentence (a RecordError), never in another exception;
// both readers are tested over the same fixtures.

const LAST_VERSION = 3;
const MAX_EVENTS = 100_000;
const MAX_NODES = 4_096;
const MAX_TOP = 64;
const STOPS = ["end_token", "stop_string", "max_new_tokens", "context", "stopped"];

export class RecordError extends Error {}

const fail = (got, expected) => {
  throw new RecordError(expected ? `${got}; expected ${expected}` : got);
};

// Checks of one value ------------------------------------------------

const kind = (expected, isRight) => (value, name) => isRight(value) || fail(`${name} is ${shown(value)}`, expected);
const text = kind("text", (value) => typeof value === "string");
const whole = kind("a whole number of at least 0", (value) => Number.isInteger(value) && value >= 0 && value < 2 ** 63);
const quantity = kind("a finite number of at least 0", (value) => typeof value === "number" && value >= 0 && value < 1e15);
const finite = kind("a finite number", (value) => typeof value === "number" && Math.abs(value) < 1e15);
const probability = kind("a probability", (value) => typeof value === "number" && value >= 0 && value <= 1);
const object = kind("an object", (value) => typeof value === "object" && value !== null && !Array.isArray(value));
const list = kind("a list", Array.isArray);
const flag = kind("true or false", (value) => typeof value === "boolean");
const stop = kind(`one of ${STOPS.join(", ")}`, (value) => STOPS.includes(value));
const maybe = (check) => (value, name) => (value ?? null) === null || check(value, name);

const each = (check, length) => (values, name) => {
  list(values, name);
  if (length !== undefined && values.length !== length) fail(`${values.length} values in ${name}`, String(length));
  values.forEach((value) => check(value, name));
};

const values = (check) => (record, name) => {
  object(record, name);
  Object.values(record).forEach((value) => check(value, name));
};

const fields = (checks) => (record, name) => {
  object(record, name);
  for (const [key, check] of Object.entries(checks)) check(record[key], `${name}.${key}`);
};

/** At most sixty characters of a value, on one line. */
const shown = (value) => (value === undefined ? "missing" : JSON.stringify(value)).slice(0, 60);

// A trace ------------------------------------------------------------

const settings = { max_new_tokens: whole, temperature: quantity, top_p: probability, top_k: whole, seed: whole, tree: text, rule: text };
const sinceTwo = { min_p: probability, repetition_penalty: quantity, presence_penalty: finite, frequency_penalty: finite, stop: each(text), record_dropped: maybe(flag) };
const environment = fields({ target: text, head: text, device: text, dtype: text, threads: whole, versions: values(text) });

function pieces(record, name) {
  values(text)(record, name);
  const odd = Object.keys(record).find((key) => !/^[0-9]{1,10}$/.test(key));
  if (odd !== undefined) fail(`the piece ${shown(odd)}`, "token ids as keys");
}

function lane(record, name) {
  fields({ method: text, events: list })(record, name);
  if (record.events.length > MAX_EVENTS) fail(`a lane of ${record.events.length} events`, `at most ${MAX_EVENTS}`);
  each(event)(record.events, "event");
}

function event(record, name) {
  object(record, name);
  maybe(stop)(record.stop, "event.stop");
  if ("prefill_ms" in record) fields({ prompt_tokens: whole, token: whole, prefill_ms: quantity, text: each(text, 1) })(record, name);
  else step(record, name);
}

function step(record, name) {
  fields({ tokens: each(whole) })(record, name);
  const { length } = record.tokens;
  if (length < 1 || length > MAX_NODES) fail(`a step of ${length} nodes`, `1 to ${MAX_NODES}`);
  const column = each(maybe(probability), length);
  fields({ parents: each(maybe(whole), length), draft: column, target: column, accept: column, draw: column, verdicts: text, path: each(whole), bonus: maybe(whole), draft_ms: quantity, verify_ms: quantity, commit_ms: quantity, notice: maybe(text), laws: maybe(each(laws(length))), dropped: maybe(dropped(length)) })(record, name);
  record.bonus ??= null;
  tree(record, length);
  each(text, record.path.length - (record.bonus === null ? 1 : 0))(record.text, "event.text");
}

function tree({ parents, verdicts, path }, length) {
  parentsFirst(parents, 0);
  if ([...verdicts].length !== length) fail(`${[...verdicts].length} verdicts for ${length} nodes`);
  const odd = [...verdicts].find((letter) => !"oax-".includes(letter));
  if (odd !== undefined) fail(`verdict ${shown(odd)}`, "o a x -");
  const isPath = path[0] === 0 && path.every((node, place) => node < length && (place === 0 || parents[node] === path[place - 1]));
  if (!isPath) fail(`path [${path.slice(0, 20)}]`, "nodes from the root downwards");
}

const parentsFirst = (parents, first) => parents.forEach((parent, place) => {
  const node = first + place;
  if ((parent === null) !== (node === 0) || parent >= Math.max(node, 1)) fail(`node ${node} with parent ${parent}`, "parents first");
});

const laws = (length) => (record, name) => {
  fields({ node: whole, target: law, draft: maybe(law) })(record, name);
  if (record.node >= length) fail(`laws of node ${record.node}`, `one of ${length} nodes`);
};

const dropped = (length) => (record, name) => {
  fields({ tokens: each(whole), least_kept: maybe(probability) })(record, name);
  const size = record.tokens.length;
  if (size < 1 || length + size > MAX_NODES) fail(`${size} dropped candidates`, `1 to ${MAX_NODES - length}`);
  fields({ parents: each(whole, size), draft: each(probability, size), values: each(probability, size) })(record, name);
  parentsFirst(record.parents, length);
};

function law(columns, name) {
  list(columns, name);
  const [tokens, probs] = columns;
  each(whole)(tokens, name);
  each(probability, tokens.length)(probs, name);
  if (tokens.length > MAX_TOP) fail(`a law of ${tokens.length} tokens`, `at most ${MAX_TOP}`);
}

/** The trace in `content`, checked, of its settings those known here; throws a RecordError. */
export function readTrace(content) {
  let trace;
  try {
    trace = JSON.parse(content);
  } catch {
    fail("a file that is not JSON", "a saved trace");
  }
  fields({ version: whole })(trace, "trace");
  const { version } = trace;
  if (version < 1 || version > LAST_VERSION) fail(`a trace of version ${version}`, `version 1 to ${LAST_VERSION}`);
  const asked = version < 2 ? settings : { ...settings, ...sinceTwo };
  if (version < 3) trace.earlier = [];
  fields({ prompt: text, earlier: each(fields({ role: text, content: text })), created: text, settings: fields(asked), environment, pieces, lanes: each(lane) })(trace, "trace");
  trace.settings = Object.fromEntries(Object.entries(trace.settings).filter(([name]) => Object.hasOwn(asked, name)));
  return trace;
}
