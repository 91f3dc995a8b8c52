// @ts-check
// The list of runs: newest first, with search, filters and keys.

import { byId, el, setText, show, targetOf } from "./dom.js";
import { shortened, unquoted } from "./values.js";

const MARKS = { queued: "◷", waiting: "?", running: "", cancelled: "⊘", interrupted: "⊘" }; // of runs without an answer; the rest failed
const FILTERS = ["state", "method", "model"];
const ASKED_CHARS = 120;
const PAGE = 50;
const MAX_WORDS_CHARS = 200;
const REFRESH_MS = 4000;
const TYPING_MS = 150; // a pause in typing, after which the search starts

export class Runs {
  constructor(server) {
    this.server = server;
    this.runs = [];
    this.open = null;
    byId("runs-search").addEventListener("input", () => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.search(), TYPING_MS);
    });
    for (const name of [...FILTERS, "day"]) byId(`filter-${name}`).addEventListener("change", () => this.search());
    byId("runs-more").addEventListener("click", () => this.older());
    byId("runs").addEventListener("keydown", (event) => this.pressed(event));
    byId("runs-toggle").addEventListener("click", () => this.toggle());
    document.addEventListener("keydown", (event) => {
      if (event.key === "/" && !event.ctrlKey && !event.metaKey && !targetOf(event).closest("input, textarea, select")) {
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

  /** The models and methods to filter by. */
  offer({ methods = {}, labels = {}, models = [] }) {
    this.labels = labels;
    const option = ([value, text]) => el("option", { value }, text);
    const what = [["replay", "What if"], ["run", "Own program"]];
    byId("filter-method").replaceChildren(...[["", "any"], ...Object.keys(methods).map((name) => [name, labels[name] ?? name]), ...what].map(option));
    byId("filter-model").replaceChildren(...[["", "any"], ...models.map((name) => [name, name])].map(option));
  }

  /** The search as a query string: words, filters, a day in the reader’s time zone. */
  get query() {
    const query = new URLSearchParams();
    if (this.words) query.set("q", this.words);
    for (const name of FILTERS) if (byId(`filter-${name}`).value) query.set(name, byId(`filter-${name}`).value);
    const day = byId("filter-day").value;
    if (day) {
      const start = new Date(`${day}T00:00`);
      const end = new Date(start);
      end.setDate(end.getDate() + 1);
      query.set("since", String(start.getTime() / 1000));
      query.set("until", String(end.getTime() / 1000));
    }
    return query.toString();
  }

  path(query) {
    return `api/runs?limit=${PAGE}${query && `&${query}`}`;
  }

  async search() {
    this.runs = [];
    this.hasOlder = undefined;
    const count = [...FILTERS, "day"].filter((name) => byId(`filter-${name}`).value).length;
    setText(byId("filters-text"), count ? `${count} set` : "");
    await this.refresh().catch((error) => say(error.message));
    say(this.runs.length ? `${this.runs.length}${this.hasOlder ? " or more" : ""} found` : "No runs.");
  }

  async refresh() {
    clearTimeout(this.timer);
    const { query } = this;
    const { runs } = await this.server.get(this.path(query));
    if (query !== this.query) return; // the reader went on typing
    const known = new Set(runs.map((run) => run.id));
    this.hasOlder ??= runs.length === PAGE;
    this.runs = [...runs, ...this.runs.filter((run) => !known.has(run.id))];
    this.draw();
    if (runs.some((run) => run.state === "queued" || run.state === "running")) {
      this.timer = setTimeout(() => this.refresh().catch(() => {}), REFRESH_MS);
    }
  }

  /** Remove a run that was deleted from the list. */
  forget(id) {
    this.runs = this.runs.filter((run) => run.id !== id);
    this.draw();
  }

  async older() {
    const { query } = this;
    const { runs } = await this.server.get(`${this.path(query)}&before=${encodeURIComponent(this.runs.at(-1).id)}`);
    if (query !== this.query) return;
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
    const drawn = JSON.stringify([this.open, this.words, shown.map((run) => [run.id, run.state, run.answer])]);
    show(byId("runs-none"), !shown.length);
    show(byId("runs-more"), Boolean(this.hasOlder) && shown.length > 0);
    if (drawn === this.drawn) return;
    this.drawn = drawn;
    const focused = document.activeElement?.closest?.("#runs-list a")?.getAttribute("data-id");
    byId("runs-list").replaceChildren(...shown.map((run) => this.item(run)));
    if (focused) [...byId("runs-list").querySelectorAll("a")].find((link) => link.dataset.id === focused)?.focus();
  }

  item(run) {
    const end = run.answer != null ? unquoted(run.answer) : (run.state === "done" ? run.reason || "no answer" : run.state);
    const mark = run.answer == null && el("span", { class: run.state === "running" ? "spinner" : "mark", "aria-hidden": "true" }, MARKS[run.state] ?? "✗");
    const link = el(
      "a",
      { href: `#run=${encodeURIComponent(run.id)}`, "data-id": run.id, "aria-current": run.id === this.open ? "page" : null },
      el("span", { class: "asked", dir: "auto" }, ...this.highlighted(run.question ?? (run.parent ? "What if" : "A program"), ASKED_CHARS)),
      el("span", { class: `end ${run.answer == null ? `none ${Object.hasOwn(MARKS, run.state) ? run.state : "failed"}` : ""}` }, mark || null, el("span", { dir: "auto" }, ...this.highlighted(end, 60))),
      el("span", { class: "faint when" }, ...this.factsOf(run).flatMap((fact, place) => [place ? " · " : "", el("span", { class: "fact" }, ...this.highlighted(fact, 80))])),
    );
    return el("li", {}, link);
  }

  factsOf(run) {
    const method = run.parent ? "what if" : run.method === "run" ? "own program" : (this.labels?.[run.method] ?? run.method);
    const seconds = run.seconds != null && `${Number(run.seconds) < 10 ? Number(run.seconds).toFixed(1) : Math.round(Number(run.seconds))} s`;
    return [method, seconds, costOf(run), when(run.created)].filter(Boolean);
  }

  /** Text, or the part of it around the first match, with the words that were searched for marked. */
  highlighted(text, limit) {
    const words = this.words.toLowerCase().split(/\s+/).filter(Boolean);
    const places = words.map((word) => text.toLowerCase().indexOf(word)).filter((place) => place >= 0);
    const first = places.length ? Math.min(...places) : 0;
    const start = first > limit - 20 ? first - 20 : 0;
    const shown = (start ? "…" : "") + shortened(text.slice(start), limit);
    if (!places.length) return [shown];
    const pattern = new RegExp(`(${words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|")})`, "gi");
    return shown.split(pattern).map((part, place) => (place % 2 ? el("mark", {}, part) : part));
  }

  pressed(event) {
    const links = [...byId("runs-list").querySelectorAll("a")];
    const place = links.findIndex((link) => link === document.activeElement);
    const to = { ArrowDown: place + 1, ArrowUp: place - 1, Home: 0, End: links.length - 1 }[event.key];
    if (event.key === "Escape") this.toggle(false);
    if (to === undefined || (event.target === byId("runs-search") && event.key !== "ArrowDown")) return;
    event.preventDefault();
    if (to < 0) byId("runs-search").focus();
    else links[Math.min(to, links.length - 1)]?.focus();
  }
}

/** What a run cost: dollars where there is a price, else tokens. */
function costOf({ dollars, tokens }) {
  if (Number(dollars ?? 0) > 0) return `$${Number(dollars) < 0.01 ? Number(dollars).toPrecision(1) : Number(dollars).toFixed(2)}`;
  return Number(tokens ?? 0) > 0 ? `${Number(tokens).toLocaleString("en")} tokens` : "";
}

/** When a run was created, from a date as text or as seconds. */
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
