// How tokens and numbers are written. Pure.

const GLYPHS = { " ": "␣", "\n": "⏎", "\r": "␍", "\t": "⇥", "\u00a0": "⍽", "\u200b": "∅" };
// Characters that would reorder or hide their neighbours are named instead of shown.
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u200c-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/;
const WIDE = /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60]|[\u{1f300}-\u{1faff}]/u;

/** A token with its spaces, newlines and control characters made visible. */
export const visible = (text) => [...text].map(seen).join("");

const seen = (character) => GLYPHS[character] ?? (UNSEEN.test(character) ? `\\u${character.codePointAt(0).toString(16).padStart(4, "0")}` : character);

/** At most `columns` fixed-width columns of `text`; what is cut off becomes an ellipsis. */
export function clip(text, columns) {
  let width = 0;
  const characters = [...text].map((character) => ({ character, end: (width += WIDE.test(character) ? 2 : 1) }));
  if (width <= columns) return text;
  return `${characters.filter(({ end }) => end < columns).map(({ character }) => character).join("")}…`;
}

/** The shown text of a token id: its piece, or its number where the piece is empty or unknown. */
export function pieceOf(pieces, token) {
  const piece = pieces[token];
  return piece === undefined || piece === "" ? `#${token}` : visible(piece);
}

/** A probability with two digits; never a rounded 0 or 1 that is not one. */
export function probability(value) {
  if (value === null || value === undefined) return "–";
  if (value > 0 && value < 0.005) return "<.01";
  if (value < 1 && value >= 0.995) return ">.99";
  return value.toFixed(2);
}

/** Three significant digits: enough to follow a division by hand. */
export const figure = (value) => (value !== 0 && value < 0.001 ? value.toExponential(1) : String(Number(value.toPrecision(3))));

export function milliseconds(ms) {
  if (ms >= 10_000) return `${(ms / 1000).toFixed(1)} s`;
  return `${ms < 9.95 ? ms.toFixed(1) : Math.round(ms)} ms`;
}

export const seconds = (ms) => `${(ms / 1000).toFixed(2)} s`;

const fixed = (digits) => (value) => (value ? value.toFixed(digits) : "–");
export const [rate, ratio] = [fixed(1), fixed(2)];

export const ordinal = (n) => {
  const tail = n % 100 > 10 && n % 100 < 14 ? "th" : ["th", "st", "nd", "rd"][n % 10] ?? "th";
  return `${n}${tail}`;
};

/** `tree:25` in words. */
export const treeName = (tree) => (tree.startsWith("ranks:") ? `tree by hand of ${tree.split(".").length}` : tree.replace(":", " of "));

export const count = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;
