// @ts-check
// Elements made of text: nothing from a run is ever read as markup.

import { visible } from "./values.js";

export const ACTORS = { python: "py", javascript: "js", sql: "sq", lm: "lm", tool: "tl" };
export const ACTOR_WORDS = { python: "Python", javascript: "JavaScript", sql: "SQL", lm: "the model", tool: "a tool" };

/** Whether a step is code of the program, in any language, and not a call that a model or a tool answered. */
export function isCode(by) {
  return by !== "lm" && by !== "tool";
}

/**
 * An element of the page, with the members of controls, forms, dialogs and details.
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

/** Make an element with attributes and children: elements, or text, which stays text. */
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

/** A function that runs at most once per frame. */
export function onceAFrame(run) {
  let asked = 0;
  return () => {
    asked ||= requestAnimationFrame(() => {
      asked = 0;
      run();
    });
  };
}

/** Read, write or (with null) remove an item in the browser’s storage, which a page from a file may not be allowed to use.
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

/** The button that switches between light and dark; at first the page follows the system. */
export function startTheme(button) {
  const set = (theme) => {
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
    button.setAttribute("aria-label", `Light or dark: ${theme ?? "same as the system"}`);
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
