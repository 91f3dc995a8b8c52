// @ts-check
// The form: a question for the model, or the user's own program with values; and files for either.

import { byId, el, setText, show, targetOf } from "./dom.js";
import { literalFault, shortened } from "./values.js";

const TEXTS = {
  question: { name: "Ask a question", send: "Ask", other: "Run a program instead" },
  program: { name: "Run a program", send: "Run", other: "Ask a question instead" },
};

export class Asking {
  /** `begun(id)` is called when a run was started; `notice(text)` reports errors. */
  constructor(server, { begun, notice }) {
    this.server = server;
    this.begun = begun;
    this.notice = notice;
    this.files = [];
    this.methods = {};
    this.mode = "question";
    this.listen();
  }

  offer(info) {
    this.methods = info.methods ?? {};
    byId("method").replaceChildren(...Object.keys(this.methods).map((name) => el("option", { value: name }, info.labels?.[name] ?? name)));
    this.models = [...new Set([info.model, ...(info.models ?? [])].filter(Boolean))];
    byId("model").replaceChildren(...this.models.map((name) => el("option", { value: name }, name)));
    this.draw();
  }

  listen() {
    const form = byId("ask");
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.send();
    });
    form.addEventListener("focusin", () => this.open(true));
    byId("question").addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        form.requestSubmit();
      }
    });
    for (const id of ["program", "values"]) {
      byId(id).addEventListener("keydown", (event) => {
        if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
      });
    }
    byId("mode").addEventListener("click", () => this.turn(this.mode === "question" ? "program" : "question"));
    byId("ideas").addEventListener("click", (event) => {
      if (!targetOf(event).closest("button")) return;
      byId("question").value = targetOf(event).textContent;
      this.turn("question");
      form.requestSubmit();
    });
    byId("method").addEventListener("change", () => this.draw());
    byId("values").addEventListener("input", () => setText(byId("values-fault"), ""));
    byId("file-button").addEventListener("click", () => byId("file").click());
    byId("file").addEventListener("change", (event) => {
      this.addFiles([...targetOf(event).files]);
      targetOf(event).value = "";
    });
    addEventListener("dragover", (event) => {
      event.preventDefault();
      document.body.classList.add("dropping");
    });
    for (const name of ["dragleave", "drop"]) addEventListener(name, () => document.body.classList.remove("dropping"));
    addEventListener("drop", (event) => {
      event.preventDefault();
      this.addFiles([...event.dataTransfer.files]);
    });
  }

  /** Show the whole form, or, while a run is open, one line of it. */
  open(isOpen) {
    byId("ask").classList.toggle("open", isOpen);
    if (!isOpen) byId(this.mode).scrollTo(0, 0); // show the first line
    if (!isOpen && byId("ask").contains(document.activeElement)) byId("main").focus({ preventScroll: true }); // from now on, keys step through the run
  }

  turn(mode) {
    this.mode = mode;
    this.draw();
    this.focus();
  }

  focus() {
    byId(this.mode).focus();
  }

  draw() {
    const isProgram = this.mode === "program";
    for (const part of byId("ask").querySelectorAll("[data-mode]")) show(part, part.getAttribute("data-mode") === this.mode);
    for (const id of ["question", "program"]) byId(id).disabled = id !== this.mode; // what is not shown is not required
    byId("ask").setAttribute("aria-label", TEXTS[this.mode].name);
    setText(byId("send"), TEXTS[this.mode].send);
    setText(byId("mode"), TEXTS[this.mode].other);
    byId("no-model")?.remove();
    if (isProgram) byId("model").append(el("option", { value: "", id: "no-model" }, "none: only the values"));
    show(byId("model").parentElement, isProgram || (this.models?.length ?? 0) > 1);
    setText(byId("method-text"), isProgram ? "" : (this.methods[byId("method").value] ?? ""));
  }

  // --- sending ---------------------------------------------------------------------------------------------------

  async send() {
    const body = this.mode === "question" ? this.asked() : this.programmed();
    if (body === null || byId("send").disabled) return;
    byId("send").disabled = true;
    let wait = 0;
    try {
      const made = await this.server.post("api/runs", { ...body, ask_me: byId("ask-me").value.trim() || null, files: this.files.filter((file) => file.id).map((file) => file.id) });
      if (this.mode === "question") byId("question").value = "";
      this.files = [];
      this.drawFiles();
      this.begun(made.id);
    } catch (error) {
      this.notice(error.message);
      wait = error.status === 429 ? Math.min((error.retrySeconds ?? 1) * 1000, 60000) : 0;
    }
    setTimeout(() => (byId("send").disabled = false), wait);
  }

  asked() {
    const question = byId("question").value.trim();
    if (!question) return null;
    return { question, method: byId("method").value || undefined, model: byId("model").value || null, type: byId("type").value.trim() || null };
  }

  programmed() {
    const program = byId("program").value;
    const values = byId("values").value.split("\n").map((line) => line.trim()).filter((line) => line && !line.startsWith("#"));
    const wrong = values.find((line) => !isValue(line));
    setText(byId("values-fault"), wrong ? `${shortened(wrong, 80)}: write a value as CALL = VALUE, with text in quotes.` : "");
    if (wrong) byId("values").focus();
    return wrong || !program.trim() ? null : { program, values, model: byId("model").value || null };
  }

  // --- files -----------------------------------------------------------------------------------------------------

  async addFiles(files) {
    this.open(true);
    for (const file of files) {
      const entry = { name: file.name, id: null };
      this.files.push(entry);
      this.drawFiles();
      try {
        Object.assign(entry, await this.server.upload(file));
      } catch (error) {
        this.files = this.files.filter((one) => one !== entry);
        this.notice(`${file.name}: ${error.message}`);
      }
      this.drawFiles();
    }
  }

  drawFiles() {
    byId("files").replaceChildren(
      ...this.files.map((file) => {
        const remove = el("button", { type: "button", class: "quiet", "aria-label": `Remove ${file.name}` }, "✕");
        remove.addEventListener("click", () => {
          this.files = this.files.filter((one) => one !== file);
          this.drawFiles();
          byId("file-button").focus();
        });
        return el("li", { class: "chip" }, file.name, el("span", { class: "faint" }, file.id ? ` ${Number(file.bytes).toLocaleString("en")} bytes` : " …"), remove);
      }),
    );
  }
}

/** Whether a line is a call and its value: some `=` in it has a literal to its right. The server checks it again. */
function isValue(line) {
  for (let place = line.lastIndexOf("="); place > 0; place = line.lastIndexOf("=", place - 1)) {
    if (!literalFault(line.slice(place + 1))) return true;
  }
  return false;
}
