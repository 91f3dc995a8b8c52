// @ts-check
// One run on the page: its answer, its attempts, and controls to step through it.

import { drawAnswer, drawWords } from "./answer.js";
import { drawNext, drawTabs } from "./attempts.js";
import { badge, byId, el, onceAFrame, setText, show, targetOf, ACTOR_WORDS } from "./dom.js";
import { editorOf, rewriteOf } from "./editor.js";
import { ProgramView } from "./program.js";
import { StateView, StepsView, showOutput } from "./side.js";
import { answerText, plural, whatOf } from "./record.js";
import { timelineOf } from "./timeline.js";
import { shortened } from "./values.js";

const PLAY_MS = { whole: 30000, least: 40, most: 700 };
const LOOK_MS = 90; // a pointer in passing dims nothing
const MAX_CALLS = 200;

export class Player {
  /** `on.replay({set, edit})` starts a what-if run; `on.why(recording)` fetches dependencies. Either may be missing. */
  constructor(on = {}) {
    this.on = on;
    this.program = new ProgramView(byId("lines"), {
      line: (line) => this.toLine(line),
      edit: (number) => this.edit(number),
      over: (numbers) => this.look(numbers),
    });
    this.state = new StateView(byId("state"), byId("state-text"), {
      over: (place) => this.look(place === null ? null : [this.attempt.steps[place].number]),
    });
    this.steps = new StepsView(byId("steps"), {
      go: (count) => this.go(count),
      edit: (number) => this.edit(number),
      over: (numbers) => this.look(numbers),
    });
    this.title = "";
    this.models = [];
    this.refresh = onceAFrame(() => this.draw());
    this.scrollPanes = onceAFrame(() => this.scrollNow());
    this.listen();
    this.open(null);
  }

  /** Show a recording, which may still grow. */
  open(recording) {
    this.pause();
    this.closeEditor();
    this.recording = recording;
    this.attempt = null;
    this.drawnProgram = undefined;
    this.chosen = null; // the attempt that the user selected
    this.isFollowing = true;
    this.isWhole = false;
    this.count = 0;
    this.waiting = [];
    this.clearLook();
    this.isBlind = true; // ignore a pointer that has not moved since the last click
    this.drawnTabs = undefined;
    byId("inputs").replaceChildren();
    delete byId("calls-list").dataset.drawn;
    byId("calls").open = false;
    show(byId("about"), recording !== null);
    show(byId("run"), false);
    if (recording) this.draw();
  }

  /** Redraw after the recording has grown. */
  grown(waiting = this.waiting) {
    this.waiting = waiting;
    this.refresh();
  }

  draw() {
    const recording = this.recording;
    if (!recording) return;
    this.attempt = this.chosen ?? recording.latest;
    if (this.isFollowing && this.attempt) this.count = this.attempt.steps.length;
    show(byId("run"), this.attempt !== null);
    this.drawAnswer();
    if (!this.attempt) return;
    if (this.drawnProgram !== this.attempt.program || this.drawnAttempt !== this.attempt) {
      this.drawnProgram = this.attempt.program;
      this.drawnAttempt = this.attempt;
      this.closeEditor();
      this.program.show(this.attempt);
      this.steps.show(this.attempt);
      setText(byId("program-title").firstChild, this.attempt.program ? "Program " : "The model’s words ");
      show(byId("lines"), Boolean(this.attempt.program));
      show(byId("copy-program"), Boolean(this.attempt.program));
      show(byId("player"), Boolean(this.attempt.program));
      byId("stage").classList.toggle("wordy", !this.attempt.program);
      const { language } = this.attempt.program ?? {};
      const actor = Object.hasOwn(ACTOR_WORDS, language) ? language : "python";
      byId("legend-code").replaceChildren(badge(actor), ` ${ACTOR_WORDS[actor]}`);
    }
    drawWords(this.attempt);
    show(byId("rewrite"), this.canReplay && !this.rewrite);
    this.drawAttempts();
    this.drawStep();
    this.drawCalls();
  }

  /** Only the last program that was run can be run again, and only once it is over. */
  get canReplay() {
    return Boolean(this.on.replay && !this.recording.isExample && this.attempt?.program && this.attempt === this.recording.followed && this.recording.answer);
  }

  drawStep() {
    const { attempt, count } = this;
    const size = attempt.steps.length;
    const slider = byId("slider");
    slider.max = String(size);
    slider.value = String(count);
    const current = count ? attempt.steps[count - 1] : null;
    slider.setAttribute("aria-valuetext", current ? `step ${count} of ${size}, line ${current.line}` : "before the first step");
    setText(byId("where"), `${count.toLocaleString("en")} / ${size.toLocaleString("en")}`);
    for (const [id, isOff] of Object.entries({ first: !count, back: !count, next: count >= size, last: count >= size })) byId(id).disabled = isOff;
    byId("play").disabled = !size;
    const isAtEnd = count >= size;
    this.program.update(count, isAtEnd && attempt === this.recording.latest ? this.waiting : [], isAtEnd ? (attempt.answer?.error?.line ?? null) : null);
    this.isDrawing = true; // a row that is drawn again keeps the focus
    this.state.update(attempt, count);
    this.isDrawing = false;
    showOutput(byId("output-panel"), byId("output"), attempt, count);
    this.steps.update(count);
    setText(byId("steps-text"), size ? plural(size, "step") : "");
    this.scrollPanes();
  }

  /** The current line, the change and the last output, each in view in its own pane; layout is read once a frame. */
  scrollNow() {
    this.program.reveal();
    this.state.reveal();
    byId("output").scrollTop = byId("output").scrollHeight;
    if (this.isStepping) this.reveal();
    this.isStepping = false;
  }

  // --- the answer ------------------------------------------------------------------------------------------------

  drawAnswer() {
    drawAnswer(this.recording, this.title ?? "", this.isWhole);
  }

  drawAttempts() {
    const { attempts } = this.recording;
    const drawn = attempts.map((one) => `${one.number}${one === this.attempt}${one.answer?.then}`).join();
    if (this.drawnTabs !== drawn) drawTabs(attempts, this.attempt, (one) => this.choose(one));
    this.drawnTabs = drawn;
    drawNext(this.recording, this.attempt);
  }

  choose(attempt) {
    this.pause();
    this.chosen = attempt;
    this.isFollowing = true;
    this.clearLook();
    this.draw();
  }

  drawCalls() {
    const { calls } = this.attempt;
    show(byId("calls"), calls.length > 0);
    setText(byId("calls-text"), plural(calls.length, "request"));
    if (!byId("calls").open) return;
    const list = byId("calls-list");
    if (list.dataset.drawn === `${this.attempt.number} ${calls.length}`) return;
    list.dataset.drawn = `${this.attempt.number} ${calls.length}`;
    list.replaceChildren(
      timelineOf(this.attempt) ?? "",
      ...calls.slice(0, MAX_CALLS).map((call, number) =>
        el("article", {}, el("h3", {}, `${number + 1}  ${call.tool ?? call.model ?? ""}  ${Number(call.seconds ?? 0).toFixed(1)} s`), el("details", {}, el("summary", {}, "the prompt"), el("pre", { tabindex: 0 }, call.prompt)), el("pre", { class: "reply", tabindex: 0 }, call.reply)),
      ),
    );
  }

  // --- stepping --------------------------------------------------------------------------------------------------

  go(count, isByHand = true) {
    if (!this.attempt) return;
    const size = this.attempt.steps.length;
    this.count = Math.max(0, Math.min(count, size));
    this.isFollowing = this.count === size;
    if (isByHand) this.pause();
    this.clearLook();
    this.isBlind = true; // ignore what moves under a resting pointer
    this.isStepping = true;
    this.drawStep();
    if (isByHand) this.tell();
  }

  /** Bring program and state into view; their own panes show the current line and the change. */
  reveal() {
    const main = byId("main");
    const view = main.getBoundingClientRect();
    const bar = byId("player").getBoundingClientRect();
    const isBarBelow = getComputedStyle(byId("player")).position === "fixed";
    const bottom = isBarBelow ? bar.top : view.bottom;
    const boxes = [document.querySelector(".code"), byId("state-panel"), ...(isBarBelow ? [] : [byId("player")])].map((one) => one.getBoundingClientRect());
    const [first, last] = [Math.min(...boxes.map((box) => box.top)), Math.max(...boxes.map((box) => box.bottom))];
    if (first < view.top || last - first > bottom - view.top) main.scrollTop += first - view.top;
    else if (last > bottom) main.scrollTop += Math.ceil(last - bottom);
  }

  tell() {
    const step = this.attempt.steps[this.count - 1];
    setText(byId("live-step"), step ? `Step ${this.count}, line ${step.line}, ${ACTOR_WORDS[step.by]}: ${shortened(whatOf(step), 200)}` : "Before the first step");
  }

  toLine(line) {
    const place = this.attempt.nextOf(line, this.count);
    if (place !== null) this.go(place + 1);
  }

  play() {
    const size = this.attempt?.steps.length ?? 0;
    if (!size) return;
    if (this.count >= size) this.go(0);
    const pace = Math.min(Math.max(PLAY_MS.whole / size, PLAY_MS.least), PLAY_MS.most);
    this.timer = setInterval(() => {
      this.go(this.count + 1, false);
      if (this.count >= this.attempt.steps.length) this.pause();
    }, pace);
    byId("play").textContent = "❚❚";
    byId("play").setAttribute("aria-label", "Pause");
  }

  pause() {
    clearInterval(this.timer);
    this.timer = null;
    byId("play").textContent = "▶";
    byId("play").setAttribute("aria-label", "Play");
  }

  listen() {
    const moves = { first: () => this.go(0), back: () => this.go(this.count - 1), next: () => this.go(this.count + 1), last: () => this.go(Infinity), play: () => (this.timer ? this.pause() : this.play()) };
    for (const [id, move] of Object.entries(moves)) byId(id).addEventListener("click", move);
    byId("slider").addEventListener("input", (event) => this.go(Number(targetOf(event).value)));
    byId("rewrite").addEventListener("click", () => this.editProgram());
    byId("calls").addEventListener("toggle", () => this.attempt && this.drawCalls());
    const said = byId("said");
    byId("said-all").addEventListener("click", () => {
      this.isWhole = !this.isWhole;
      this.drawAnswer();
    });
    for (const name of ["pointerenter", "focusin"]) said.addEventListener(name, () => this.look("answer"));
    for (const name of ["pointerleave", "focusout"]) said.addEventListener(name, () => this.look(null));
    byId("attempts").addEventListener("keydown", (event) => {
      const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      const other = move && this.recording.attempts[this.attempt.number + move];
      if (other) this.choose(other);
      if (move) event.stopPropagation();
    });
    document.addEventListener("keydown", (event) => this.pressed(event, moves));
    this.watchPointer();
  }

  /** Notice when the user moves the pointer or the focus. */
  watchPointer() {
    let at = "";
    for (const name of ["pointerover", "pointermove"]) {
      document.addEventListener(
        name,
        (/** @type {PointerEvent} */ event) => {
          const now = `${event.clientX} ${event.clientY}`;
          if (now !== at) this.isBlind = false;
          at = now;
        },
        { capture: true, passive: true },
      );
    }
    document.addEventListener("focusin", () => !this.isDrawing && (this.isBlind = false), true);
  }

  pressed(event, moves) {
    if (event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey || !this.attempt) return;
    if (targetOf(event).closest?.("input, textarea, select, dialog, .runs")) return;
    if (event.key === "Escape") this.clearLook();
    const move = { ArrowLeft: moves.back, ArrowRight: moves.next, Home: moves.first, End: moves.last }[event.key];
    const isSpace = event.key === " " && !targetOf(event).closest?.("button, a, summary");
    if (!move && !isSpace) return;
    event.preventDefault();
    (move ?? moves.play)();
  }

  // --- what depends on what --------------------------------------------------------------------------------------

  /** The user points at these steps (by number), at the answer, or (null) at nothing. */
  look(numbers) {
    if (numbers !== null && this.isBlind) return;
    clearTimeout(this.lookTimer);
    this.looked = numbers;
    this.lookTimer = setTimeout(() => this.showSlice(), LOOK_MS);
  }

  clearLook() {
    clearTimeout(this.lookTimer);
    this.looked = null;
    this.showSlice();
  }

  async showSlice() {
    const { looked, recording, attempt } = this;
    if (looked === null || !attempt || attempt !== recording.followed) return this.markSlice(null, [], true);
    if (!recording.why && this.on.why && recording.answer) {
      setText(byId("slice-text"), "computing what it depends on …");
      await this.on.why(recording);
      if (this.looked !== looked || this.recording !== recording) return;
    }
    if (recording.why?.fault) {
      this.markSlice(null, [], true);
      return setText(byId("slice-text"), `what it depends on is not known: ${recording.why.fault}`);
    }
    const numbers = looked === "answer" ? Object.keys(recording.why?.steps ?? {}).map(Number) : looked;
    const found = recording.slice(numbers);
    if (!found || !numbers.length) return this.markSlice(null, [], true);
    const isUsed = looked === "answer" || numbers.some((number) => recording.counts(number));
    this.markSlice(found, looked === "answer" ? [] : numbers, isUsed);
  }

  markSlice(found, roots, isUsed) {
    const steps = found && [...found].map((number) => this.attempt.steps[this.attempt.indexOf(number)]).filter(Boolean);
    const own = roots.map((number) => this.attempt.steps[this.attempt.indexOf(number)]).filter(Boolean);
    this.program.slice(steps, own);
    this.steps.slice(found);
    let text = "";
    if (steps) {
      const lines = new Set(steps.map((step) => step.line)).size;
      const values = new Set(steps.filter((step) => step.by === "lm").map((step) => step.call)).size;
      const behind = [plural(lines, "line"), values && plural(values, "value") + " of the model"].filter(Boolean).join(", ");
      text = `${isUsed ? "" : "the answer does not need this · "}depends on ${behind}`;
    }
    setText(byId("slice-text"), text);
  }

  // --- what if ---------------------------------------------------------------------------------------------------

  edit(number) {
    const step = this.attempt.steps[this.attempt.indexOf(number)];
    if (!step || step.call == null) return;
    this.closeEditor();
    const row = this.program.rowOf(step.line);
    if (!row) return;
    this.editor = editorOf(step, this.attempt.visits.get(step.call) ?? 1, {
      hint: this.recording.isExample ? "Ask this question yourself, then change the value: the program runs again with it." : null,
      send: this.canReplay ? (change) => this.on.replay({ set: [change], edit: null }) : null,
      close: () => {
        this.closeEditor();
        row.focus();
      },
    });
    row.after(el("li", { class: "editor-row" }, this.editor));
  }

  /** The whole program as text, in place of its lines. */
  editProgram() {
    this.closeEditor();
    this.rewrite = rewriteOf(this.attempt.program.source, this.models ?? [], {
      send: (edit, model) => this.on.replay({ set: [], edit, model }),
      close: () => {
        this.closeEditor();
        byId("rewrite").focus();
      },
    });
    byId("lines").before(this.rewrite);
    show(byId("lines"), false);
    show(byId("rewrite"), false);
  }

  closeEditor() {
    this.editor?.parentElement?.remove();
    this.rewrite?.remove();
    show(byId("lines"), Boolean(this.attempt?.program));
    if (this.rewrite) show(byId("rewrite"), this.canReplay);
    this.editor = this.rewrite = null;
  }

  /** Next to the answer, show what it was before a value was changed. */
  compare(before, link) {
    const place = byId("was");
    show(place, before !== null);
    if (before === null) return;
    const now = answerText(this.recording.answer) ?? this.recording.answer?.reason ?? "…";
    place.replaceChildren("was ", el("a", { href: link }, shortened(before, 200)), now === before ? " (unchanged)" : "");
  }
}
