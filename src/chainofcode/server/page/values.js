// @ts-check
// Tagged values (see values/codec.py) as Python writes them, and Python literals that a person types.

/** JSON as data; numbers that JavaScript would change (2.0, 2**60) stay as they are written. */
export function parseJson(text) {
  return JSON.parse(text, (_key, value, context) => {
    if (typeof value !== "number" || !context) return value;
    return /[.eE]/.test(context.source) || !Number.isSafeInteger(value) ? new Written(context.source) : value;
  });
}

/** A number, as it was written. */
export class Written {
  constructor(text) {
    this.text = text;
  }
  valueOf() {
    return Number(this.text);
  }
  toString() {
    return this.text;
  }
}

const BRACKETS = { $tuple: ["(", ")"], $set: ["{", "}"], $frozenset: ["frozenset({", "})"] };
const NAMED = {
  $int: (body) => String(body),
  $float: (body) => `float('${body}')`,
  $decimal: (body) => `Decimal('${body}')`,
  $fraction: (body) => `Fraction('${body}')`,
  $complex: (body) => `complex(${body.map((part) => pythonText(part)).join(", ")})`,
  $date: (body) => `date('${body}')`,
  $datetime: (body) => `datetime('${body}')`,
  $time: (body) => `time('${body}')`,
  $timedelta: (body) => `timedelta(${body.join(", ")})`,
  $range: (body) => `range(${body.map((part) => pythonText(part)).join(", ")})`,
  $bytes: (body) => `bytes(${Math.floor((String(body).length * 3) / 4)})`,
  $text: () => "text that is not Unicode",
  $object: (body) => String(body.text),
};

/** A tagged value as text of about `limit` characters. */
export function pythonText(value, limit = 400) {
  if (value === null || value === undefined) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (value instanceof Written || typeof value === "number") return String(value);
  if (typeof value === "string") return quoted(shortened(value, limit));
  if (Array.isArray(value)) return `[${listed(value, limit)}]`;
  const names = Object.keys(value);
  if (names.length === 1 && names[0].startsWith("$")) return tagged(names[0], value[names[0]], limit);
  const pairs = names.map((name) => [name, value[name]]);
  return `{${paired(pairs, limit)}}`;
}

function tagged(tag, body, limit) {
  if (tag === "$dict" && Array.isArray(body)) return `{${paired(body, limit)}}`;
  if (Object.hasOwn(BRACKETS, tag) && Array.isArray(body)) {
    if (!body.length && tag === "$set") return "set()";
    const [opening, closing] = BRACKETS[tag];
    return opening + listed(body, limit) + (tag === "$tuple" && body.length === 1 ? "," : "") + closing;
  }
  try {
    return Object.hasOwn(NAMED, tag) ? shortened(NAMED[tag](body), limit) : "?";
  } catch {
    return "?"; // a body that does not fit its tag
  }
}

function listed(items, limit) {
  return joined(items, limit, (item, left) => pythonText(item, left));
}

function paired(pairs, limit) {
  return joined(pairs, limit, (pair, left) => `${pythonText(pair[0], left)}: ${pythonText(pair[1], left)}`);
}

function joined(items, limit, write) {
  const parts = [];
  let left = limit;
  for (const item of items) {
    if (left <= 0) {
      parts.push(`… ${items.length} in all`);
      break;
    }
    parts.push(write(item, left));
    left -= parts.at(-1).length + 2;
  }
  return parts.join(", ");
}

function quoted(text) {
  const mark = text.includes("'") && !text.includes('"') ? '"' : "'";
  const escaped = text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n").replaceAll("\r", "\\r").replaceAll("\t", "\\t");
  return mark + (mark === "'" ? escaped.replaceAll("'", "\\'") : escaped) + mark;
}

/** Text that Python's `repr` wrote, without its quotes; anything else unchanged. */
export function unquoted(text) {
  const inner = /^(['"])([^\\]*)\1$/s.exec(String(text));
  return inner ? inner[2] : String(text);
}

/** Text from Python’s `repr`, with joiners, tags and direction marks as characters; `visible` escapes those that hide something. */
export function readable(text) {
  return String(text).replace(/(\\\\)|\\(?:u(200[c-f]|061c)|U(000e00[0-7][0-9a-f]))/g, (_all, backslash, short, long) => backslash ?? String.fromCodePoint(parseInt(short ?? long, 16)));
}

/** Text of at most `limit` characters; no character is cut in two. */
export function shortened(text, limit) {
  return text.length <= limit ? text : text.slice(0, Math.max(limit - 1, 1)).replace(/[\ud800-\udbff\u200d]+$/, "") + "…";
}

// Characters that are invisible, or reverse the text around them: written out instead.
const UNSEEN = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;

// Where such characters belong to the writing: emoji made of several, flags, joiners inside words of scripts that join
// letters, and marks of direction next to letters that run from right to left.
const JOINING = "\\p{Script=Arabic}\\p{Script=Syriac}\\p{Script=Mongolian}\\p{Script=Devanagari}\\p{Script=Bengali}\\p{Script=Gurmukhi}\\p{Script=Gujarati}\\p{Script=Oriya}\\p{Script=Tamil}\\p{Script=Telugu}\\p{Script=Kannada}\\p{Script=Malayalam}\\p{Script=Sinhala}\\p{Script=Khmer}\\p{Script=Myanmar}";
const LEFTWARD = "\\p{Script=Arabic}\\p{Script=Hebrew}\\p{Script=Syriac}\\p{Script=Thaana}\\p{Script=Nko}";
const EMOJI = "\\p{Extended_Pictographic}(?:\\ufe0f|[\\u{1f3fb}-\\u{1f3ff}])?";
const WRITTEN = new RegExp(
  `(${EMOJI}(?:\\u200d${EMOJI})+|\\u{1f3f4}[\\u{e0061}-\\u{e007a}]{2,6}\\u{e007f}|(?<=[${JOINING}])[\\u200c\\u200d](?=[${JOINING}])|(?<=[${LEFTWARD}])[\\u200e\\u200f\\u061c]|[\\u200e\\u200f\\u061c](?=[${LEFTWARD}]))|${UNSEEN.source}`,
  "gu",
);

/** Text in which nothing is invisible; lines stay lines, and words of every script stay as they are written. */
export function visible(text) {
  return String(text).replace(WRITTEN, (character, written) => {
    if (written !== undefined) return character;
    if (character === "\t") return "    ";
    const code = character.codePointAt(0).toString(16);
    return code.length > 4 ? `\\U${code.padStart(8, "0")}` : code.length > 2 ? `\\u${code.padStart(4, "0")}` : `\\x${code.padStart(2, "0")}`;
  });
}

// --- Python literals ---------------------------------------------------------------------------------------------

const STRING = /^[rRuUbB]{0,2}("""(?:\\[^]|[^\\])*?"""|'''(?:\\[^]|[^\\])*?'''|"(?:\\[^]|[^"\\\n])*"|'(?:\\[^]|[^'\\\n])*')/;
const NUMBER = /^[+-]?\s*(0[xX][\da-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+|(\d[\d_]*\.?[\d_]*|\.\d[\d_]*)([eE][+-]?\d+)?[jJ]?)(?![\w.])/;
const CLOSING = { "[": "]", "(": ")", "{": "}" };

/** What is wrong with a Python literal, or "". The server checks it again. */
export function literalFault(text) {
  const rest = { text: text.trim(), depth: 0 };
  if (!rest.text) return "Enter a value.";
  const fault = takeLiteral(rest);
  if (fault) return fault;
  return rest.text ? `Unexpected “${shortened(rest.text, 20)}” at the end. Text needs quotes.` : "";
}

function takeLiteral(rest) {
  const pattern = [STRING, NUMBER, /^(True|False|None|set\(\))(?!\w)/].find((one) => one.test(rest.text));
  if (pattern) {
    rest.text = rest.text.replace(pattern, "").trimStart();
    return "";
  }
  const closing = CLOSING[rest.text[0]];
  if (closing) return takeItems(rest, rest.text[0], closing);
  if (/^["']/.test(rest.text)) return "A quote is not closed.";
  const word = /^\w+/.exec(rest.text)?.[0];
  if (word && /^(true|false|null)$/.test(word)) return `Python writes ${{ true: "True", false: "False", null: "None" }[word]}.`;
  return `“${shortened(word ?? rest.text, 20)}” is not a Python literal. Text needs quotes.`;
}

function takeItems(rest, opening, closing) {
  if (++rest.depth > 50) return "The value is nested too deeply.";
  rest.text = rest.text.slice(1).trimStart();
  while (rest.text[0] !== closing) {
    if (!rest.text) return `A “${opening}” is not closed.`;
    const fault = takeLiteral(rest);
    if (fault) return fault;
    if (opening === "{" && rest.text[0] === ":") {
      rest.text = rest.text.slice(1).trimStart();
      const second = takeLiteral(rest);
      if (second) return second;
    }
    if (rest.text[0] === ",") rest.text = rest.text.slice(1).trimStart();
    else if (rest.text[0] !== closing) return rest.text ? `A comma or “${closing}” is missing.` : `A “${opening}” is not closed.`;
  }
  rest.text = rest.text.slice(1).trimStart();
  rest.depth--;
  return "";
}
