// A tiny trace: root ─ 1 ─ 3 accepted, node 2 never reached.

export const prefill = (lane) => ({ lane, prompt_tokens: 9, token: 5, text: ["The"], prefill_ms: 100, stop: null });

export const eagleStep = () => ({
  lane: "eagle",
  tokens: [5, 7, 8, 9], parents: [null, 0, 0, 1], verdicts: "oa-a",
  draft: [null, 0.6, 0.3, 0.5], target: [null, 0.7, 0.2, 0.9], accept: [null, 1, 0, 1], draw: [null, null, null, null],
  path: [0, 1, 3], bonus: 11, text: [" a", " b", " c"],
  draft_ms: 8, verify_ms: 50, commit_ms: 2, stop: null, notice: null,
});

export const plainStep = (token) => ({
  lane: "plain",
  tokens: [5], parents: [null], verdicts: "o", draft: [null], target: [null], accept: [null], draw: [null],
  path: [0], bonus: token, text: [" x"], draft_ms: 0, verify_ms: 39, commit_ms: 1, stop: null, notice: null,
});

export function trace(steps = [eagleStep()]) {
  const last = (events) => [...events.slice(0, -1), { ...events.at(-1), stop: "max_new_tokens" }];
  return {
    version: 1, created: "2026-01-01T00:00:00+00:00", prompt: "Hi",
    settings: { temperature: 0, tree: "tree:8", rule: "greedy", seed: 0 },
    environment: { target: "t", head: "h", device: "cpu", dtype: "float32", threads: 2, versions: {} },
    pieces: { 5: "The", 7: " a", 8: " z", 9: " b", 11: " c" },
    lanes: [
      { method: "plain", events: last([prefill("plain"), plainStep(7), plainStep(9), plainStep(11)]) },
      { method: "eagle", events: last([prefill("eagle"), ...steps]) },
    ],
  };
}
