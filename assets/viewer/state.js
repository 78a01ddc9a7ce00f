// What the viewer knows: one trace that grows message by message, and the place looked at. Pure.

export const VERSION = 1;
export const METHODS = ["plain", "eagle"];

export function initialState() {
  return {
    phase: "empty", // empty | waiting | running | finished | stopped
    run: null,
    seq: -1,
    hasGap: false, // a message was lost; the end message heals it
    status: { text: "", tone: "info", fraction: null },
    label: null, // of a recorded run
    recording: null, // the server's name for it
    isSettled: false, // something else than the page's first recording is shown
    awaited: null, // {lane, step, node} that a link asks for, until there is a trace to show it in
    prompt: "",
    earlier: [], // turns before the prompt
    settings: null,
    environment: null,
    created: null,
    pieces: {},
    lanes: { plain: emptyLane("plain"), eagle: emptyLane("eagle") },
    trace: null, // the whole record as the server or a file gave it; none while a run is under way
    isMoved: false, // by the visitor, since the last drawing
    prefs: { isHiding: false, isTable: false, showsDropped: false, speed: 1 }, // outlive a run, unlike the view
    hover: null, // {lane, step, node} under the pointer; node null is the whole step
    view: {
      lane: "eagle", step: 0, node: null,
      phase: null, // index into the step's phases; null is all of it
      clockMs: null, // while a replay is under way: what comes later is not written yet
      isFollowing: true, isPlaying: false,
    },
  };
}

/** One method's answer. Step numbers count decode steps from 0; the prefill is no step. */
export function emptyLane(method) {
  return { method, prefill: null, steps: [], tokens: [], decodeMs: 0, stop: null };
}

/** Take in one message of the server (see app/views/messages.py). Changes and returns `state`. */
export function apply(state, message) {
  if (message.v !== VERSION) return say(state, { text: "This page is out of date: reload it.", tone: "error" });
  if (message.kind === "events" && message.run !== state.run) return state;
  const takers = { start, status, trace: showTrace, error: fail, events: takeEvents, end };
  return takers[message.kind]?.(state, message) ?? state;
}

function say(state, { text, tone = "info", fraction = null }) {
  state.status = { text, tone, fraction };
  return state;
}

function status(state, message) {
  if (message.phase === "waiting" && state.phase !== "running") state.phase = "waiting";
  if (message.phase === "idle" && state.phase === "waiting") state.phase = restingPhase(state);
  // What the model does is news only while no run is being told.
  if (message.about === "model" && isBusy(state)) return state;
  return say(state, message);
}

function start(state, message) {
  clear(state, message);
  Object.assign(state, { phase: "running", run: message.run, seq: message.seq, label: null, recording: null, isSettled: true });
  state.view = initialState().view;
  return say(state, { text: "Running", tone: "busy" });
}

function clear(state, facts) {
  const { prompt, earlier = [], settings, environment, created = null, cite = null } = facts;
  Object.assign(state, { prompt, earlier, settings, environment, created, cite });
  state.hasGap = false;
  state.pieces = {};
  state.trace = null;
  state.hover = null;
  for (const method of METHODS) state.lanes[method] = emptyLane(method);
}

function takeEvents(state, message) {
  if (message.seq !== state.seq + 1) state.hasGap = true;
  state.seq = message.seq;
  if (state.hasGap) return state;
  Object.assign(state.pieces, message.pieces);
  for (const event of message.events) append(state.lanes[event.lane], event);
  if (state.view.isFollowing) goTo(state, lastStep(state));
  return state;
}

function end(state, message) {
  const { view } = state;
  const isSameRun = message.run === state.run;
  fillFrom(state, message.trace);
  state.run = message.run;
  state.phase = message.stopped ? "stopped" : "finished";
  if (isSameRun && !view.isFollowing) state.view = { ...view, step: clampStep(state, view.step) };
  else goTo(state, lastStep(state));
  goToAwaited(state);
  return say(state, { text: message.text, tone: message.stopped ? "info" : "done" });
}

function fail(state, message) {
  state.phase = restingPhase(state);
  return say(state, { text: message.text, tone: "error" });
}

const isBusy = ({ phase }) => phase === "running" || phase === "waiting";

export const hasAnswer = ({ lanes }) => METHODS.some((method) => lanes[method].prefill);

const restingPhase = (state) => (!hasAnswer(state) ? "empty" : state.phase === "running" ? "stopped" : "finished");

function showTrace(state, message) {
  if (isBusy(state)) return state;
  if (!(message.opening && state.isSettled)) show(state, message);
  return say(state, message);
}

function show(state, { trace, run, label, opening, recording }) {
  fillFrom(state, trace);
  Object.assign(state, { phase: "finished", run, seq: -1, label, recording: recording ?? null, isSettled: !opening });
  state.view = { ...initialState().view, isFollowing: false, step: tellingStep(state.lanes.eagle) };
  if (!opening) goToAwaited(state);
}

function goToAwaited(state) {
  if (!state.awaited) return;
  const { lane, step, node } = state.awaited;
  state.awaited = null;
  lookAt(state, lane, step);
  const { tokens, bonus } = stepInView(state) ?? { tokens: [], bonus: null };
  if (node === "bonus" ? bonus !== null : node < tokens.length) state.view.node = node;
}

function fillFrom(state, trace) {
  clear(state, trace);
  state.pieces = trace.pieces;
  state.trace = trace;
  for (const { method, events } of trace.lanes) {
    if (!METHODS.includes(method)) continue;
    for (const event of events) append(state.lanes[method], event);
  }
}

/** Add one event to a lane, with what follows from its place: clock, first token, origins. */
export function append(lane, event) {
  lane.stop = event.stop;
  if ("prefill_ms" in event) {
    lane.prefill = event;
    lane.tokens.push({ id: event.token, text: event.text[0], origin: "prefill", step: null, node: null });
    return;
  }
  const ms = event.draft_ms + event.verify_ms + event.commit_ms;
  const number = lane.steps.length;
  lane.steps.push({ ...event, number, ms, startMs: lane.decodeMs, firstToken: lane.tokens.length });
  lane.decodeMs += ms;
  committed(event).forEach((id, place) => {
    const isDraft = place < event.path.length - 1;
    const origin = isDraft ? "accepted" : lane.method === "plain" ? "plain" : "bonus";
    const node = isDraft ? event.path[place + 1] : "bonus";
    lane.tokens.push({ id, text: event.text[place] ?? "", origin, step: number, node });
  });
}

/** Token ids a step added to the text: accepted, then the bonus token. */
export function committed(step) {
  const accepted = step.path.slice(1).map((node) => step.tokens[node]);
  return step.bonus === null ? accepted : [...accepted, step.bonus];
}

/** The figures of a lane; the decode phase only, as everywhere in this project. */
export function figures(lane) {
  const numDecoded = Math.max(lane.tokens.length - 1, 0);
  const numPasses = lane.steps.length;
  return {
    numTokens: lane.tokens.length,
    numPasses,
    tau: numPasses ? numDecoded / numPasses : 0,
    tokensPerS: lane.decodeMs ? (1000 * numDecoded) / lane.decodeMs : 0,
    decodeMs: lane.decodeMs,
  };
}

/** The longer decode time. */
export const lengthMs = ({ lanes }) => Math.max(...METHODS.map((method) => lanes[method].decodeMs));

/** Whether the rule may change the text's law; such rules say so in their names. */
export const isLossy = ({ settings }) => /^lossy/.test(settings?.rule);

export function speedup(state) {
  const plain = figures(state.lanes.plain).tokensPerS;
  return plain ? figures(state.lanes.eagle).tokensPerS / plain : 0;
}

/**
 * Compare both texts token by token: `{position, isSame}`. `position` counts the equal tokens;
 * isSame is null while neither a difference nor the end of both lanes has been seen.
 */
export function comparison(state) {
  const [one, other] = METHODS.map((method) => state.lanes[method].tokens);
  const shared = Math.min(one.length, other.length);
  let position = 0;
  while (position < shared && one[position].id === other[position].id) position++;
  if (position < shared) return { position, isSame: false };
  const isOver = METHODS.every((method) => hasEnded(state.lanes[method]));
  return { position, isSame: isOver ? one.length === other.length : null };
}

const hasEnded = (lane) => lane.stop !== null && lane.stop !== "stopped";

// The place looked at -------------------------------------------------------------------------

export const laneInView = (state) => state.lanes[state.view.lane];

export const stepInView = (state) => laneInView(state).steps[state.view.step] ?? null;

export const lastStep = (state) => Math.max(laneInView(state).steps.length - 1, 0);

const clampStep = (state, step) => Math.min(Math.max(step, 0), lastStep(state));

/** Look at a step of the lane in view; the selected node belongs to its step and is dropped. */
export function goTo(state, step) {
  const place = clampStep(state, step);
  if (place !== state.view.step) Object.assign(state.view, { node: null, phase: null });
  state.view.step = place;
}

/** A visitor's move: as `goTo`, and the newest step is followed only from the last one on. */
export function moveTo(state, step) {
  goTo(state, step);
  state.view.clockMs = null;
  state.view.isFollowing = state.phase === "running" && state.view.step === lastStep(state);
}

export function lookAt(state, method, step) {
  if (method !== state.view.lane) Object.assign(state.view, { node: null, phase: null });
  state.view.lane = method;
  moveTo(state, step);
}

/** The first step that shows most: many drafts kept, and some refused. */
function tellingStep(lane) {
  const worth = (step) => step.path.length + (step.verdicts.includes("x") ? 1 : 0);
  const best = lane.steps.reduce((top, step) => (worth(step) > worth(top) ? step : top), lane.steps[0]);
  return best?.number ?? 0;
}

/** The node the inspector explains when none was picked: the deepest kept, else the first tried. */
export function nodeInView(state, { look, phases } = {}) {
  const step = stepInView(state);
  if (!step) return null;
  const { node } = state.view;
  if (node === "bonus" || (node !== null && node < look.kinds.length - 1)) return node; // others are out of sight
  const phase = phases?.[state.view.phase];
  if (phase?.kind === "coin") return phase.node;
  if (look?.kinds.includes("drafted")) return 1; // anything else would give the answer away
  if (step.path.length > 1) return step.path.at(-1);
  return step.tokens.length > 1 ? 1 : "bonus";
}

/** The step under way at a time of the lane's clock; none after its end. */
export const stepAt = (steps, clockMs) => steps.find(({ startMs, ms }) => clockMs < startMs + ms);

/** Time of the replay: look at the step under way then, in the phase that its clock has reached. */
export function showAt(state, clockMs, phasesOf) {
  const step = stepAt(laneInView(state).steps, clockMs);
  goTo(state, step?.number ?? lastStep(state));
  state.view.clockMs = clockMs;
  state.view.phase = step ? phaseAt(step, clockMs - step.startMs, phasesOf(step)) : null;
}

/** Levels share the draft's time, coins and commit that of the commit. Null where nothing was drafted. */
function phaseAt(step, ms, phases) {
  if (!phases.length) return null;
  const pass = phases.findIndex(({ kind }) => kind === "target");
  const part = (share, count) => Math.min(Math.floor(share * count), count - 1);
  if (ms < step.draft_ms) return part(ms / step.draft_ms, pass);
  if (ms < step.draft_ms + step.verify_ms) return pass;
  const late = (ms - step.draft_ms - step.verify_ms) / step.commit_ms;
  return pass + 1 + part(late, phases.length - pass - 1);
}

/** The first step of a lane whose text is held back, by the replay's clock or by hidden verdicts. */
export function veiledFrom(state, method) {
  const { steps, tokens } = state.lanes[method];
  const { clockMs, lane } = state.view;
  if (clockMs !== null) return stepAt(steps, clockMs)?.number ?? Infinity;
  const step = stepInView(state);
  if (!state.prefs.isHiding || state.view.phase !== null || !step || lane !== "eagle") return Infinity;
  return method === lane ? step.number : tokens[step.firstToken]?.step ?? Infinity;
}
