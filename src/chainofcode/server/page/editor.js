// @ts-check
// What if: another value for a call, in a small form below its line; or another program in place of the old one.

import { el } from "./dom.js";
import { howSure, oneLine, otherwise } from "./record.js";
import { literalFault, pythonText, shortened } from "./values.js";

/** The form. `send` submits the change, or throws; without it, the form shows a command to run instead. */
export function editorOf(step, times, { send, close, hint = null }) {
  const call = shortened(oneLine(step.call), 200);
  const now = pythonText(step.value, 2000);
  const input = el("input", { name: "value", value: now, spellcheck: "false", autocomplete: "off", autocapitalize: "off", "aria-describedby": "editor-fault", "aria-label": `Another value for ${call}` });
  const fault = el("p", { class: "fault", id: "editor-fault", role: "alert" });
  const everywhere = el("input", { type: "checkbox", name: "everywhere" });
  everywhere.checked = true;
  const command = el("code", { class: "command", tabindex: 0 });
  const change = () => (times > 1 && everywhere.checked ? `${step.call}=${input.value.trim()}` : `step:${step.number}=${input.value.trim()}`);
  const quit = el("button", { type: "button", class: "quiet" }, "Close");
  const submit = el("button", { type: "submit", class: "primary" }, "Run again");
  const form = el(
    "form",
    { class: `editor by-${step.by}`, "aria-label": "What if" },
    step.confidence ? el("p", { class: "faint sureness" }, sureness(step)) : null,
    el("p", { class: "what-if" }, "What if ", el("code", {}, call), " were"),
    el("div", { class: "row" }, input, send ? submit : null, quit),
    times > 1 ? el("label", { class: "check" }, everywhere, `wherever this call is made (${times} times)`) : null,
    fault,
    send ? null : el("p", { class: "faint" }, hint ?? "This page is a file. Run this command in the directory of the trace: "),
    send || hint ? null : command,
  );
  const check = () => {
    const wrong = literalFault(input.value);
    fault.textContent = wrong;
    submit.disabled = Boolean(wrong);
    input.setAttribute("aria-invalid", String(Boolean(wrong)));
    command.textContent = `coc replay TRACE --set ${shellQuoted(change())}`;
    return !wrong;
  };
  input.addEventListener("input", check);
  everywhere.addEventListener("change", check);
  quit.addEventListener("click", close);
  form.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
    event.stopPropagation(); // arrows move in the text, not in the run
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (!check() || !send) return;
    submit.disabled = true;
    try {
      await send(change());
      close();
    } catch (error) {
      fault.textContent = error.message;
      submit.disabled = false;
    }
  });
  check();
  queueMicrotask(() => {
    input.focus();
    input.select();
    form.scrollIntoView({ block: "nearest" });
  });
  return form;
}

/** How sure the model was of a value, and its alternatives, in a sentence. */
function sureness({ value, confidence }) {
  const sure = howSure(confidence);
  const others = otherwise(confidence);
  if (confidence.spread != null) return `The model’s score is about ${pythonText(value, 30)} ${sure}${others && `: ${others}`}.`;
  const said = Number(confidence.samples ?? 0) ? `${sure} gave this value` : `The model was ${sure}`;
  return `${said}${others && `; otherwise: ${others}`}.`;
}

/** The program as text that can be edited. `send` submits the new program, or throws. */
export function rewriteOf(source, models, { send, close }) {
  const whole = source.trimEnd();
  const text = el("textarea", { class: "code-text", rows: Math.min(Math.max(whole.split("\n").length + 1, 4), 24), spellcheck: "false", autocapitalize: "off", "aria-label": "The program to edit", "aria-describedby": "rewrite-fault" });
  text.value = whole; // unchanged: invisible characters stay in it
  const fault = el("p", { class: "fault", id: "rewrite-fault", role: "alert" });
  const chosen = el("select", { "aria-label": "Who answers new calls" }, el("option", { value: "" }, "recorded values only"), ...models.map((name) => el("option", { value: name }, name)));
  const quit = el("button", { type: "button", class: "quiet" }, "Close");
  const submit = el("button", { type: "submit", class: "primary", title: "Ctrl+Enter" }, "Run again");
  const form = el(
    "form",
    { class: "rewrite", "aria-label": "Another program" },
    text,
    fault,
    el("div", { class: "row" }, el("label", { class: "grow" }, "New calls are answered by ", chosen), quit, submit),
  );
  quit.addEventListener("click", close);
  form.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (submit.disabled) return;
    submit.disabled = true;
    try {
      await send(text.value, chosen.value || null);
    } catch (error) {
      fault.textContent = error.message;
    }
    submit.disabled = false;
  });
  queueMicrotask(() => text.focus());
  return form;
}

function shellQuoted(text) {
  return `'${text.replaceAll("'", `'"'"'`)}'`;
}
