// The page: either one recorded run, embedded in the file, or a server's runs, live.

import { Server, ServerError } from "./api.js";
import { showArtifacts } from "./artifacts.js";
import { Asking } from "./asking.js";
import { Check } from "./check.js";
import { byId, setText, show, startTheme } from "./dom.js";
import { Player } from "./player.js";
import { Recording, answerText, plural } from "./record.js";
import { Removal } from "./removal.js";
import { Runs, say } from "./runs.js";
import { parseJson, shortened, unquoted, visible } from "./values.js";

const OVER = ["done", "cancelled", "interrupted", "failed"];
const TELL_MS = 2500; // how often progress is read out

/** A recorded run in a file of its own: nothing is asked of anyone. */
function startShared(data) {
  document.body.classList.add("shared");
  const recording = new Recording();
  for (const event of data.events) recording.add(event);
  recording.why = data.why ?? null;
  recording.answer ??= { reason: "unfinished", error: { type: "", message: "The trace ends before the run did." } };
  const player = new Player();
  player.title = data.title ?? "";
  player.open(recording);
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
    this.answers = new Map(); // of runs that were open: what a reader saw
    this.id = null;
    this.listen();
  }

  async start() {
    try {
      this.asking.offer(await this.server.get("api/info"));
      await this.runs.refresh();
    } catch (error) {
      this.notice(error.message);
    }
    await this.openHash();
  }

  listen() {
    byId("cancel").addEventListener("click", () => this.cancel());
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
      history.replaceState(null, "", location.pathname); // the way back does not lead to it
      await this.openHash();
    }
    say("The run is deleted.");
  }

  // --- one run ---------------------------------------------------------------------------------------------------

  async openHash() {
    const id = new URLSearchParams(location.hash.slice(1)).get("run");
    if (id === this.id) return;
    this.id = id;
    this.stop?.abort();
    this.stop = new AbortController();
    this.runs.show(id);
    document.body.classList.toggle("has-run", id !== null);
    show(byId("empty"), id === null);
    this.asking.open(false);
    this.check.offer(null);
    this.removal.offer(null);
    if (id === null) {
      document.title = "chainofcode";
      this.player.open(null);
      this.asking.focus();
      return;
    }
    try {
      await this.follow(id, this.stop.signal);
    } catch (error) {
      if (this.id === id) this.notice(error.status === 404 ? "There is no such run." : error.message);
      show(byId("progress"), false);
    }
  }

  async follow(id, signal) {
    const recording = new Recording();
    const about = await this.server.getPatiently(pathOf(id), signal, (isGone) => this.gone(isGone));
    if (signal.aborted) return;
    this.player.title = about.question ?? "";
    this.player.open(recording);
    showArtifacts([], []);
    await this.compare(about);
    this.progress(recording, about.state, []);
    if (!OVER.includes(about.state)) this.runs.refresh().catch(() => {}); // it is in the list from its first moment
    let waiting = [];
    for await (const { event, data } of this.server.events(id, signal, (isGone) => this.gone(isGone))) {
      if (signal.aborted) return;
      if (event === "waiting") waiting = data.calls ?? [];
      else if (event === "end") {
        waiting = [];
        about.state = data.state;
      } else recording.add({ ...data, event });
      if (event === "step" || event === "answer") waiting = waiting.filter((call) => event === "step" && call.text !== data.call);
      this.player.grown(waiting);
      this.progress(recording, about.state === "queued" ? "running" : about.state, waiting);
    }
    if (!signal.aborted) await this.ended(id, recording, about, signal);
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
    this.answers.set(id, said ?? recording.answer.reason);
    await this.compare(last);
    say(said === null ? `No answer: ${recording.answer.reason}` : `Answer: ${shortened(said, 500)}`);
    document.title = visible(shortened(said ?? about.question ?? "chainofcode", 80));
    showArtifacts(last.artifacts ?? recording.answer.artifacts ?? [], recording.answer.unsent ?? [], {
      bytesOf: async (file) => new Uint8Array(await (await this.server.fetch(`${pathOf(id)}/artifacts/${encodeURIComponent(file.sha256)}`)).arrayBuffer()),
    });
    this.runs.refresh().catch(() => {});
  }

  async compare(about) {
    if (!about.parent) return this.player.compare(null);
    let before = this.answers.get(about.parent);
    if (before === undefined) {
      try {
        const parent = await this.server.get(pathOf(about.parent));
        before = parent.answer == null ? parent.reason : unquoted(parent.answer);
      } catch {
        before = "the run before";
      }
    }
    this.player.compare(String(before), `#run=${encodeURIComponent(about.parent)}`);
  }

  async fetchWhy(recording) {
    this.whyOf ??= new WeakMap();
    const path = `${pathOf(this.id)}/why`;
    if (!this.whyOf.has(recording)) this.whyOf.set(recording, this.server.get(path).catch((error) => ({ steps: null, fault: error.message })));
    recording.why = await this.whyOf.get(recording);
  }

  // --- telling ---------------------------------------------------------------------------------------------------

  progress(recording, state, waiting) {
    const isOver = OVER.includes(state);
    show(byId("progress"), !isOver);
    if (isOver) return;
    const attempt = recording.latest;
    const parts = [
      state === "queued" ? "waiting for its turn" : attempt?.program ? "running" : "writing the program",
      attempt?.steps.length && plural(attempt.steps.length, "step"),
      recording.calls && plural(recording.calls, "request"),
      waiting.length && `${plural(waiting.length, "call")} in flight`,
    ];
    const text = parts.filter(Boolean).join(" · ");
    setText(byId("progress-text"), text);
    if (Date.now() - (this.toldAt ?? 0) > TELL_MS) {
      this.toldAt = Date.now();
      say(text);
    }
  }

  gone(isGone) {
    if (isGone) this.notice("The server is gone. Trying again …", true);
    else if (this.isGone) show(byId("notice"), false);
    this.isGone = isGone;
  }

  notice(text) {
    setText(byId("notice-text"), text);
    show(byId("notice"), true);
  }

  /** A token, from whoever sits here; everybody who needs one waits for the same. */
  askToken(wasWrong) {
    this.token ??= new Promise((resolve, reject) => {
      const dialog = byId("token-dialog");
      setText(byId("token-title"), wasWrong ? "That token is not the one" : "This server asks for a token");
      byId("token-form").onsubmit = (event) => {
        event.preventDefault();
        resolve(byId("token").value);
        dialog.close();
      };
      dialog.onclose = () => {
        this.token = null;
        byId("token").value = "";
        reject(new ServerError(401, "This server asks for a token: reload the page to sign in."));
      };
      dialog.showModal();
    });
    return this.token;
  }
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
