// Values as text for the trace. No code of the program runs: no getter, no `toJSON`, no proxy trap.

const MAX_TEXT = 240, MAX_ITEMS = 64, MAX_DEPTH = 6;
let room = 0;  // characters left for the current text
const proxies = new Registry();
const is = (probe, value) => {
  try {
    probe(value);
    return true;
  } catch {
    return false;
  }
};
const isMap = (value) => is(sizeOf.map, value), isSet = (value) => is(sizeOf.set, value), isDate = (value) => is(moment, value);
const isRegExp = (value) => is(regexpSource, value);
const isTyped = (value) => is(lengthOf, value), isError = Error.isError;

function brief(value, depth = 0) {
  if (depth === 0) room = MAX_TEXT;
  const text = briefPart(value, depth);
  if (typeof value !== "object") room -= text.length;
  return text;
}

function briefPart(value, depth) {
  // Truncated text is not JSON, so that it cannot be mistaken for the whole value.
  if (typeof value === "string") return value.length > MAX_TEXT ? `${value.length} characters: ${stringify(slice(value, 0, MAX_TEXT))}…` : stringify(value);
  if (typeof value === "number") return numberText(value);
  if (typeof value === "bigint") return `${bigintText(value)}n`;
  if (typeof value === "symbol") return symbolText(value);
  if (typeof value !== "object" && typeof value !== "function") return `${value}`;
  if (value === null) return "null";
  if (isIn(proxies, value)) return "[Proxy]";
  if (typeof value === "function") return `[Function: ${ownText(value, "name")}]`;
  return depth > MAX_DEPTH ? "…" : briefObject(value, depth);
}

function ownText(value, name) {
  const found = getOwnPropertyDescriptor(value, name);
  return found !== undefined && typeof found.value === "string" ? found.value : "";
}

function briefObject(value, depth) {
  if (isArray(value)) return `[${briefItems(value, value.length, depth)}]`;
  if (isTyped(value)) return `[${briefItems(value, lengthOf(value), depth)}]`;
  if (isDate(value)) return moment(value) === moment(value) ? stringify(isoText(value)) : "Invalid Date";
  if (isError(value)) return `[Error: ${ownText(value, "message")}]`;
  if (isMap(value)) return `Map(${sizeOf.map(value)}) ${briefEntries(eachOfMap, value, depth, true)}`;
  if (isSet(value)) return `Set(${sizeOf.set(value)}) ${briefEntries(eachOfSet, value, depth, false)}`;
  if (isRegExp(value)) return regexpText(value);
  const kind = getPrototypeOf(value);
  if (kind === null || kind === ObjectPrototype || isIn(proxies, kind)) return briefFields(value, depth);
  const maker = getOwnPropertyDescriptor(kind, "constructor");
  const isNamed = maker !== undefined && typeof maker.value === "function" && !isIn(proxies, maker.value);
  return `${isNamed ? ownText(maker.value, "name") : "object"} ${briefFields(value, depth)}`;
}

function regexpText(value) {
  let flags = "";
  for (let at = 0; at < regexpFlags.length; at++) if (regexpFlags[at][0](value)) flags += regexpFlags[at][1];
  return `/${regexpSource(value)}/${flags}`;
}

function briefItems(value, length, depth) {
  let out = "";
  for (let at = 0; at < length; at++) {
    if (at >= MAX_ITEMS || room < 0) return `${out},… ${length - at} more`;
    out += (at ? "," : "") + briefField(value, `${at}`, depth);
  }
  return out;
}

function briefField(value, key, depth) {
  const found = getOwnPropertyDescriptor(value, key);
  if (found === undefined) return "null";
  return hasOwn(found, "value") ? brief(found.value, depth + 1) : "[Getter]";
}

function briefEntries(each, value, depth, isPair) {
  let out = "", count = 0;
  each(value, (item, key) => {
    count++;
    if (count > MAX_ITEMS || room < 0) return;
    out += (out ? "," : "") + (isPair ? `${brief(key, depth + 1)}:` : "") + brief(item, depth + 1);
  });
  return `{${out}${count > MAX_ITEMS || room < 0 ? ",…" : ""}}`;
}

function briefFields(value, depth) {
  const keys = ownKeys(value);
  let out = "", count = 0;
  for (let at = 0; at < keys.length; at++) {
    if (typeof keys[at] !== "string") continue;
    if (count++ >= MAX_ITEMS || room < 0) return `{${out},…}`;
    room -= keys[at].length;
    out += `${out ? "," : ""}${stringify(keys[at])}:${briefField(value, keys[at], depth)}`;
  }
  return `{${out}}`;
}
