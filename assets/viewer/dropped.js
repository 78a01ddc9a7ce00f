// Candidates that were drafted and not kept: nodes numbered on from the step's own, with the verdict d. Pure.

const known = new WeakMap();

/** The step with them among its nodes, `kept` being the step without; the same object every time. */
export function withDropped(step) {
  if (!step.dropped) return step;
  if (!known.has(step)) known.set(step, joined(step, step.dropped));
  return known.get(step);
}

function joined(step, dropped) {
  const columns = ["tokens", "parents", "draft", "target", "accept", "draw"].map((name) => [name, [...step[name], ...(dropped[name] ?? dropped.tokens.map(() => null))]]);
  return { ...step, kept: step, ...Object.fromEntries(columns), verdicts: step.verdicts + "d".repeat(dropped.tokens.length) };
}
