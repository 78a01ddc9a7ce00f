// Runs inside the page's HTML component above the viewer: the turns before the answer, and the
// prompt that is answered. Text reaches the document as text nodes only. `element` is Gradio's.

const list = element.querySelector(".ev-turns");
const NAMES = { user: "Asked", assistant: "Answered", system: "Told before" };
let shown = null;

const turn = ({ role, content }) => {
  const item = document.createElement("li");
  const name = document.createElement("b");
  name.textContent = NAMES[role] ?? role;
  const words = document.createElement("span");
  words.textContent = content;
  words.dir = "auto";
  item.dataset.role = role;
  item.append(name, words);
  return item;
};

const draw = () => {
  const state = document.querySelector(".eagle-viewer")?.state;
  const earlier = state?.earlier;
  if (!earlier || earlier === shown || !state.prompt) return;
  shown = earlier; // a new list for every trace
  list.replaceChildren(...[...earlier, { role: "user", content: state.prompt }].map(turn));
  list.scrollTop = list.scrollHeight;
};

// The viewer redraws its own parts on every change; its text is the sign that there was one.
const follow = () => {
  const viewer = document.querySelector(".eagle-viewer .ev");
  if (!viewer) return setTimeout(follow, 200);
  new MutationObserver(draw).observe(viewer, { attributes: true, subtree: true, characterData: true, childList: true });
  draw();
};
follow();
