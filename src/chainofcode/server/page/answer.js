// @ts-check
// The question and its answer; without an answer, the reason and what to do next.

import { byId, el, setText, show } from "./dom.js";
import { answerText, factsOf } from "./record.js";
import { pythonText, shortened } from "./values.js";

const FOLDED_CHARS = 2000; // of an answer, until a reader expands it
const UNNAMED_ERRORS = ["NotAProgram", "NoAnswer"];
const MAX_REPLY_CHARS = 100000;
const NEXT_STEPS = {
  error: "Next: ask again (the model may write another program), or correct the program with “Edit” and run it.",
  "emulation failed": "Next: press “Edit” and let the model answer new calls, choose another model, or give the call a value.",
  "guest died": "Next: ask again. If it ends the same way, the program uses more than the sandbox allows.",
  "no answer": "Next: ask again, or say in the question what the answer should be.",
  cancelled: "Next: press “Resume” if it is offered, or start the run again.",
  interrupted: "The server stopped during this run. Next: press “Resume” if it is offered, or start the run again.",
  failed: "Next: read the message, then ask again. See the server’s log and /readyz for details.",
};
const NEXT_BY_TYPE = {
  model: "The model could not be reached. Next: choose another model, or check the provider’s address and key on the server.",
  input: "Next: correct the question, the type or the files, and ask again.",
  sandbox: "Next: ask the operator to run “coc doctor”: programs cannot run on this server.",
  budget: "Next: wait until the budget is renewed, or ask the operator for a larger one.",
  storage: "Next: ask the operator to check the server’s disk.",
};

/** The whole answer as text, however long. */
export function wholeAnswer(answer) {
  const said = answerText(answer);
  const isCut = said !== null && typeof answer.value !== "string" && !answer.text;
  return isCut ? pythonText(answer.value, 10_000_000) : said;
}

/** Draw question and answer; `isWhole`: all of a long answer. */
export function drawAnswer(recording, title, isWhole) {
  const { answer, header } = recording;
  setText(byId("asked"), questionOf(header, title));
  const inputs = Object.entries(header?.inputs ?? {});
  if (byId("inputs").childElementCount !== inputs.length) {
    byId("inputs").replaceChildren(...inputs.map(([name, value]) => el("li", { class: "chip" }, el("b", {}, name), ` = ${pythonText(value, 80)}`)));
  }
  const said = answer ? wholeAnswer(answer) : null;
  const isMissing = answer !== null && said === null;
  const cause = isMissing ? causeOf(answer) : "";
  byId("answer").classList.toggle("none", isMissing);
  byId("answer").classList.toggle("pending", answer === null);
  setText(byId("answer-label"), isMissing ? `No answer${cause && `: ${answer.reason}`}` : "Answer");
  const text = answer ? (said ?? (cause || answer.reason)) : "…";
  const shown = text === "" ? "''" : text;
  const isLong = shown.length > FOLDED_CHARS;
  setText(byId("said"), isLong && !isWhole ? shortened(shown, FOLDED_CHARS) : shown);
  byId("said").className = `said ${sizeOf(shown)}${isWhole ? " whole" : ""}`;
  show(byId("said-all"), isLong);
  setText(byId("said-all"), isWhole ? "Show less" : `Show all ${shown.length.toLocaleString("en")} characters`);
  setText(byId("facts"), factsOf(recording));
  show(byId("next-step"), isMissing);
  if (isMissing) setText(byId("next-step"), nextStep(answer, typeof header?.question === "string"));
}

/** The words of a model that wrote no program: each reply, and the model that gave it. */
export function drawWords(attempt) {
  const isShown = Boolean(attempt && !attempt.program && attempt.calls.length);
  show(byId("words"), isShown);
  if (!isShown) return;
  const parts = attempt.calls.filter((call) => !call.tool).flatMap((call) => [el("p", { class: "from" }, call.model || "the model"), el("p", { dir: "auto" }, shortened(call.reply ?? "", MAX_REPLY_CHARS))]);
  byId("words").replaceChildren(...parts);
}

function questionOf(header, title) {
  const question = header?.question;
  const asked = typeof question === "string" ? question : question ? pythonText(question) : title || "A program";
  const edited = header?.settings?.edited; // a what-if run names its changes
  const changed = Array.isArray(edited) && edited.length ? `What if: ${shortened(edited.join("; "), 300)}` : "";
  return [asked, changed].filter(Boolean).join(" — ");
}

function sizeOf(text) {
  if (text.length > 600) return "longest";
  if (text.length > 120 || text.includes("\n")) return "long";
  return text.length > 36 ? "middling" : "";
}

/** Why there is no answer; empty if unknown. */
function causeOf({ reason, error }) {
  if (!error) return "";
  const where = error.line ? `Line ${error.line}: ` : "";
  const kind = !error.type || error.type === reason || UNNAMED_ERRORS.includes(error.type) ? "" : `${error.type}: `;
  return where + kind + error.message;
}

/** What to do about a run without an answer. */
function nextStep({ reason, error }, isQuestion) {
  const kind = String(error?.type ?? "");
  if (Object.hasOwn(NEXT_BY_TYPE, kind)) return NEXT_BY_TYPE[kind];
  if (String(reason).startsWith("limit:")) return `Next: ask for less, or ask the operator for a higher limit (coc serve --limit ${String(reason).slice(6)}=N).`;
  if (reason === "error" && !isQuestion) return "Next: correct the program with “Edit” and run it again.";
  return Object.hasOwn(NEXT_STEPS, reason) ? NEXT_STEPS[reason] : NEXT_STEPS["no answer"];
}
