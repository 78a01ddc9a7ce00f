() => {
  // Gradio's folded panels do not say whether they are open: this says it, for screen readers.
  for (const label of document.querySelectorAll("button.label-wrap")) {
    const say = () => label.setAttribute("aria-expanded", String(label.matches(".open")));
    new MutationObserver(say).observe(label, { attributeFilter: ["class"] });
    say();
  }
}
