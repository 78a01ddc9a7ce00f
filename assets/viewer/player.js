// Replaying the race: the engine's clock, run again at a speed of one's choice.

import * as now from "./state.js";

export const SPEEDS = [1 / 8, 1 / 4, 1 / 2, 1, 2, 4];
const SMOOTHEST_MS = 100; // a tab in the background must not leap ahead

export const speedName = (speed) => (speed < 1 ? `1/${1 / speed}×` : `${speed}×`);

/** `{play, pause}`; both lanes' text appears as it was written, on one clock. */
export function createPlayer(state, { draw, phasesOf }) {
  let last = 0;
  const pause = () => { state.view.isPlaying = false; };
  const frame = (time) => {
    if (!state.view.isPlaying) return;
    // A frame's time is that of its beginning, which may lie before the key that started all.
    const passed = Math.min(Math.max(time - last, 0), SMOOTHEST_MS) * state.prefs.speed;
    last = time;
    const clockMs = (state.view.clockMs ?? 0) + passed;
    if (clockMs < now.lengthMs(state)) {
      now.showAt(state, clockMs, phasesOf);
      requestAnimationFrame(frame);
    } else {
      pause();
      now.moveTo(state, now.lastStep(state));
    }
    draw();
  };
  const play = () => {
    const isOver = state.view.clockMs === null && state.view.step >= now.lastStep(state);
    if (isOver) now.moveTo(state, 0);
    state.view.clockMs ??= now.stepInView(state)?.startMs ?? 0;
    Object.assign(state.view, { isFollowing: false, isPlaying: true });
    last = performance.now();
    requestAnimationFrame(frame);
    draw();
  };
  return { play, pause };
}
