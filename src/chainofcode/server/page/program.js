// @ts-check
// The program as lines that light up, each with who ran it and its result.

import { ACTORS, ACTOR_WORDS, badge, el, isCode, scrollTo } from "./dom.js";
import { cameOf, changesOf, howSure, leastSure, oneLine, otherwise, perCent } from "./record.js";
import { coloured } from "./syntax.js";
import { shortened } from "./values.js";

const MAX_VALUES = 12;
const MAX_SPREAD = 200;
const MAX_RESULT_CHARS = 400;

export class ProgramView {
  /** Callbacks in `on`: `line` (go there), `edit` (a value), `over` (the steps that a reader points at, or null). */
  constructor(list, on) {
    this.list = list;
    this.on = on;
    this.rows = [];
    this.attempt = null;
    this.count = 0;
    list.addEventListener("click", (event) => this.clicked(event));
    list.addEventListener("keydown", (event) => this.pressed(event));
    list.addEventListener("pointerover", (event) => event.pointerType !== "touch" && this.looked(event));
    list.addEventListener("pointerleave", () => on.over(null));
    list.addEventListener("focusin", (event) => this.looked(event));
    list.addEventListener("focusout", () => on.over(null));
  }

  show(attempt) {
    this.attempt = attempt;
    const program = attempt?.program;
    const lines = program ? coloured(program.source.replace(/\s+$/, ""), program.holes, program.hole_places, program.language) : [];
    const starts = new Set((program?.statements ?? []).map((place) => place[0]));
    this.rows = lines.map((parts, number) => this.row(parts, number + 1, starts.has(number + 1)));
    this.opened = null; // the line whose values are spread out below it
    this.list.replaceChildren(...this.rows.map((row) => row.element));
    if (this.rows.length) this.rows[0].element.tabIndex = 0;
    const forgot = program?.imports ?? [];
    if (forgot.length) this.list.prepend(el("li", { class: "note" }, `Missing imports that were added: ${forgot.join(", ")}`));
  }

  row(parts, number, isStart) {
    const source = el("code", { class: "source" });
    const indent = /^ */.exec(parts.map((part) => part[1]).join(""))[0].length;
    source.style.setProperty("--indent", `${Math.min(indent, 24)}ch`);
    for (const [kind, text] of parts) source.append(el("span", { class: kind ? `k-${kind}` : null }, text));
    const who = el("span", { class: "who" });
    const came = el("span", { class: "came" });
    const element = el("li", { class: "line", tabindex: -1, "data-line": number }, el("span", { class: "number" }, number), who, source, came);
    element.classList.toggle("bare", !isStart);
    return { element, who, came, number, isStart, drawn: "" };
  }

  /** Draw the lines after `count` steps, with these calls in flight; `failed` is the line of an error. */
  update(count, waiting, failed) {
    this.count = count;
    const current = count > 0 ? this.attempt.steps[count - 1] : null;
    const lit = new Set(current ? this.attempt.linesOf(current) : []);
    for (const row of this.rows) {
      const own = this.attempt.lastOf(row.number, count);
      const pending = waiting.filter((call) => call.line === row.number);
      const isFailed = failed === row.number;
      const drawn = `${own?.last.number} ${own?.asked.length} ${lit.has(row.number) ? current.by : ""} ${pending.map((call) => call.text)} ${isFailed}`;
      if (drawn === row.drawn) continue;
      row.drawn = drawn;
      this.draw(row, own, lit.has(row.number) ? current : null, pending, isFailed);
      if (this.opened === row.number) this.spread(row.number);
    }
  }

  /** Scroll until the current line is in view. */
  reveal() {
    const current = this.attempt?.steps[this.count - 1];
    if (current) scrollTo(this.list, this.rowOf(current.line));
  }

  /** One button for several values of a line: a press lists them below the line. */
  group(asked, line) {
    const values = asked.map((step) => cameOf(step).replace("→ ", ""));
    const isOpen = this.opened === line;
    const text = values.slice(0, MAX_VALUES).join(", ") + (values.length > MAX_VALUES ? ", …" : "");
    const least = asked.every((step) => step.confidence) ? leastSure(asked) : null;
    const sure = least === null ? "" : `${perCent(least)} sure or more`;
    return el(
      "button",
      { type: "button", class: `chip group ${asked[0].by}`, "data-values": line, "aria-expanded": String(isOpen), "aria-label": `${asked.length} values: ${shortened(text, 200)}${sure && `; ${sure}`}` },
      el("span", { class: "count" }, `${asked.length} `),
      el("span", { class: "call" }, shortened(text, 200)),
      sure ? el("span", { class: "sure" }, sure) : null,
    );
  }

  /** List the values of a line below it, each as a button; null: close the list. */
  spread(line) {
    this.list.querySelector(".values-row")?.remove();
    this.opened = line;
    for (const button of this.list.querySelectorAll("[data-values]")) button.setAttribute("aria-expanded", String(Number(button.dataset.values) === line));
    const asked = line === null ? [] : (this.attempt.lastOf(line, this.count)?.asked ?? []);
    if (asked.length < 2) return;
    const shown = asked.slice(0, MAX_SPREAD).map((step) => chip(step));
    if (asked.length > MAX_SPREAD) shown.push(el("span", { class: "faint" }, `and ${asked.length - MAX_SPREAD} more, in the list of steps`));
    this.rowOf(line).after(el("li", { class: "values-row" }, ...shown));
  }

  draw(row, own, current, pending, isFailed) {
    const by = current?.by ?? (own?.asked.length ? own.asked[0].by : own?.last.by);
    row.element.className = ["line", !row.isStart && "bare", own && `ran by-${by}`, current && `now by-${by}`, pending.length && "waiting", isFailed && "failed"].filter(Boolean).join(" ");
    if (current) row.element.setAttribute("aria-current", "step");
    else row.element.removeAttribute("aria-current");
    row.who.replaceChildren(...(own ? [badge(by)] : pending.length ? [badge("lm")] : []));
    const shown = [];
    if (own && !pending.length) {
      const last = isCode(own.last.by) ? own.last : null;
      const result = last ? changeParts(resultOf(last, own.asked.length > 0), MAX_RESULT_CHARS) : [];
      if (result.length) {
        const made = el("span", { class: "result" }, ...result);
        made.title = made.textContent;
        shown.push(made);
      }
      if (own.asked.length > 1) shown.push(this.group(own.asked, row.number));
      else shown.push(...own.asked.map((step) => chip(step)));
      if (own.times > 1 && !own.asked.length && last?.visit > 1) shown.push(el("span", { class: "faint times" }, `×${last.visit}`));
    }
    if (pending.length) shown.push(inFlight(pending));
    row.came.replaceChildren(...shown);
  }

  /** Mark the lines of these steps, and dim the rest; null: nothing is dimmed. */
  slice(steps, roots) {
    this.list.classList.toggle("slicing", steps !== null);
    const marked = new Set((steps ?? []).flatMap((step) => this.attempt.linesOf(step)));
    const own = new Set((roots ?? []).flatMap((step) => this.attempt.linesOf(step)));
    for (const row of this.rows) {
      row.element.classList.toggle("in-slice", marked.has(row.number));
      row.element.classList.toggle("slice-root", own.has(row.number));
    }
  }

  rowOf(line) {
    return this.rows[line - 1]?.element ?? null;
  }

  // --- input -----------------------------------------------------------------------------------------------------

  clicked(event) {
    const value = event.target.closest("button[data-step]");
    const group = event.target.closest("button[data-values]");
    const row = event.target.closest(".line");
    if (group) this.spread(this.opened === Number(group.dataset.values) ? null : Number(group.dataset.values));
    else if (value) this.on.edit(Number(value.dataset.step));
    else if (row) {
      this.focusable(row);
      if (!getSelection()?.toString()) this.on.line(Number(row.dataset.line));
    }
  }

  pressed(event) {
    const row = event.target.closest(".line");
    if (!row || event.altKey || event.ctrlKey || event.metaKey) return;
    const line = Number(row.dataset.line);
    const move = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (move) {
      const other = this.rowOf(line + move);
      if (other) {
        this.focusable(other);
        other.focus();
      }
      event.preventDefault();
    } else if (event.key === "Enter" && event.target === row) {
      const asked = this.attempt.lastOf(line, this.count)?.asked ?? [];
      if (asked.length > 1) {
        this.spread(line);
        this.list.querySelector(".values-row button")?.focus();
      } else if (asked.length) this.on.edit(asked[0].number);
      else this.on.line(line);
      event.preventDefault();
    }
  }

  focusable(row) {
    for (const one of this.rows) one.element.tabIndex = one.element === row ? 0 : -1;
  }

  looked(event) {
    const value = event.target.closest(".chip[data-step]");
    const row = event.target.closest(".line");
    if (value) this.on.over([Number(value.dataset.step)]);
    else if (row) {
      const own = this.attempt?.lastOf(Number(row.dataset.line), this.count);
      this.on.over(own ? [own.last, ...own.asked].map((step) => step.number) : null);
    }
  }
}

/** The value of a call, as a button. */
export function chip(step) {
  const call = shortened(oneLine(step.call ?? ""), 90);
  const came = shortened(cameOf(step), 120);
  const sure = howSure(step.confidence);
  const others = otherwise(step.confidence);
  return el(
    "button",
    { type: "button", class: `chip ${step.by}${step.error != null ? " bad" : ""}`, "data-step": step.number, "aria-label": `${ACTOR_WORDS[step.by]}: ${call} ${came}${sure && `, ${sure}`}. Change it`, title: others ? `${sure}; otherwise: ${others}` : ACTORS[step.by] },
    el("span", { class: "call" }, call),
    el("span", { class: "value" }, ` ${came}`),
    sure ? el("span", { class: "sure" }, sure) : null,
  );
}

/** One chip for all calls in flight: how many there are, and the first ones. */
function inFlight(calls) {
  const texts = calls.slice(0, MAX_VALUES).map((call) => shortened(oneLine(call.text), 80));
  const text = texts.join(", ") + (calls.length > texts.length ? ", …" : "");
  return el(
    "span",
    { class: "chip lm pending", title: text },
    calls.length > 1 ? el("span", { class: "count" }, `${calls.length} `) : null,
    el("span", { class: "call" }, text),
    el("span", { class: "dots", "aria-hidden": "true" }, " ●"),
  );
}

/** What a line changed; nothing for a line that only called functions, because their values are shown. */
function resultOf(step, hasAsked) {
  const changes = changesOf(step);
  return hasAsked && changes.length === 1 && changes[0][0] === null ? [] : changes;
}

/** Changes as elements, about `limit` characters in all. Each name and value keeps its own direction: right-to-left text does not reorder the others. */
export function changeParts(changes, limit) {
  const parts = [];
  let left = limit;
  for (const [name, text] of changes) {
    if (left <= 0) return [...parts, "…"];
    const shown = text === null ? "" : shortened(text, left);
    if (parts.length) parts.push("   ");
    if (name !== null) parts.push(el("span", { class: "apart" }, shortened(name, 80)), text === null ? " deleted" : " = ");
    if (text !== null) parts.push(el("span", { class: "apart" }, shown));
    left -= shown.length + 3;
  }
  return parts;
}
