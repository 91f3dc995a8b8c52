// @ts-check
// The server’s verdict on whether the answer follows from the reasoning, in plain words.

import { byId, el, setText, show } from "./dom.js";
import { howSure, perCent } from "./record.js";
import { pythonText, shortened, unquoted } from "./values.js";

const ORIGINS = {
  program: "the program, which computes it",
  constant: "the program, which only states it",
  input: "an input, which the program passes on",
  model: "the model alone: the program only passes its value on",
  reply: "the model’s reply, which states it itself",
  none: "nowhere: there is no answer",
};
const FILES = { intact: "unchanged", none: "without digests: changes cannot be detected", broken: "changed after it was written" };
const WHO = { python: "Python", lm: "the model", tool: "tools" };
const MAX_FLIPS = 8;

/** The view, opened and closed by its button. `fetch(id)` gets the verdict. */
export class Check {
  constructor(fetch) {
    this.fetch = fetch;
    this.id = null;
    byId("check").addEventListener("click", () => (this.isOpen ? this.close() : this.look()));
    byId("check-close").addEventListener("click", () => {
      this.close();
      byId("check").focus();
    });
  }

  get isOpen() {
    return !byId("check-panel").hidden;
  }

  /** Offer to check another run, which must be over; null hides the button. */
  offer(id) {
    this.id = id;
    this.close();
    show(byId("check"), id !== null);
  }

  close() {
    show(byId("check-panel"), false);
    byId("check").setAttribute("aria-expanded", "false");
  }

  async look() {
    const { id } = this;
    byId("check-found").replaceChildren(el("p", { class: "faint" }, "running the program again …"));
    setText(byId("check-text"), "");
    show(byId("check-panel"), true);
    byId("check").setAttribute("aria-expanded", "true");
    try {
      const found = await this.fetch(id);
      if (this.id === id) this.draw(found);
    } catch (error) {
      if (this.id === id) byId("check-found").replaceChildren(el("p", { class: "fault" }, `The answer could not be checked: ${error.message}`));
    }
  }

  draw(found) {
    const isGood = !found.flags.length;
    setText(byId("check-text"), `in ${Number(found.seconds).toFixed(1)} s, without a model`);
    byId("check-found").replaceChildren(
      el("p", { class: `score ${isGood ? "good" : "bad"}` }, el("b", {}, Number(found.score).toFixed(2)), el("span", { class: "faint" }, "of 1"), el("span", {}, headline(found))),
      isGood ? "" : el("ul", { class: "flags", "aria-label": "Reasons not to rely on the answer" }, ...found.flags.map((flag) => el("li", {}, shortened(flag, 400)))),
      found.hangs_on ? el("p", { class: "hangs" }, shortened(found.hangs_on.text, 600)) : "",
      el("dl", {}, ...partsOf(found).flatMap(([name, ...texts]) => [el("dt", {}, name), el("dd", {}, ...texts)])),
      el("p", { class: "faint" }, "The check shows whether the answer follows from the program and its values, not whether the values are right."),
    );
  }
}

function headline(found) {
  if (found.flags.length) return "Do not rely on it.";
  return `The answer follows from the reasoning${Number(found.used) < 0.9 ? ", but it does not depend on all of the work" : ""}.`;
}

function partsOf(found) {
  const done = Object.entries(found.shares ?? {}).filter(([, share]) => Number(share) > 0);
  const parts = [
    found.chain && ["Recording", FILES[found.chain.state] ?? found.chain.state],
    ["Replay", found.replays ? "the same, step for step" : found.origin === "reply" || found.origin === "none" ? "no program computed the answer" : "not the same"],
    ["Comes from", ORIGINS[found.origin] ?? found.origin],
    ["Rests on", `${perCent(found.used)} of the work${found.inputs.length ? `, and on ${found.inputs.map((name) => (name === "question" ? "the question" : name)).join(", ")}` : ""}`],
    done.length && ["Done by", done.map(([who, share]) => `${WHO[who] ?? who} ${perCent(share)}`).join(", ")],
    found.flips.length && ["With another value", flipsOf(found)],
  ];
  return parts.filter(Boolean);
}

function flipsOf(found) {
  const rest = found.flips.length - MAX_FLIPS + Number(found.untried);
  const items = found.flips.slice(0, MAX_FLIPS).map((flip) => {
    const came = { changes: shortened(unquoted(flip.answer || "no answer"), 80), keeps: "the same answer" }[flip.outcome] ?? "unknown: the program then makes different calls";
    const sure = howSure(flip.confidence);
    return el("li", {}, el("code", {}, `${shortened(flip.call ?? "", 80)} = ${pythonText(flip.instead, 60)}`), ` → ${came}`, sure ? el("span", { class: "faint" }, ` (now ${pythonText(flip.value, 30)}, ${sure})`) : null);
  });
  if (rest > 0) items.push(el("li", { class: "faint" }, `and ${rest} more`));
  return el("ul", {}, ...items);
}
