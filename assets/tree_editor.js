// Runs inside the page's HTML component: a press on a node picks it, and the picked node keeps the
// focus when the picture is drawn anew, unless it was taken elsewhere meanwhile. `element`, `trigger`
// and `watch` are Gradio's.

let isHeld = false;
element.addEventListener("click", ({ target }) => {
  const node = target.closest("[data-node]")?.dataset.node;
  if (node === undefined) return;
  isHeld = true;
  trigger("pick", { node });
});
watch("value", () => {
  if (!isHeld) return;
  isHeld = false;
  requestAnimationFrame(() => {
    const { activeElement: focused } = document;
    if (focused === document.body || element.contains(focused)) element.querySelector("[aria-pressed=true]")?.focus();
  });
});
