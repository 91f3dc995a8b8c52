// @ts-check
// What-if runs and the run they come from: what changed, and the tree of all versions.

import { byId, el, show } from "./dom.js";
import { Recording, oneLine } from "./record.js";
import { pythonText, readable, shortened, unquoted } from "./values.js";

const MAX_CHANGES = 8;
const MAX_VERSIONS = 40;
const MAX_UP = 20;
const MAX_KNOWN = 100; // what-if runs that are searched for versions

/** How two recordings differ: values of calls, lines of the program, variables at the end. */
export function changesBetween(before, after) {
  const [one, other] = [before.followed, after.followed];
  if (!one || !other) return [];
  return [...linesBetween(one.program, other.program), ...callsBetween(one, other), ...statesBetween(one, other)];
}

function linesBetween(one, other) {
  const [before, after] = [one, other].map((program) => program.source.trimEnd().split("\n"));
  const [had, has] = [new Set(before), new Set(after)];
  const gone = before.filter((line) => !has.has(line)).map((line) => ["line", `− ${line.trim()}`]);
  return [...gone, ...after.filter((line) => !had.has(line)).map((line) => ["line", `+ ${line.trim()}`])];
}

function callsBetween(one, other) {
  const had = new Map(one.steps.filter((step) => step.call != null).map((step) => [step.call, step]));
  const found = new Map();
  for (const step of other.steps) {
    if (step.call == null) continue;
    const now = pythonText(step.value, 60);
    const was = had.has(step.call) ? pythonText(had.get(step.call).value, 60) : null;
    if (was !== now) found.set(step.call, ["call", `${shortened(oneLine(step.call), 60)}: ${was === null ? "new" : was} → ${now}`]);
  }
  return [...found.values()];
}

function statesBetween(one, other) {
  const [was, is] = [one, other].map((attempt) => attempt.stateAt(attempt.steps.length));
  const names = [...new Set([...was.keys(), ...is.keys()])].filter((name) => was.get(name)?.text !== is.get(name)?.text);
  const text = (state, name) => (state.has(name) ? shortened(readable(state.get(name).text), 60) : "none");
  return names.map((name) => ["state", `${name}: ${text(was, name)} → ${text(is, name)}`]);
}

/** The view. It gets the parent’s events and the related runs from `server`. */
export class Versions {
  constructor(server) {
    this.server = server;
  }

  clear() {
    for (const id of ["changes", "versions"]) {
      byId(id).replaceChildren();
      show(byId(id), false);
    }
  }

  /** Compare a finished run with its parent, and show all versions. */
  async draw(about, recording, signal) {
    this.clear();
    const { runs } = await this.server.get(`api/runs?method=replay&limit=${MAX_KNOWN}`);
    const family = await this.family(about, runs);
    if (signal.aborted) return;
    if (family.length > 1) {
      byId("versions").replaceChildren(...family.map(({ run, depth }, place) => this.item(run, depth, place, run.id === about.id)));
      show(byId("versions"), true);
    }
    if (!about.parent) return;
    const before = new Recording();
    for await (const { event, data } of this.server.events(about.parent, signal, () => {})) if (event !== "end" && event !== "waiting") before.add({ ...data, event });
    if (signal.aborted) return;
    const changes = changesBetween(before, recording);
    const rest = changes.length - MAX_CHANGES;
    byId("changes").replaceChildren(...changes.slice(0, MAX_CHANGES).map(([kind, text]) => el("li", { class: `change ${kind}` }, el("code", {}, text))), ...(rest > 0 ? [el("li", { class: "faint" }, `and ${rest} more`)] : []));
    show(byId("changes"), changes.length > 0);
  }

  /** The first version and everything that was made of it, as a tree in reading order. */
  async family(about, known) {
    const runs = new Map(known.map((run) => [run.id, run]));
    runs.set(about.id, about);
    let root = about;
    for (let up = 0; root.parent && up < MAX_UP; up++) {
      try {
        if (!runs.has(root.parent)) runs.set(root.parent, await this.server.get(`api/runs/${encodeURIComponent(root.parent)}`));
      } catch {
        break; // it was deleted
      }
      root = runs.get(root.parent);
    }
    const found = [];
    const visit = (run, depth) => {
      if (found.length >= MAX_VERSIONS || found.some((one) => one.run.id === run.id)) return;
      found.push({ run, depth });
      for (const child of [...runs.values()].filter((one) => one.parent === run.id).sort((one, other) => Number(one.created) - Number(other.created))) visit(child, depth + 1);
    };
    visit(root, 0);
    return found;
  }

  item(run, depth, place, isOpen) {
    const said = run.answer == null ? (run.reason ?? run.state) : unquoted(run.answer);
    const link = el("a", { href: `#run=${encodeURIComponent(run.id)}`, "aria-current": isOpen ? "page" : null }, depth ? `What if ${place}` : "Original", el("span", { class: "faint" }, ` ${shortened(String(said), 40)}`));
    const made = el("li", {}, link);
    made.style.setProperty("--depth", String(Math.min(depth, 8)));
    return made;
  }
}
