// @ts-check
// Deleting a run: asked once more, in its own place, before it is done.

import { byId, show } from "./dom.js";

/** The button and the question after it. `remove(id)` does it; `notice(text)` hears why it could not be done. */
export class Removal {
  constructor(remove, notice) {
    this.id = null;
    byId("remove").addEventListener("click", () => this.ask(true));
    byId("remove-no").addEventListener("click", () => this.keep());
    byId("remove-yes").addEventListener("click", async () => {
      this.ask(false);
      try {
        await remove(this.id);
      } catch (error) {
        notice(error.message);
      }
    });
    byId("remove-panel").addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.keep();
    });
  }

  /** Another run, or none; one that can be deleted is over. */
  offer(id) {
    this.id = id;
    this.ask(false);
  }

  ask(isAsked) {
    show(byId("remove"), this.id !== null && !isAsked);
    show(byId("remove-panel"), isAsked);
    if (isAsked) byId("remove-no").focus(); // pressed twice by mistake, it keeps the run
  }

  keep() {
    this.ask(false);
    byId("remove").focus();
  }
}
