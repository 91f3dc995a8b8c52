// @ts-check
// Calls that wait for a person: a form for each, with the type that is expected.

import { byId, el, setText, show } from "./dom.js";
import { say } from "./runs.js";
import { shortened } from "./values.js";

const CHOICES = { bool: ["yes", "no"] };
const MAX_CALL_CHARS = 2000;

export class Questions {
  /** `answered()` is called when all questions are answered. */
  constructor(server, { answered }) {
    this.server = server;
    this.answered = answered;
    this.clear();
  }

  clear() {
    this.forms = new Map(); // by the id of the question; kept, so that typed text is not lost
    byId("questions").replaceChildren();
    show(byId("questions"), false);
  }

  /** Draw the open questions of a run. */
  async draw(run, signal) {
    const { questions } = await this.server.get(`api/questions?run=${encodeURIComponent(run)}`);
    if (signal.aborted) return;
    const open = new Set(questions.map((question) => question.id));
    for (const [id, form] of this.forms) {
      if (open.has(id)) continue;
      form.remove();
      this.forms.delete(id);
    }
    for (const question of questions) {
      if (this.forms.has(question.id)) continue;
      const form = this.form(question);
      this.forms.set(question.id, form);
      byId("questions").append(form);
      say(`The run waits for an answer: ${shortened(question.call, 300)}`);
    }
    show(byId("questions"), this.forms.size > 0);
  }

  form(question) {
    const wants = el("span", { class: "faint" }, question.wants);
    const fault = el("p", { class: "fault", role: "alert" });
    const form = el("form", { class: "pending-question" }, el("code", { dir: "auto" }, shortened(question.call, MAX_CALL_CHARS)), wants);
    const send = async (text) => {
      for (const part of form.elements) part.disabled = true;
      setText(fault, "");
      try {
        await this.server.post(`api/questions/${encodeURIComponent(question.id)}`, { text });
        form.remove();
        this.forms.delete(question.id);
        if (!this.forms.size) this.answered();
        return;
      } catch (error) {
        setText(fault, error.message);
      }
      for (const part of form.elements) part.disabled = false;
      form.querySelector("input, textarea, button")?.focus();
    };
    const choices = CHOICES[question.type];
    if (choices) form.append(...choices.map((word) => choice(word, send)));
    else form.append(...field(question, send, form));
    form.append(fault);
    return form;
  }
}

function choice(word, send) {
  const button = el("button", { type: "button" }, word);
  button.addEventListener("click", () => send(word));
  return button;
}

function field(question, send, form) {
  const input = el("input", { class: "code-text", required: true, autocomplete: "off", spellcheck: "false", "aria-label": `Value of ${shortened(question.call, 200)}: ${question.wants}` });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(input.value);
  });
  return [input, el("button", { type: "submit", class: "primary" }, "Answer")];
}
