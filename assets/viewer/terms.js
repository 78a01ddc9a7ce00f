// The project's words and what they mean, shown on hover and on focus.

import { h, setText } from "./dom.js";

export const MEANINGS = {
  root: "The last token already in the text. The tree guesses what follows it.",
  accepted: "A drafted token that the target kept in this step.",
  refused: "A drafted token that was tried and not kept.",
  "not reached": "Never tried: its parent was not kept, or a sibling before it was.",
  drafted: "Guessed by the head, not judged by the target yet.",
  dropped: "Drafted, but not among the best of all drafts by path value, so the target never saw it.",
  "bonus token": "The target's own token at the end of the accepted path; the root of the next step.",
  "draft probability": "How probable the head held this token after the tokens on its path (d in the tree).",
  "target probability": "How probable the target holds this token after the tokens on its path.",
  "acceptance probability": "The chance of being kept, given that its parent was kept and its earlier siblings were refused (a in the tree).",
  draw: "The random number the node was tried with; below its acceptance probability it is kept.",
  "tokens per target pass": "τ, the acceptance length: (tokens − 1) ÷ target passes after the prefill. Plain decoding has 1.00.",
  "target passes": "Runs of the target after the prefill; each reads a whole draft tree.",
  tokens: "Tokens written so far, the one that came with the prefill included.",
  clock: "Engine time of the decode phase. Prefill, page and network are not counted.",
  speedup: "EAGLE's tokens/s ÷ plain decoding's: same target, prompt and machine, one run.",
  draft: "Time in which the head grew the tree.",
  verify: "Time of the one target pass over the tree.",
  commit: "Time after the target pass: coins on the host, cache, and the head's refresh from true features.",
  "target law": "The target's distribution over the next token, after temperature and cut-offs.",
  "draft law": "The head's distribution over the next token.",
};

/** `label` as a word that tells its meaning; `name` is its entry above. */
export function term(name, label = name) {
  return h("button", { type: "button", class: "ev-term", "data-term": name }, label);
}

/** The one bubble of meanings within `root`. It stays while pointed at; Escape takes it away. */
export function createMeaning(root) {
  const bubble = h("p", { class: "ev-meaning", id: "ev-meaning", role: "tooltip", hidden: true });
  let owner = null;
  const hide = () => {
    owner?.removeAttribute("aria-describedby");
    owner = null;
    bubble.hidden = true;
  };
  const show = (word) => {
    if (word === owner) return;
    hide();
    owner = word;
    setText(bubble, MEANINGS[word.dataset.term] ?? "");
    word.setAttribute("aria-describedby", bubble.id);
    bubble.hidden = false;
    place(bubble, word, root);
  };
  const listen = ({ target }) => {
    if (bubble.contains(target)) return;
    const word = target.closest?.(".ev-term");
    if (word) show(word);
    else if (owner !== document.activeElement) hide(); // a word with the focus keeps its bubble
  };
  for (const name of ["pointerover", "focusin"]) root.addEventListener(name, listen);
  for (const name of ["pointerleave", "focusout"]) root.addEventListener(name, hide);
  root.addEventListener("keydown", (event) => event.key === "Escape" && hide());
  return bubble;
}

function place(bubble, word, root) {
  const [box, at] = [root.getBoundingClientRect(), word.getBoundingClientRect()];
  const room = box.width - bubble.offsetWidth;
  bubble.style.left = `${Math.max(Math.min(at.left - box.left, room), 0)}px`;
  bubble.style.top = `${at.bottom - box.top + 4}px`;
}
