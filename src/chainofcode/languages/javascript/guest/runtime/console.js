// The console: one output, objects as JSON.

let indent = "";
const counts = create(null), started = create(null);

function say(...args) {
  const isFormat = args.length > 1 && typeof args[0] === "string" && indexOf(args[0], "%") >= 0;
  let text = isFormat ? "" : indent, at = 0;
  if (isFormat) {
    [text, at] = formatted(args);
    text = indent + text;
  }
  for (let isFirst = at === 0; at < args.length; at++, isFirst = false) text += (isFirst ? "" : " ") + spokenText(args[at]);
  print(stringify(`${text}\n`), stringify(whereFrom(say)));
}

function formatted(args) {
  // Formats `%s` and the like in the first argument. Returns the text, and the number of arguments that it used.
  const format = args[0];
  let text = "", used = 1, from = 0;
  for (let at = indexOf(format, "%"); at >= 0; at = indexOf(format, "%", from)) {
    const letter = format[at + 1], isKnown = letter !== undefined && indexOf("sdifjoOc", letter) >= 0;
    text += slice(format, from, at);
    if (letter === "%") text += "%";
    else if (isKnown && used < args.length) text += converted(letter, args[used++]);
    else text += slice(format, at, at + 2);
    from = at + 2;
  }
  return [text + slice(format, from), used];
}

function converted(letter, value) {
  if (letter === "c") return "";
  if (letter === "d") return `${typeof value === "object" ? NaN : NumberOf(value)}`;
  if (letter === "i") return `${parseWhole(value)}`;
  return letter === "f" ? `${parseReal(value)}` : spokenText(value);
}

function spokenText(value) {
  return typeof value === "string" ? value : spoken(value);
}

function spoken(value) {
  if (typeof value !== "object" || value === null) return brief(value);
  try {
    return new Encoder().text(value, false) ?? brief(value);
  } catch {
    return brief(value);
  }
}

put("console", {
  log: say, info: say, warn: say, error: say, debug: say, table: say, dir: (value) => say(value), trace: say,
  assert: (isTrue, ...args) => (isTrue ? undefined : say("Assertion failed", ...args)),
  group(...args) {
    if (args.length) say(...args);
    indent += "  ";
  },
  groupEnd() {
    indent = slice(indent, 2);
  },
  count(label = "default") {
    counts[`${label}`] = (counts[`${label}`] || 0) + 1;
    say(`${label}: ${counts[`${label}`]}`);
  },
  time: (label = "default") => void (started[`${label}`] = elapsed),
  timeEnd: (label = "default") => say(`${label}: ${elapsed - (started[`${label}`] || 0)}ms`),
});
