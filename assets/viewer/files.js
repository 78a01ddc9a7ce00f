// Files in and out, all within the browser: nothing is sent anywhere.

import { h, s } from "./dom.js";
import { RecordError, readTrace } from "./record.js";
import { drawWhole } from "./tree.js";

const MAX_BYTES = 64 * 1024 * 1024;
const KEPT = "eagle-last-trace";
const STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-family", "font-size", "font-weight", "display"];

/** The checked trace of a `.json` or `.json.gz` file; throws a RecordError. */
export async function openTrace(file) {
  const isPacked = /\.gz$/i.test(file.name);
  const stream = isPacked ? file.stream().pipeThrough(new DecompressionStream("gzip")) : file.stream();
  return readTrace(await readText(stream));
}

/** At most MAX_BYTES of UTF-8: a small file may unpack to a huge one. */
async function readText(stream) {
  const reader = stream.getReader();
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let text = "";
  let numBytes = 0;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return text + decoder.decode();
      numBytes += value.byteLength;
      if (numBytes > MAX_BYTES) throw new RecordError(`a file of more than ${MAX_BYTES} bytes`);
      text += decoder.decode(value, { stream: true });
    }
  } catch (error) {
    if (error instanceof RecordError) throw error;
    throw new RecordError("a file that is neither JSON nor packed JSON; expected a saved trace");
  }
}

export function save(name, content, type) {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

export const packed = (text) => new Response(new Blob([text]).stream().pipeThrough(new CompressionStream("gzip"))).blob();

/** The whole tree as an SVG file with its looks written into it and `notes` as its description. */
export function svgText({ step, pieces, look, notes, host }) {
  const svg = drawWhole(step, { pieces, look });
  const place = h("div", { class: "ev-unseen", "aria-hidden": "true" }, svg);
  host.append(place);
  for (const element of svg.querySelectorAll("path, text, tspan, g")) inlineStyle(element);
  place.remove();
  const ground = getComputedStyle(host).getPropertyValue("--ev-card").trim() || "#fff";
  svg.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  svg.style.background = ground;
  svg.prepend(s("desc", {}, notes));
  return new XMLSerializer().serializeToString(svg);
}

function inlineStyle(element) {
  const style = getComputedStyle(element);
  for (const name of STYLES) element.setAttribute(name, style.getPropertyValue(name));
  for (const name of ["class", "tabindex", "role"]) element.removeAttribute(name);
}

/** An SVG's text as a PNG of twice its size, within what browsers can paint. */
export async function pngOf(text) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const scale = Math.min(2, 8000 / Math.max(image.width, image.height));
  const canvas = h("canvas", { width: Math.ceil(image.width * scale), height: Math.ceil(image.height * scale) });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => { canvas.toBlob(done, "image/png"); });
}

/** Keep the last finished trace for a reload of this tab, where that can be had. */
export function keep(trace, label) {
  try {
    sessionStorage.setItem(KEPT, JSON.stringify({ trace, label }));
  } catch { /* too large, or no storage in this browser */ }
}

/** `{trace, label}` of the last finished run, or null; as little trusted as any file. */
export function kept() {
  try {
    const { trace, label } = JSON.parse(sessionStorage.getItem(KEPT));
    return { trace: readTrace(JSON.stringify(trace)), label: typeof label === "string" ? label : null };
  } catch {
    return null;
  }
}
