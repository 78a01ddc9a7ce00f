// Small helpers to build the page. Text reaches the document as text nodes only, so that whatever
// a model writes is shown and never run.

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element; `on…` properties become listeners, children may be strings. */
export function h(tag, properties = {}, ...children) {
  return fill(document.createElement(tag), properties, children);
}

/** An SVG element, made like `h`. */
export function s(tag, properties = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

export function button(label, onclick, properties) {
  return h("button", { type: "button", class: "ev-button", onclick, ...properties }, label);
}

/** A button whose label is a mere sign: `spoken` is its name and its hint. */
export const signButton = (sign, spoken, onclick) => button(sign, onclick, { title: spoken, "aria-label": spoken });

/** A click on `element` picks what `placeOf(event)` finds there, and the pointer hovers over it; null is nothing. */
export function pointing(element, placeOf, { pick, hover }) {
  element.addEventListener("click", (event) => placeOf(event) !== null && pick(placeOf(event)));
  element.addEventListener("pointermove", (event) => hover(placeOf(event)));
  element.addEventListener("pointerleave", () => hover(null));
}

/** The node whose element an event came from: its number, "bonus", or null. */
export function nodeAt({ target }) {
  const name = target.closest("[data-node]")?.dataset.node ?? null;
  return name === null || name === "bonus" ? name : Number(name);
}

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else setAttribute(element, name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

/** An SVG path for each name: `{elements, draw(shapes)}`; without a shape nothing is to be seen of it. */
export function paths(names, classOf) {
  const elements = names.map((name) => s("path", { class: classOf(name) }));
  const draw = (shapes) => elements.forEach((path, index) => setAttribute(path, "d", shapes[names[index]] || "M0 0"));
  return { elements, draw };
}

/** The shape of a rectangle. */
export function box(...sides) {
  const [x, y, width, height] = sides.map((side) => side.toFixed(2));
  return `M${x} ${y}h${width}v${height}h-${width}z`;
}

/** Set an element's text, touching the document only where it differs. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Set or remove an attribute, touching the document only where it differs. */
export function setAttribute(element, name, value) {
  const text = written(name, value);
  if (text === null) element.removeAttribute(name);
  else if (element.getAttribute(name) !== text) element.setAttribute(name, text);
}

/** Yes and no are words in ARIA attributes; in others the attribute is there or not. */
function written(name, value) {
  if (value === null || value === undefined) return null;
  if (typeof value !== "boolean" || name.startsWith("aria-")) return String(value);
  return value ? "" : null;
}
