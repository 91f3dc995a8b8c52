// @ts-check
// Elements, made of text: nothing that comes from a run is ever read as markup.

import { visible } from "./values.js";

export const ACTORS = { python: "py", javascript: "js", sql: "sq", lm: "lm", tool: "tl" };
export const ACTOR_WORDS = { python: "Python", javascript: "JavaScript", sql: "SQL", lm: "the model", tool: "a tool" };

/** Whether a step is the program's own, in whichever language, and no value that was asked for. */
export function isCode(by) {
  return by !== "lm" && by !== "tool";
}

/**
 * An element of the page, with what its kind may have: a control, a form, a dialog, or a list that can be opened.
 * @typedef {HTMLElement & {
 *   value: string, max: string, disabled: boolean, open: boolean, files: FileList,
 *   requestSubmit(): void, showModal(): void, close(): void,
 * }} Part
 */

/** @returns {Part} */
export function byId(id) {
  return /** @type {Part} */ (document.getElementById(id));
}

/** The element of the page that an event is about.
 * @returns {Part} */
export function targetOf(event) {
  return event.target;
}

/** An element with attributes of ours and children: elements, or text, which stays text. */
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : visible(value));
  }
  for (const child of children) {
    if (child !== null && child !== undefined) made.append(child instanceof Node ? child : visible(child));
  }
  return made;
}

export function setText(element, text) {
  const shown = visible(text);
  if (element.textContent !== shown) element.textContent = shown;
}

export function show(element, isShown) {
  if (element.hidden === isShown) element.hidden = !isShown;
}

/** Scroll a pane, and nothing around it, until one of its parts is in view. */
export function scrollTo(pane, part) {
  if (!part) return;
  const inside = part.getBoundingClientRect();
  const view = pane.getBoundingClientRect();
  const room = pane.clientHeight - inside.height;
  if (inside.top < view.top || inside.bottom > view.top + pane.clientHeight) pane.scrollTop += inside.top - view.top - Math.max(room / 2, 0);
}

export function badge(by) {
  return el("b", { class: `badge ${isCode(by) ? "python" : by}`, title: ACTOR_WORDS[by] }, ACTORS[by] ?? "");
}

/** A function that runs once a frame, however often it is called. */
export function onceAFrame(run) {
  let asked = 0;
  return () => {
    asked ||= requestAnimationFrame(() => {
      asked = 0;
      run();
    });
  };
}

/** Something kept in this browser; a page from a file may not be allowed to.
 * @param {"localStorage" | "sessionStorage"} store
 * @param {string} name
 * @param {string | null} [value] */
export function kept(store, name, value) {
  try {
    const place = window[store];
    if (value === null) place.removeItem(name);
    else if (value !== undefined) place.setItem(name, value);
    return place.getItem(name);
  } catch {
    return null;
  }
}

/** Light, dark, or as the system has it, by turns. */
export function startTheme(button) {
  const set = (theme) => {
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
    button.setAttribute("aria-label", `Light or dark: ${theme ?? "as the system"}`);
  };
  set(kept("localStorage", "coc-theme"));
  button.addEventListener("click", () => {
    const isDark = document.documentElement.dataset.theme
      ? document.documentElement.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    const theme = isDark ? "light" : "dark";
    kept("localStorage", "coc-theme", theme);
    set(theme);
  });
}
