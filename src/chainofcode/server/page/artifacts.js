// @ts-check
// Files that a program wrote: figures are shown, other files can be saved. Their names and contents are untrusted.

import { byId, el } from "./dom.js";

/** @type {[string, number[]][]} */
const MAGIC = [
  ["image/png", [0x89, 0x50, 0x4e, 0x47]],
  ["image/jpeg", [0xff, 0xd8, 0xff]],
  ["image/gif", [0x47, 0x49, 0x46, 0x38]],
  ["image/webp", [0x52, 0x49, 0x46, 0x46]],
];
const MAX_SHOWN_BYTES = 8_000_000;
const MAX_FIGURES = 12;

/** `bytesOf(artifact)` fetches; without it (in a file) only those in `inlined` (sha256 → data URL) are shown. */
export async function showArtifacts(artifacts, unsent, { bytesOf = null, inlined = {} } = {}) {
  for (const image of byId("figures").querySelectorAll("img")) URL.revokeObjectURL(image.src);
  byId("figures").replaceChildren();
  byId("left").replaceChildren(...artifacts.map((file) => entry(file, bytesOf)), ...unsent.map((why) => el("li", { class: "chip faint" }, why)));
  for (const file of artifacts.filter(looksLikeFigure).slice(0, MAX_FIGURES)) {
    const source = await sourceOf(file, bytesOf, inlined);
    if (!source) continue;
    const caption = `${file.name}`;
    byId("figures").append(el("figure", {}, el("img", { src: source, alt: `Figure ${caption}`, decoding: "async" }), el("figcaption", {}, caption)));
  }
}

function looksLikeFigure(file) {
  return /\.(png|jpe?g|gif|webp)$/i.test(file.name) && Number(file.bytes) <= MAX_SHOWN_BYTES;
}

async function sourceOf(file, bytesOf, inlined) {
  const own = Object.hasOwn(inlined, file.sha256) ? inlined[file.sha256] : null;
  if (own) return /^data:image\/(png|jpeg|gif|webp);base64,/.test(own) ? own : null;
  if (!bytesOf) return null;
  try {
    const bytes = await bytesOf(file);
    const kind = MAGIC.find(([, start]) => start.every((byte, place) => bytes[place] === byte))?.[0];
    return kind ? URL.createObjectURL(new Blob([bytes], { type: kind })) : null;
  } catch {
    return null; // its entry below remains
  }
}

function entry(file, bytesOf) {
  const size = `${Number(file.bytes).toLocaleString("en")} bytes`;
  if (!bytesOf) return el("li", { class: "chip" }, file.name, el("span", { class: "faint" }, ` ${size}`));
  const button = el("button", { type: "button", class: "link" }, file.name);
  button.addEventListener("click", async () => saveFile(await bytesOf(file), file.name));
  return el("li", { class: "chip" }, button, el("span", { class: "faint" }, ` ${size}`));
}

/** Save bytes as a file, with a type that the browser does not open. */
export function saveFile(bytes, name) {
  const url = URL.createObjectURL(new Blob([bytes], { type: "application/octet-stream" }));
  const link = el("a", { href: url });
  link.download = name.split("/").pop();
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}
