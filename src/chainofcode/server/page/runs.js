// The list of runs: newest first, searched, walked through by keys.

import { byId, el, setText, show } from "./dom.js";
import { shortened, unquoted } from "./values.js";

const MARKS = { queued: "◷", running: "", cancelled: "⊘", interrupted: "⊘" }; // of runs without an answer; the rest failed
const PAGE = 50;
const MAX_WORDS_CHARS = 200;
const REFRESH_MS = 4000;
const TYPING_MS = 150; // what is typed in one go is searched for once

export class Runs {
  constructor(server) {
    this.server = server;
    this.runs = [];
    this.open = null;
    byId("runs-search").addEventListener("input", () => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.search(), TYPING_MS);
    });
    byId("runs-more").addEventListener("click", () => this.older());
    byId("runs").addEventListener("keydown", (event) => this.pressed(event));
    byId("runs-toggle").addEventListener("click", () => this.toggle());
    document.addEventListener("keydown", (event) => {
      if (event.key === "/" && !event.ctrlKey && !event.metaKey && !event.target.closest("input, textarea, select")) {
        event.preventDefault();
        this.toggle(true);
        byId("runs-search").focus();
      }
    });
  }

  toggle(isOpen = !document.body.classList.contains("runs-open")) {
    document.body.classList.toggle("runs-open", isOpen);
    byId("runs-toggle").setAttribute("aria-expanded", String(isOpen));
  }

  /** The words that are searched for, in all runs that the server has. */
  get words() {
    return byId("runs-search").value.trim().slice(0, MAX_WORDS_CHARS);
  }

  path(words) {
    return `api/runs?limit=${PAGE}${words ? `&q=${encodeURIComponent(words)}` : ""}`;
  }

  async search() {
    this.runs = [];
    this.hasOlder = undefined;
    await this.refresh().catch((error) => say(error.message));
    say(this.runs.length ? `${this.runs.length}${this.hasOlder ? " or more" : ""} found` : "No runs.");
  }

  async refresh() {
    clearTimeout(this.timer);
    const { words } = this;
    const { runs } = await this.server.get(this.path(words));
    if (words !== this.words) return; // someone went on typing
    const known = new Set(runs.map((run) => run.id));
    this.hasOlder ??= runs.length === PAGE;
    this.runs = [...runs, ...this.runs.filter((run) => !known.has(run.id))];
    this.draw();
    if (runs.some((run) => run.state === "queued" || run.state === "running")) {
      this.timer = setTimeout(() => this.refresh().catch(() => {}), REFRESH_MS);
    }
  }

  /** A run that is no more. */
  forget(id) {
    this.runs = this.runs.filter((run) => run.id !== id);
    this.draw();
  }

  async older() {
    const { words } = this;
    const { runs } = await this.server.get(`${this.path(words)}&before=${encodeURIComponent(this.runs.at(-1).id)}`);
    if (words !== this.words) return;
    this.hasOlder = runs.length === PAGE;
    this.runs.push(...runs);
    this.draw();
  }

  show(id) {
    this.open = id;
    this.toggle(false);
    this.draw();
  }

  draw() {
    const shown = this.runs;
    const drawn = JSON.stringify([this.open, shown.map((run) => [run.id, run.state, run.answer])]);
    show(byId("runs-none"), !shown.length);
    show(byId("runs-more"), Boolean(this.hasOlder) && shown.length > 0);
    if (drawn === this.drawn) return;
    this.drawn = drawn;
    const focused = document.activeElement?.closest?.("#runs-list a")?.dataset.id;
    byId("runs-list").replaceChildren(...shown.map((run) => this.item(run)));
    if (focused) [...byId("runs-list").querySelectorAll("a")].find((link) => link.dataset.id === focused)?.focus();
  }

  item(run) {
    const end = run.answer != null ? unquoted(run.answer) : (run.state === "done" ? run.reason || "no answer" : run.state);
    const mark = run.answer == null && el("span", { class: run.state === "running" ? "spinner" : "mark", "aria-hidden": "true" }, MARKS[run.state] ?? "✗");
    const link = el(
      "a",
      { href: `#run=${encodeURIComponent(run.id)}`, "data-id": run.id, "aria-current": run.id === this.open ? "page" : null },
      el("span", { class: "asked" }, shortened(run.question ?? (run.parent ? "What if" : "A program"), 120)),
      el("span", { class: `end ${run.answer == null ? `none ${Object.hasOwn(MARKS, run.state) ? run.state : "failed"}` : ""}` }, mark || null, shortened(end, 60)),
      el("span", { class: "faint when" }, [run.parent ? "what if" : run.method, when(run.created)].filter(Boolean).join(" · ")),
    );
    return el("li", {}, link);
  }

  pressed(event) {
    const links = [...byId("runs-list").querySelectorAll("a")];
    const place = links.indexOf(document.activeElement);
    const to = { ArrowDown: place + 1, ArrowUp: place - 1, Home: 0, End: links.length - 1 }[event.key];
    if (event.key === "Escape") this.toggle(false);
    if (to === undefined || (event.target === byId("runs-search") && event.key !== "ArrowDown")) return;
    event.preventDefault();
    if (to < 0) byId("runs-search").focus();
    else links[Math.min(to, links.length - 1)]?.focus();
  }
}

/** When a run began: a moment as text or as seconds. */
function when(created) {
  if (created === null || created === undefined) return "";
  const date = new Date(typeof created === "string" ? created : Number(created) * 1000);
  if (Number.isNaN(date.getTime())) return "";
  const isToday = date.toDateString() === new Date().toDateString();
  return isToday ? date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }) : date.toLocaleDateString();
}

export function say(text) {
  setText(byId("live"), text);
}
