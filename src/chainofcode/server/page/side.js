// @ts-check
// Next to the program: the state, the output, and the list of steps, of which only the visible ones are drawn.

import { badge, el, onceAFrame, scrollTo, setText, show } from "./dom.js";
import { changeParts } from "./program.js";
import { changesOf, partsOfStep, plural } from "./record.js";
import { readable, shortened } from "./values.js";

const MAX_NAMES = 300;
const AROUND = 6; // steps drawn above and below the visible ones

/** Variables, the changed ones marked. */
export class StateView {
  constructor(body, hint, on) {
    this.body = body;
    this.hint = hint;
    const over = (event) => {
      const at = Number(event.target.closest("tr")?.dataset.at ?? -1);
      on.over(at >= 0 ? at : null);
    };
    body.addEventListener("pointerover", over);
    body.addEventListener("focusin", over);
    body.addEventListener("pointerleave", () => on.over(null));
    body.addEventListener("focusout", () => on.over(null));
  }

  update(attempt, count) {
    const state = attempt ? attempt.stateAt(count) : new Map();
    const names = [...state];
    const ordered = [...names.filter((entry) => !isFurniture(entry[1])), ...names.filter((entry) => isFurniture(entry[1]))];
    const rows = ordered.slice(0, MAX_NAMES).map(([name, { text, at }]) => {
      const isNew = at >= 0 && at === count - 1;
      const mark = isNew ? el("span", { class: "changed-mark", title: "changed" }, "●") : null;
      return el("tr", { class: isNew ? "changed" : null, "data-at": at, tabindex: 0 }, el("th", { scope: "row" }, name, mark), el("td", {}, shortened(readable(text), 600), isNew ? el("span", { class: "unseen" }, " (changed)") : null));
    });
    if (!rows.length) rows.push(el("tr", { class: "none" }, el("td", {}, "nothing yet")));
    const focused = this.body.contains(document.activeElement) ? [...this.body.children].indexOf(document.activeElement) : -1;
    this.body.replaceChildren(...rows);
    if (focused >= 0) rows[Math.min(focused, rows.length - 1)].focus({ preventScroll: true });
    setText(this.hint, state.size > MAX_NAMES ? `first ${MAX_NAMES} of ${state.size}` : state.size ? plural(state.size, "name") : "");
  }

  /** Scroll until what changed is in view. */
  reveal() {
    scrollTo(this.body.closest(".scroll"), this.body.querySelector(".changed"));
  }
}

/** Whether a variable is a module, function or class, which readers seldom look for. */
function isFurniture(value) {
  return /^<(module|function|class|built-in)/.test(value.text);
}

export function showOutput(panel, place, attempt, count) {
  show(panel, Boolean(attempt?.printed.length));
  if (!attempt?.printed.length) return;
  setText(place, attempt.outputAt(count));
}

/** The steps; there may be thousands. */
export class StepsView {
  constructor(box, on) {
    this.box = box;
    this.on = on;
    this.space = el("div", { class: "space", role: "presentation" });
    box.replaceChildren(this.space);
    this.attempt = null;
    this.count = 0;
    this.marked = null;
    this.draw = onceAFrame(() => this.drawNow());
    box.addEventListener("scroll", this.draw, { passive: true });
    box.addEventListener("click", (event) => this.clicked(event));
    box.addEventListener("pointerover", (event) => this.looked(event));
    box.addEventListener("focusin", (event) => this.looked(event));
    box.addEventListener("pointerleave", () => on.over(null));
    box.addEventListener("focusout", () => on.over(null));
    new ResizeObserver(this.draw).observe(box);
  }

  height = 0;

  get rowHeight() {
    this.height ||= parseFloat(getComputedStyle(this.box).getPropertyValue("--row")) || 30;
    return this.height;
  }

  show(attempt) {
    this.attempt = attempt;
    this.box.scrollTop = 0;
  }

  update(count) {
    this.count = count;
    this.makeRoom();
    const top = (count - 1) * this.rowHeight;
    const { scrollTop, clientHeight } = this.box;
    if (top < scrollTop || top + this.rowHeight > scrollTop + clientHeight) this.box.scrollTop = Math.max(top - clientHeight / 2, 0);
    this.draw();
  }

  makeRoom() {
    this.space.style.height = `${(this.attempt?.steps.length ?? 0) * this.rowHeight}px`;
  }

  slice(numbers) {
    this.marked = numbers;
    this.draw();
  }

  drawNow() {
    const steps = this.attempt?.steps ?? [];
    this.makeRoom();
    const first = Math.max(Math.floor(this.box.scrollTop / this.rowHeight) - AROUND, 0);
    const last = Math.min(Math.ceil((this.box.scrollTop + this.box.clientHeight) / this.rowHeight) + AROUND, steps.length);
    const rows = [];
    for (let place = first; place < last; place++) rows.push(this.row(steps[place], place, steps.length));
    this.box.classList.toggle("slicing", this.marked !== null);
    this.space.replaceChildren(...rows);
  }

  row(step, place, size) {
    const [call, came, sure, how] = partsOfStep(step);
    const shown = shortened(came || (step.output ?? "").trim() || "·", 200);
    const value = call || !came ? [shown] : changeParts(changesOf(step), 200);
    const kinds = ["step", `by-${step.by}`, place >= this.count && "later", place === this.count - 1 && "now", this.marked?.has(step.number) && "in-slice"];
    const made = el(
      "div",
      { class: kinds.filter(Boolean).join(" "), role: "listitem", "data-place": place, "aria-setsize": size, "aria-posinset": place + 1, "aria-current": place === this.count - 1 ? "step" : null },
      el("span", { class: "number" }, step.number),
      badge(step.by),
      el("span", { class: "at", title: `line ${step.line}` }, `L${step.line}`),
      el("span", { class: "what", title: [call, shown, sure, how].filter(Boolean).join(" ") }, el("span", { class: "pair" }, call ? el("span", { class: "call" }, shortened(call, 200)) : null, el("span", { class: "value" }, ...value), sure ? el("span", { class: "sure" }, sure) : null), how ? el("span", { class: "faint" }, how) : null),
    );
    made.style.top = `${place * this.rowHeight}px`;
    if (step.call != null) made.append(el("button", { type: "button", class: "quiet edit", tabindex: -1, "data-step": step.number, "aria-label": "Change this value" }, "change"));
    return made;
  }

  clicked(event) {
    const edit = event.target.closest("button.edit");
    const row = event.target.closest(".step");
    if (edit) this.on.edit(Number(edit.dataset.step));
    else if (row) this.on.go(Number(row.dataset.place) + 1);
  }

  looked(event) {
    const row = event.target.closest(".step");
    if (row) this.on.over([this.attempt.steps[Number(row.dataset.place)].number]);
  }
}
