// @ts-check
// The page: either one recorded run, embedded in the file, or a server's runs, live.

import { Server, ServerError } from "./api.js";
import { showArtifacts } from "./artifacts.js";
import { Asking } from "./asking.js";
import { Check } from "./check.js";
import { byId, setText, show, startTheme, targetOf } from "./dom.js";
import { Draft, ModelStates } from "./loading.js";
import { Player } from "./player.js";
import { Recording, answerText, plural } from "./record.js";
import { Removal } from "./removal.js";
import { Questions } from "./questions.js";
import { Runs, say } from "./runs.js";
import { Sharing } from "./sharing.js";
import { Versions } from "./versions.js";
import { parseJson, shortened, unquoted, visible } from "./values.js";

const OVER = ["done", "cancelled", "interrupted", "failed"];
const ANNOUNCE_MS = 2500; // how often progress is announced to screen readers
const WAITING_MS = 2000; // how often a run that waits for a person is polled
const FINAL = ["answered", "error"]; // reasons after which nothing is left to do

/** A recorded run in its own file, which sends no requests. */
function startShared(data) {
  document.body.classList.add("shared");
  const recording = new Recording();
  for (const event of data.events) recording.add(event);
  recording.why = data.why ?? null;
  recording.answer ??= { reason: "unfinished", error: { type: "", message: "The trace ends before the run did." } };
  const player = new Player();
  player.title = data.title ?? "";
  player.open(recording);
  new Sharing({ run: () => ({ recording, attempt: player.attempt, id: null }) }).offer(recording);
  const answer = recording.answer;
  showArtifacts(answer?.artifacts ?? [], answer?.unsent ?? [], { inlined: data.images ?? {} });
  document.title = visible(shortened(player.title || String(recording.header?.question ?? "chainofcode"), 80));
}

/** The page of a server. */
class App {
  constructor() {
    this.server = new Server((wasWrong) => this.askToken(wasWrong));
    this.runs = new Runs(this.server);
    this.player = new Player({
      replay: (changes) => this.replay(changes),
      why: (recording) => this.fetchWhy(recording),
    });
    this.asking = new Asking(this.server, { begun: (id) => this.go(id), notice: (text) => this.notice(text) });
    this.check = new Check((id) => this.server.get(`${pathOf(id)}/verify`));
    this.removal = new Removal((id) => this.remove(id), (text) => this.notice(text));
    this.sharing = new Sharing({
      run: () => ({ recording: this.player.recording, attempt: this.player.attempt, id: this.id }),
      fetchBytes: async (id, what) => new Uint8Array(await (await this.server.fetch(`${pathOf(id)}/${what}`)).arrayBuffer()),
      notice: (text) => this.notice(text),
    });
    this.versions = new Versions(this.server);
    this.models = new ModelStates(this.server, () => this.tellProgress?.());
    this.draft = new Draft();
    this.questions = new Questions(this.server, { answered: () => this.reopen() });
    this.whyOf = new WeakMap(); // by recording, its dependencies, which are requested once
    this.answers = new Map(); // by run that was open, the answer that a reader saw
    this.id = undefined; // no page is open yet
    this.listen();
  }

  async start() {
    try {
      const info = await this.server.get("api/info");
      this.asking.offer(info);
      this.player.models = info.models ?? [];
      this.runs.offer(info);
      this.models.offer(info);
      await this.runs.refresh();
    } catch (error) {
      this.notice(error.message);
    }
    await this.openHash();
  }

  listen() {
    byId("cancel").addEventListener("click", () => this.cancel());
    byId("again").addEventListener("click", () => this.again());
    byId("resume").addEventListener("click", () => this.resume());
    document.addEventListener("keydown", (event) => {
      const isPlain = !event.ctrlKey && !event.metaKey && !event.altKey && !targetOf(event).closest?.("input, textarea, select, dialog");
      if (isPlain && event.key === "n") location.hash = "";
    });
    for (const id of ["home", "new"]) byId(id).addEventListener("click", () => this.id === null && this.asking.turn("question"));
    byId("notice-close").addEventListener("click", () => show(byId("notice"), false));
    addEventListener("hashchange", () => this.openHash());
  }

  go(id) {
    show(byId("notice"), false);
    location.hash = `run=${encodeURIComponent(id)}`;
  }

  async replay(changes) {
    const made = await this.server.post(`${pathOf(this.id)}/replay`, changes);
    this.go(made.id);
  }

  /** Ask the same question again, or run the same program again. */
  async again() {
    const { question, method, model, files = [] } = this.about;
    byId("again").disabled = true;
    try {
      const isQuestion = question != null && this.about.parent == null && method !== "run";
      const made = isQuestion ? await this.server.post("api/runs", { question, method, model, files, type: this.about.type ?? null, ask_me: this.about.ask_me ?? null }) : await this.server.post(`${pathOf(this.id)}/replay`, {});
      this.go(made.id);
    } catch (error) {
      this.notice(error.message);
    }
    byId("again").disabled = false;
  }

  /** Resume a run that was interrupted. */
  async resume() {
    byId("resume").disabled = true;
    try {
      await this.server.post(`${pathOf(this.id)}/resume`);
      await this.reopen();
    } catch (error) {
      this.notice(error.message);
    }
    byId("resume").disabled = false;
  }

  /** Show a finished run on the start page. */
  async showExample() {
    try {
      const data = parseJson(await (await this.server.fetch("static/example.json")).text());
      if (this.id !== null) return;
      const recording = new Recording();
      recording.isExample = true;
      for (const event of data.events) recording.add(event);
      recording.why = data.why;
      this.player.title = "";
      this.player.open(recording);
      this.player.compare(null);
      showArtifacts([], []);
      show(byId("progress"), false);
      this.sharing.offer(recording);
    } catch (error) {
      this.notice(error.message);
    }
  }

  async cancel() {
    try {
      await this.server.post(`${pathOf(this.id)}/cancel`);
    } catch (error) {
      this.notice(error.message);
    }
  }

  async remove(id) {
    await this.server.delete(pathOf(id));
    this.answers.delete(id);
    this.runs.forget(id);
    if (this.id === id) {
      history.replaceState(null, "", location.pathname); // so that the Back button does not lead to it
      await this.openHash();
    }
    say("The run was deleted.");
  }

  // --- one run ---------------------------------------------------------------------------------------------------

  /** Follow the open run again, from its start. */
  async reopen() {
    this.id = undefined;
    await this.openHash();
  }

  async openHash() {
    const id = new URLSearchParams(location.hash.slice(1)).get("run");
    if (id === this.id) return;
    this.id = id;
    this.stop?.abort();
    this.stop = new AbortController();
    this.runs.show(id);
    document.body.classList.toggle("has-run", id !== null);
    for (const part of ["empty", "ideas", "example-note"]) show(byId(part), id === null);
    show(byId("again"), false);
    show(byId("resume"), false);
    this.questions.clear();
    this.draft.clear();
    this.tellProgress = null;
    this.sharing.offer(null);
    this.versions.clear();
    this.asking.open(false);
    this.check.offer(null);
    this.removal.offer(null);
    if (this.player.recording?.isExample) this.player.open(null); // its answer must not look like that of a run
    if (id === null) {
      document.title = "chainofcode";
      this.player.open(null);
      byId("main").scrollTop = 0;
      this.asking.focus();
      return this.showExample();
    }
    try {
      await this.follow(id, this.stop.signal);
    } catch (error) {
      if (this.id === id) this.notice(error.status === 404 ? "No such run: it was deleted, or it belongs to another token." : error.message);
      show(byId("progress"), false);
    }
  }

  async follow(id, signal) {
    const recording = new Recording();
    const about = await this.server.getPatiently(pathOf(id), signal, (isGone) => this.gone(isGone));
    if (signal.aborted) return;
    this.about = about;
    this.player.title = about.question ?? "";
    this.player.open(recording);
    showArtifacts([], []);
    await this.compare(about);
    this.progress(recording, about.state, []);
    if (!OVER.includes(about.state)) {
      this.runs.refresh().catch(() => {}); // so that the list shows it immediately
      this.models.look();
    }
    let waiting = [];
    for await (const { event, data } of this.server.events(id, signal, (isGone) => this.gone(isGone))) {
      if (signal.aborted) return;
      if (event === "draft") this.draft.take(data);
      else if (event === "waiting") waiting = data.calls ?? [];
      else if (event === "end") {
        waiting = [];
        about.state = data.state;
      } else recording.add({ ...data, event });
      if (event === "program" || event === "answer" || event === "end") this.draft.clear();
      if (event === "step" || event === "answer") waiting = waiting.filter((call) => event === "step" && call.text !== data.call);
      this.player.grown(waiting);
      this.progress(recording, about.state === "queued" || about.state === "waiting" ? "running" : about.state, waiting);
    }
    if (signal.aborted) return;
    if (about.state === "waiting") await this.wait(id, recording, about, signal);
    else await this.ended(id, recording, about, signal);
  }

  /** Poll a run that waits for a person: it continues when all of its questions are answered, here or elsewhere. */
  async wait(id, recording, about, signal) {
    this.runs.refresh().catch(() => {});
    while (!signal.aborted && about.state === "waiting") {
      this.progress(recording, about.state, []);
      await this.questions.draw(id, signal).catch(() => {});
      await new Promise((resolve) => setTimeout(resolve, WAITING_MS));
      about = (await this.server.getPatiently(pathOf(id), signal, (isGone) => this.gone(isGone))) ?? about;
    }
    if (!signal.aborted) await this.reopen();
  }

  async ended(id, recording, about, signal) {
    const last = await this.server.getPatiently(pathOf(id), signal, (isGone) => this.gone(isGone));
    if (signal.aborted) return;
    if (!recording.answer) recording.answer = { reason: last.state === "done" ? last.reason || "no answer" : last.state, error: last.error ?? null };
    this.player.draw();
    this.progress(recording, last.state, []);
    const said = answerText(recording.answer);
    this.check.offer(said !== null && recording.attempts.length ? id : null);
    this.removal.offer(id);
    this.sharing.offer(recording);
    byId("again").textContent = about.question != null && !about.parent && about.method !== "run" ? "Ask again" : "Run again";
    show(byId("again"), true);
    show(byId("resume"), last.parent == null && !(last.state === "done" && FINAL.includes(last.reason)));
    this.answers.set(id, said ?? recording.answer.reason);
    await this.compare(last);
    say(said === null ? `No answer: ${recording.answer.reason}` : `Answer: ${shortened(said, 500)}`);
    document.title = visible(shortened(said ?? about.question ?? "chainofcode", 80));
    showArtifacts(last.artifacts ?? recording.answer.artifacts ?? [], recording.answer.unsent ?? [], {
      bytesOf: async (file) => new Uint8Array(await (await this.server.fetch(`${pathOf(id)}/artifacts/${encodeURIComponent(file.sha256)}`)).arrayBuffer()),
    });
    await this.runs.refresh().catch(() => {});
    if (!signal.aborted) await this.versions.draw(last, recording, signal).catch(() => {});
  }

  async compare(about) {
    if (!about.parent) return this.player.compare(null);
    let before = this.answers.get(about.parent);
    if (before === undefined) {
      try {
        const parent = await this.server.get(pathOf(about.parent));
        before = parent.answer == null ? parent.reason : unquoted(parent.answer);
      } catch {
        before = "unknown";
      }
    }
    this.player.compare(String(before), `#run=${encodeURIComponent(about.parent)}`);
  }

  async fetchWhy(recording) {
    const path = `${pathOf(this.id)}/why`;
    if (!this.whyOf.has(recording)) this.whyOf.set(recording, this.server.get(path).catch((error) => ({ steps: null, fault: error.message })));
    recording.why = await this.whyOf.get(recording);
  }

  // --- messages --------------------------------------------------------------------------------------------------

  progress(recording, state, waiting) {
    this.tellProgress = () => this.progress(recording, state, waiting);
    const isOver = OVER.includes(state);
    show(byId("progress"), !isOver);
    if (isOver) return;
    const attempt = recording.latest;
    const parts = [
      progressOf(state, attempt, this.models.of(this.about.model)),
      attempt?.steps.length && plural(attempt.steps.length, "step"),
      recording.calls && plural(recording.calls, "request"),
      waiting.length && `${plural(waiting.length, "call")} in flight`,
    ];
    const text = parts.filter(Boolean).join(" · ");
    setText(byId("progress-text"), text);
    if (Date.now() - (this.announcedAt ?? 0) > ANNOUNCE_MS) {
      this.announcedAt = Date.now();
      say(text);
    }
  }

  gone(isGone) {
    if (isGone) this.notice("Connection lost. Reconnecting …");
    else if (this.isGone) show(byId("notice"), false);
    this.isGone = isGone;
  }

  notice(text) {
    setText(byId("notice-text"), text);
    show(byId("notice"), true);
  }

  /** Ask the user for a token; all requests that need one wait for the same dialog. */
  askToken(wasWrong) {
    this.token ??= new Promise((resolve, reject) => {
      const dialog = byId("token-dialog");
      setText(byId("token-title"), wasWrong ? "Wrong token" : "This server requires a token");
      byId("token-form").onsubmit = (event) => {
        event.preventDefault();
        resolve(byId("token").value);
        dialog.close();
      };
      dialog.onclose = () => {
        this.token = null;
        byId("token").value = "";
        reject(new ServerError(401, "This server requires a token: reload the page to sign in."));
      };
      dialog.showModal();
    });
    return this.token;
  }
}

function progressOf(state, attempt, waitingFor) {
  if (state === "queued") return "waiting for its turn";
  if (state === "waiting") return "waiting for your answer";
  if (waitingFor !== null) return `waiting for the model: ${waitingFor}`;
  return attempt?.program ? "running" : "writing the program";
}

function pathOf(id) {
  return `api/runs/${encodeURIComponent(id)}`;
}

startTheme(byId("theme"));
byId("skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId("main").focus();
});
const embedded = byId("data");
if (embedded) startShared(parseJson(embedded.textContent));
else new App().start();
