// @ts-check
// A recorded run, or the part so far: attempts, steps, the state after each, dependencies.

import { ACTOR_WORDS, isCode } from "./dom.js";
import { pythonText, readable, shortened } from "./values.js";

const KEPT_EVERY = 200; // states that are kept whole; the states between are computed
const MAX_OUTPUT_CHARS = 20000;
const MAX_OTHERS = 8; // values that the model might have returned instead
const COMPOUND = new Set(["For", "AsyncFor", "While", "If", "With", "AsyncWith", "Try", "TryStar", "FunctionDef", "AsyncFunctionDef", "ClassDef", "Match"]);

/** Everything that is known of a run. Events are the lines of a trace file. */
export class Recording {
  constructor() {
    this.header = null;
    this.attempts = [];
    this.answer = null;
    this.isExample = false;
    this.isEarlier = false; // whether the answer is one that an attempt had given before
    this.calls = 0;
    this.tokens = 0;
    this.why = null; // dependencies in the last program that was run
  }

  add(event) {
    if (event.event === "trace") {
      this.header = event;
      return;
    }
    let attempt = this.attempts.at(-1);
    if (!attempt || attempt.answer || (event.event === "program" && attempt.program)) {
      if (event.event === "answer" && attempt?.answer && !event.then) {
        this.answer = event; // the answer of a vote, or an earlier one: an earlier program computed it
        this.isEarlier = true;
        return;
      }
      attempt = new Attempt(this.attempts.length, this.header?.inputs ?? {});
      this.attempts.push(attempt);
    }
    attempt.add(event);
    if (event.event === "answer" && !event.then) this.answer = event;
    if (event.event === "call" && !event.tool) {
      this.calls++;
      this.tokens += Number(event.usage?.prompt_tokens ?? 0) + Number(event.usage?.completion_tokens ?? 0);
    }
  }

  /** Whether the answer of an attempt is the final one, although something was tried after it. */
  stayed(attempt) {
    const said = answerText(attempt.answer);
    return Boolean(this.isEarlier && attempt.answer?.then && said !== null && said === answerText(this.answer));
  }

  /** The attempt that `why` and changes are about: the last program that was run. */
  get followed() {
    return this.attempts.findLast((one) => one.program && (one.steps.length || !one.answer || one.answer.sandbox)) ?? null;
  }

  /** The attempt to show first. */
  get latest() {
    const answering = this.answer && this.attempts.find((one) => one.answer === this.answer);
    return answering || (this.attempts.findLast((one) => one.program) ?? this.attempts.at(-1) ?? null);
  }

  /** All steps that these depend on, themselves included, by number; null if unknown. */
  slice(numbers) {
    const { steps, unused } = this.why ?? {};
    if (!steps) return null;
    const found = new Set(numbers);
    const pending = [...found];
    while (pending.length) {
      const next = pending.pop();
      for (const number of steps[next] ?? unused?.steps?.[next] ?? []) {
        if (!found.has(number)) {
          found.add(number);
          pending.push(number);
        }
      }
    }
    return found;
  }

  /** Whether the answer depends on a step. */
  counts(number) {
    return Object.hasOwn(this.why?.steps ?? {}, number);
  }
}

/** One program and its outcome; without a program, words of the model. */
export class Attempt {
  constructor(number, inputs) {
    this.number = number;
    this.program = null;
    this.steps = [];
    this.calls = [];
    this.answer = null;
    this.byLine = new Map(); // line → places in `steps`
    this.visits = new Map(); // call → how often it was made
    this.kept = [new Map(Object.entries(inputs).map(([name, value]) => [name, { text: pythonText(value), at: -1 }]))];
    this.printed = [];
  }

  add(event) {
    if (event.event === "program") this.program = event;
    else if (event.event === "call") this.calls.push(event);
    else if (event.event === "answer") this.answer = event;
    else if (event.event === "step") this.addStep(event);
  }

  addStep(step) {
    const place = this.steps.length;
    this.steps.push(step);
    if (!this.byLine.has(step.line)) this.byLine.set(step.line, []);
    this.byLine.get(step.line).push(place);
    if (step.call != null) this.visits.set(step.call, (this.visits.get(step.call) ?? 0) + 1);
    if (step.output) this.printed.push([place, step.output]);
    if (this.steps.length % KEPT_EVERY === 0) this.kept.push(this.stateAt(this.steps.length));
  }

  /** Variables after `count` steps: name → its text and the place of the step that set it. */
  stateAt(count) {
    const from = Math.min(Math.floor(count / KEPT_EVERY), this.kept.length - 1);
    const state = new Map(this.kept[from]);
    for (let place = from * KEPT_EVERY; place < count; place++) {
      for (const [name, text] of Object.entries(this.steps[place].delta ?? {})) {
        if (text === null) state.delete(name);
        else state.set(name, { text, at: place });
      }
    }
    return state;
  }

  /** The output of the first `count` steps; only the end of a long one. */
  outputAt(count) {
    const parts = [];
    let size = 0;
    for (let i = placeBefore(this.printed, count, (item) => item[0]); i >= 0 && size < MAX_OUTPUT_CHARS; i--) {
      parts.push(this.printed[i][1]);
      size += this.printed[i][1].length;
    }
    const text = parts.reverse().join("");
    return size > MAX_OUTPUT_CHARS ? "…" + text.slice(-MAX_OUTPUT_CHARS) : text;
  }

  /** The last step of a line among the first `count`, and the calls that belong to it. */
  lastOf(line, count) {
    const places = this.byLine.get(line) ?? [];
    const end = placeBefore(places, count, (place) => place);
    if (end < 0) return null;
    const last = this.steps[places[end]];
    const asked = [];
    for (let i = isCode(last.by) ? end - 1 : end; i >= 0 && !isCode(this.steps[places[i]].by); i--) {
      asked.push(this.steps[places[i]]);
    }
    return { last, place: places[end], times: end + 1, asked: asked.reverse() };
  }

  /** The next step of a line after `count` steps, or else its first one. */
  nextOf(line, count) {
    const places = this.byLine.get(line) ?? [];
    return places.find((place) => place >= count) ?? places[0] ?? null;
  }

  /** The lines of a statement, without the body of an `if` or a `def`. */
  linesOf(step) {
    const place = this.program?.statements?.[step.statement];
    if (!place || COMPOUND.has(place[4])) return [step.line];
    return Array.from({ length: Math.min(place[2] - place[0], 60) + 1 }, (_, i) => place[0] + i);
  }

  indexOf(number) {
    const guess = number - 1;
    return this.steps[guess]?.number === number ? guess : this.steps.findIndex((step) => step.number === number);
  }
}

/** The place of the last item below a bound in a sorted list; -1 for none. */
function placeBefore(items, bound, key) {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (key(items[middle]) < bound) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** The outcome of a step, in words. */
export function whatOf(step) {
  return partsOfStep(step).filter(Boolean).join(" ");
}

/** The call of a step, if it has one, its outcome, how sure the model was, and how the call was answered. */
export function partsOfStep(step) {
  const isCall = step.call != null && !Object.keys(step.delta ?? {}).length;
  const parts = [...(isCall ? [cameOf(step)] : []), ...changesOf(step).map(([name, text]) => (name === null ? text : text === null ? `${name} deleted` : `${name} = ${text}`))];
  return [isCall ? oneLine(step.call) : "", parts.join("   "), howSure(step.confidence), isCall && step.how ? `(${step.how})` : ""];
}

/** What a step changed: its outcome, which has no name, and variables; the text is null for a deleted one. */
export function changesOf(step) {
  const changes = Object.entries(step.delta ?? {}).map(([name, text]) => [name, text === null ? null : readable(text)]);
  if (step.outcome != null) changes.unshift([null, `${changes.length ? "" : "→ "}${readable(step.outcome)}`]);
  return changes;
}

/** The value of a call, or how it failed. */
export function cameOf(step) {
  return step.error != null ? `✗ ${readable(step.error)}` : `→ ${pythonText(step.value, 200)}`;
}

/** How sure the model was of a value: `73% sure`, of a score `± 1.2`, of several replies `60% of 5 replies`. */
export function howSure(confidence) {
  if (!confidence) return "";
  if (confidence.spread != null) return `± ${shortened(Number(confidence.spread).toFixed(1), 12)}`;
  const share = perCent(confidence.probability);
  return Number(confidence.samples ?? 0) ? `${share} of ${Number(confidence.samples)} replies` : `${share} sure`;
}

/** The values that the model might have returned instead, the likeliest first. */
export function otherwise(confidence) {
  const others = Object.entries(confidence?.alternatives ?? {}).sort((one, other) => other[1] - one[1]); // objects list keys that are integers first
  return others.slice(0, MAX_OTHERS).map(([text, share]) => `${shortened(text, 60)} ${perCent(share)}`).join(", ");
}

/** How sure the model was of its least certain value, null if unknown. Scores do not count: they are means. */
export function leastSure(steps) {
  const judged = steps.filter((step) => step.confidence && step.confidence.spread == null);
  return judged.reduce((least, step) => Math.min(least ?? 1, Number(step.confidence.probability)), null);
}

/** A probability for readers; only certainty is shown as 100%. */
export function perCent(share) {
  const number = Number(share);
  if (number > 0.99 && number < 1) return ">99%";
  return number > 0 && number < 0.01 ? "<1%" : `${shortened(String(Math.round(number * 100)), 12)}%`;
}

export function oneLine(text) {
  return readable(text).replaceAll("\n", "⏎");
}

/** An answer as a reader wants it: text without its quotes. */
export function answerText(answer) {
  if (!answer || answer.reason !== "answered") return null;
  if (typeof answer.value === "string") return answer.value;
  return readable(answer.text ?? "") || pythonText(answer.value, 4000);
}

/** How a run went, in one line. */
export function factsOf(recording) {
  const { answer, attempts, calls, tokens } = recording;
  const steps = attempts.flatMap((attempt) => attempt.steps);
  const sources = { expression: "the value of its last expression", output: "what it printed last", reply: "as the model states it" };
  const asked = steps.filter((step) => step.by === "lm" && step.how !== "shared").length;
  const tools = steps.filter((step) => step.by === "tool").length;
  const seconds = Number(answer?.total_seconds ?? answer?.seconds ?? 0);
  const votes = Object.entries(answer?.votes ?? {}).map(([text, count]) => `${shortened(text, 30)} × ${count}`);
  return [
    answer && recording.followed?.program.language !== "sql" && sources[answer.source],
    sureOf(answer, recording.followed),
    steps.length && plural(steps.filter((step) => isCode(step.by)).length, `${ACTOR_WORDS[steps.find((step) => isCode(step.by))?.by] ?? "Python"} step`),
    asked && plural(asked, "LM call"),
    tools && plural(tools, "tool call"),
    calls && plural(calls, "request"),
    tokens && plural(tokens, "token"),
    seconds > 0 && `${seconds.toFixed(2)} s`,
    votes.length && `votes: ${votes.join(", ")}`,
    answer?.sandbox && `sandbox ${answer.sandbox}`,
  ].filter(Boolean).join("  ·  ");
}

/** How sure the model was of the answer that it states, or of its least certain value. */
function sureOf(answer, attempt) {
  if (answer?.source === "reply") return answer.confidence != null && `${perCent(answer.confidence)} sure`;
  const least = answer?.reason === "answered" ? leastSure(attempt?.steps ?? []) : null;
  return least !== null && `least sure value: ${perCent(least)}`;
}

export function plural(number, noun) {
  return `${Number(number).toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}
