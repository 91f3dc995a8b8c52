// @ts-check
// What is shown before a program: models that are not ready yet, and the reply that a model is writing.

import { byId, setText, show } from "./dom.js";

const STATE_MS = 1500;
const MAX_DRAFT_CHARS = 20000;

/** Which models are not ready, and why; polled until all are. */
export class ModelStates {
  /** `changed()` is called after every change. */
  constructor(server, changed) {
    this.server = server;
    this.changed = changed;
    this.waitingFor = {};
  }

  offer({ waiting_for: waitingFor = {} }) {
    clearTimeout(this.timer);
    const isNew = JSON.stringify(waitingFor) !== JSON.stringify(this.waitingFor);
    this.waitingFor = waitingFor;
    const texts = Object.entries(waitingFor).map(([model, what]) => `${model}: ${what}`);
    setText(byId("model-state"), texts.join(" · "));
    show(byId("model-state"), texts.length > 0);
    if (texts.length) this.timer = setTimeout(() => this.look(), STATE_MS);
    if (isNew) this.changed();
  }

  async look() {
    try {
      this.offer(await this.server.get("api/info"));
    } catch {
      this.timer = setTimeout(() => this.look(), STATE_MS); // the open run reports that the server is unreachable
    }
  }

  /** What a run of this model waits for; null if the model is ready. */
  of(model) {
    return Object.hasOwn(this.waitingFor, model ?? "") ? String(this.waitingFor[model]) : null;
  }
}

/** The reply that the model is writing. */
export class Draft {
  constructor() {
    this.text = "";
  }

  take({ text, is_new: isNew }) {
    this.text = ((isNew ? "" : this.text) + String(text)).slice(0, MAX_DRAFT_CHARS);
    this.draw();
  }

  clear() {
    if (!this.text) return;
    this.text = "";
    this.draw();
  }

  draw() {
    const box = byId("draft");
    setText(box, this.text);
    show(byId("draft-panel"), this.text !== "");
    box.scrollTop = box.scrollHeight;
  }
}
