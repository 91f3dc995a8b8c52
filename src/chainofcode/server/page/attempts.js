// @ts-check
// Several attempts at an answer: a tab for each, and what was tried after a failed one.

import { byId, el, setText, show } from "./dom.js";
import { answerText } from "./record.js";
import { shortened } from "./values.js";

const TRIED = { repair: "Repair", "coc-lm": "Read by the model", "coc-lm-state": "Simulated by the model", cot: "Reasoning in words", direct: "Direct answer" };

/** Draw a tab for each attempt if there are several; `choose` is called with the selected one. */
export function drawTabs(attempts, chosen, choose) {
  const box = byId("attempts");
  show(box, attempts.length > 1);
  if (attempts.length < 2) return;
  const hadFocus = box.contains(document.activeElement);
  box.replaceChildren(
    ...attempts.map((one) => {
      const isChosen = one === chosen;
      const end = one.answer ? (answerText(one.answer) ?? one.answer.reason) : "…";
      const made = el("button", { type: "button", role: "tab", "aria-selected": String(isChosen), "aria-controls": "run", tabindex: isChosen ? 0 : -1 }, `${one.number + 1} ${attemptName(attempts, one)} `, el("span", { class: "faint" }, shortened(end, 24)));
      made.addEventListener("click", () => choose(one));
      return made;
    }),
  );
  if (hadFocus) /** @type {HTMLElement | null} */ (box.querySelector('[aria-selected="true"]'))?.focus();
}

/** Say what was tried after an attempt, and why. */
export function drawNext(recording, attempt) {
  const end = attempt.answer;
  const hasStayed = recording.stayed(attempt);
  show(byId("then"), Boolean(end?.then));
  byId("then").classList.toggle("stayed", hasStayed);
  if (!end?.then) return;
  const why = end.error ? `${end.reason}: ${end.error.message}` : `answer ${answerText(end) ?? end.reason}`;
  const next = (wordsFor(end.then) ?? end.then).toLowerCase();
  setText(byId("then"), hasStayed ? `This is the final answer: what was tried next (${next}) gave no other answer.` : `Not the final answer: ${shortened(why, 600)}. Tried next: ${next}.`);
}

/** The name of an attempt: the kind of the first one, the reason for each further one. */
function attemptName(attempts, attempt) {
  return wordsFor(attempts[attempt.number - 1]?.answer?.then) ?? (attempt.program ? "Program" : "Words");
}

function wordsFor(then) {
  return Object.hasOwn(TRIED, then) ? TRIED[then] : null;
}
