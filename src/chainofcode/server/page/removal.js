// @ts-check
// Deletes a run, after a confirmation next to the button.

import { byId, show } from "./dom.js";

/** The button and its confirmation. `remove(id)` deletes the run; `notice(text)` reports an error. */
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

  /** Offer to delete another run, which must be over; null hides the button. */
  offer(id) {
    this.id = id;
    this.ask(false);
  }

  ask(isAsked) {
    show(byId("remove"), this.id !== null && !isAsked);
    show(byId("remove-panel"), isAsked);
    if (isAsked) byId("remove-no").focus(); // a second press by mistake keeps the run
  }

  keep() {
    this.ask(false);
    byId("remove").focus();
  }
}
