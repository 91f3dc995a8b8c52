// @ts-check
// Copy, download and share: the answer, the program, the run.

import { wholeAnswer } from "./answer.js";
import { saveFile } from "./artifacts.js";
import { byId, el, show, targetOf } from "./dom.js";
import { pythonText } from "./values.js";

const TOLD_MS = 1600;
const CSV_COLUMNS = ["number", "by", "line", "call", "value", "changes", "printed", "seconds", "confidence"];

/** The buttons. `run()` is what is shown: {recording, attempt, id}; `fetchBytes(id, what)` downloads from the server; `notice(text)` reports errors. */
export class Sharing {
  /** @param {{ run: () => any, fetchBytes?: any, notice?: (text: string) => void }} on */
  constructor({ run, fetchBytes = null, notice = () => {} }) {
    this.run = run;
    const guarded = (work) => async (event) => {
      try {
        await work(event.currentTarget);
      } catch (error) {
        notice(error.message);
      }
    };
    byId("copy-answer").addEventListener("click", guarded((button) => copy(button, wholeAnswer(run().recording.answer) ?? byId("said").textContent)));
    byId("copy-program").addEventListener("click", guarded((button) => copy(button, run().attempt.program.source)));
    byId("copy-link").addEventListener("click", guarded((button) => copy(button, location.href)));
    byId("save-csv").addEventListener("click", guarded(() => saveText(csvOf(run().recording), `${this.name}.csv`)));
    byId("save-answer").addEventListener("click", guarded(() => saveText(wholeAnswer(run().recording.answer) ?? byId("said").textContent, `${this.name}.txt`)));
    byId("save-trace").addEventListener("click", guarded(async () => saveFile(await fetchBytes(run().id, "trace"), `${this.name}.jsonl`)));
    byId("save-html").addEventListener("click", guarded(async () => saveFile(await fetchBytes(run().id, "page"), `${this.name}.html`)));
    byId("share").addEventListener("click", () => this.open(byId("share-panel").hidden));
    byId("share-panel").addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      this.open(false);
      byId("share").focus();
    });
    document.addEventListener("click", (event) => {
      if (!targetOf(event).closest?.("#share, #share-panel")) this.open(false);
    });
  }

  get name() {
    return `run-${this.run().id ?? "example"}`;
  }

  /** A run that is over can be shared; null hides the buttons. */
  offer(recording) {
    this.open(false);
    show(byId("copy-answer"), recording !== null);
    show(byId("share"), recording !== null);
  }

  open(isOpen) {
    show(byId("share-panel"), isOpen);
    byId("share").setAttribute("aria-expanded", String(isOpen));
  }
}

async function copy(button, text) {
  if (navigator.clipboard) await navigator.clipboard.writeText(text);
  else copyOldWay(text);
  const before = button.dataset.label ?? button.textContent;
  button.dataset.label = before;
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = before), TOLD_MS);
}

/** Over plain HTTP from another machine, browsers do not give pages access to the clipboard. */
function copyOldWay(text) {
  const place = el("textarea", { class: "unseen" });
  place.value = text;
  document.body.append(place);
  place.select();
  document.execCommand("copy");
  place.remove();
}

function saveText(text, name) {
  saveFile(new TextEncoder().encode(text), name);
}

/** All steps of a run as a table for spreadsheets. */
export function csvOf(recording) {
  const rows = recording.attempts.flatMap((attempt) => attempt.steps.map((step) => rowOf(step)));
  return [CSV_COLUMNS, ...rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

function rowOf(step) {
  const changes = Object.entries(step.delta ?? {}).map(([name, text]) => `${name} = ${text}`).join("; ");
  const value = step.call == null ? (step.outcome ?? "") : (step.error ?? pythonText(step.value, 1_000_000));
  return [step.number, step.by, step.line, step.call ?? "", value, changes, step.output ?? "", step.seconds ?? "", step.confidence?.probability ?? ""];
}

/** A cell. Spreadsheets treat text that starts with = + - @ as a formula: an apostrophe keeps it text. */
function cell(value) {
  const text = String(value);
  const isFormula = /^[=+\-@\t\r]/.test(text) && !/^-?[\d.]+(e[+-]?\d+)?$/i.test(text);
  return `"${(isFormula ? `'${text}` : text).replaceAll('"', '""')}"`;
}
