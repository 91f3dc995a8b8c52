// @ts-check
// Requests to models and tools as a timeline: what overlapped, what waited, what was cached or wasted.

import { el } from "./dom.js";
import { oneLine, plural } from "./record.js";
import { shortened } from "./values.js";

const MAX_BARS = 100;
const LEAST_PERCENT = 0.6; // of a bar: a shorter one would be invisible

/** The view of one attempt’s requests; null where their times are unknown. */
export function timelineOf(attempt) {
  const calls = attempt.calls.filter((call) => Number(call.started ?? 0) > 0).map((call) => ({ call, from: Number(call.started), to: Number(call.started) + Number(call.seconds ?? 0) }));
  if (!calls.length) return null;
  const first = Math.min(...calls.map((one) => one.from));
  const whole = Math.max(...calls.map((one) => one.to)) - first || 0.001;
  const rows = calls.slice(0, MAX_BARS).map(({ call, from, to }, number) => {
    const bar = el("span", { class: `bar ${call.tool ? "tool" : "lm"}${call.is_abandoned ? " wasted" : ""}` });
    const size = Math.max((100 * (to - from)) / whole, LEAST_PERCENT);
    bar.style.setProperty("--from", `${Math.min((100 * (from - first)) / whole, 100 - size)}%`);
    bar.style.setProperty("--size", `${size}%`);
    return el("li", { title: shortened(oneLine(call.prompt ?? ""), 300) }, el("span", { class: "number" }, number + 1), el("code", { class: "what" }, shortened(nameOf(call, attempt), 120)), el("span", { class: "track" }, bar), el("span", { class: "faint" }, `${(to - from).toFixed(2)} s${noteOf(call)}`));
  });
  return el("section", { class: "timeline", "aria-label": "Timeline of requests" }, el("p", { class: "faint" }, summaryOf(attempt, calls, whole)), el("ol", {}, ...rows));
}

/** What a request was for: the calls of the program that it answers, a tool, or the program itself. */
function nameOf(call, attempt) {
  if (call.tool) return oneLine(call.prompt ?? call.tool);
  const answered = Object.keys(call.answers ?? {});
  if (answered.length) return answered.map((text) => oneLine(text)).join(", ");
  const source = attempt.program?.source.trim();
  return source && String(call.reply).includes(source) ? "the program" : "";
}

function noteOf(call) {
  if (call.is_abandoned) return " · wasted";
  if (call.is_cached) return " · cached";
  return Number(call.usage?.cached_tokens ?? 0) > 0 ? ` · ${plural(Number(call.usage.cached_tokens), "cached token")}` : "";
}

function summaryOf(attempt, calls, whole) {
  const how = (name) => attempt.steps.filter((step) => step.how === name).length;
  const spent = calls.reduce((sum, one) => sum + one.to - one.from, 0);
  const wasted = Math.max(Number(attempt.answer?.wasted ?? 0), calls.filter((one) => one.call.is_abandoned).length);
  return [
    `${plural(calls.length, "request")} in ${whole.toFixed(2)} s, ${spent.toFixed(2)} s one by one`,
    `at most ${mostAtOnce(calls)} at once`,
    how("ahead") && `${how("ahead")} sent ahead`,
    how("batched") && `${how("batched")} in batches`,
    how("shared") && `${how("shared")} answered from earlier ones`,
    calls.some((one) => one.call.is_cached) && `${calls.filter((one) => one.call.is_cached).length} cached`,
    wasted && `${wasted} wasted`,
  ].filter(Boolean).join(" · ");
}

/** The largest number of requests that were in flight at once. */
function mostAtOnce(calls) {
  const edges = calls.flatMap((one) => [[one.from, 1], [one.to, -1]]).sort((one, other) => one[0] - other[0] || other[1] - one[1]);
  let now = 0;
  let most = 0;
  for (const [, change] of edges) most = Math.max(most, (now += change));
  return most;
}
