// Methods that would need `Intl`: `localeCompare`, `toLocaleString` and the like, in American English. They run only when
// a program calls them, so they may use built-ins that the program can change.

function checkLocale(locales, options, known) {
  for (const locale of locales === undefined ? [] : [locales].flat()) {
    if (!/^(en|en-US|default)$/.test(locale)) throw new RangeErrorOf(`locale ${brief(locale)} is not available: only "en-US" is`);
  }
  for (const name of Object.keys(options)) {
    if (!known.includes(name) && options[name] !== undefined) throw new RangeErrorOf(`option ${brief(name)} is not available without Intl`);
  }
  return options;
}

// --- comparing strings: letters first, then accents, then capitals, as in Unicode collation ------------------------------

const ORDER = "\t\n\v\f\r \u00a0_-–—,;:!?.…'‘’\"“”()[]{}@*/\\&#%`^°©+<=>|~→×¢$£¥€0123456789";
const ACCENTS = "\u0301\u0300\u0306\u0302\u030c\u030a\u0308\u030b\u0303\u0307\u0327\u0328\u0304";  // in this order
const ALIKE = { ß: "ss", æ: "ae", œ: "oe", ø: "o", ł: "l", đ: "d", ı: "i" };

function weightOf(character) {
  const at = ORDER.indexOf(character);
  if (at >= 0) return at + 1;
  const isSymbol = /^[\p{S}\p{P}]/u.test(character), code = character.codePointAt(0);
  return isSymbol ? ORDER.indexOf("0") + code / 2 ** 21 : 1000 + code;  // symbols come before digits, other letters at the end
}

function accentWeight(mark) {
  const at = ACCENTS.indexOf(mark);
  return at >= 0 ? at + 1 : 1000 + mark.codePointAt(0);
}

function collationKey(text, isNumeric) {
  const key = { letters: [], accents: [], capitals: [] };
  for (const part of text.normalize("NFD").match(isNumeric ? /\d+|./gsu : /./gsu) || []) {
    if (/^\p{M}$/u.test(part)) key.accents.push((key.accents.pop() || "") + String.fromCodePoint(accentWeight(part)));
    else if (isNumeric && /^\d/.test(part)) addLetter(key, weightOf("0") + 1 - 1 / (2 + Number(part)), "", 0);
    else if (!/^\p{Cc}$/u.test(part) || ORDER.includes(part)) addLetters(key, part);
  }
  return key;
}

function addLetters(key, part) {
  const small = part.toLowerCase(), alike = ALIKE[small];
  for (const letter of alike || small) addLetter(key, weightOf(letter), alike ? small : "", part === small ? 0 : 1);
}

function addLetter(key, weight, accent, capital) {
  key.letters.push(weight);
  key.accents.push(accent);
  key.capitals.push(capital);
}

function compareParts(one, other) {
  for (let at = 0; at < one.length && at < other.length; at++) {
    const a = one[at] || 0, b = other[at] || 0;
    if (a !== b) return a === 0 || (b !== 0 && a < b) ? -1 : 1;
  }
  return Math.sign(one.length - other.length);
}

methods(String.prototype, {
  localeCompare(that, locales, options = {}) {
    const one = collationKey(String(this), options.numeric), other = collationKey(String(that), options.numeric);
    const sensitivity = options.sensitivity || "variant", parts = ["letters"];
    if (sensitivity !== "base" && sensitivity !== "case") parts.push("accents");
    if (sensitivity !== "base" && sensitivity !== "accent") parts.push("capitals");
    return parts.reduce((found, part) => found || compareParts(one[part], other[part]), 0);
  },
});

// --- numbers ------------------------------------------------------------------------------------------------------------

const CURRENCIES = { USD: "$", EUR: "€", GBP: "£", JPY: "¥", INR: "₹", CNY: "CN¥", KRW: "₩", BRL: "R$", CAD: "CA$", AUD: "A$", MXN: "MX$" };
const NUMBER_OPTIONS = ["style", "currency", "minimumFractionDigits", "maximumFractionDigits", "minimumIntegerDigits", "useGrouping"];

function roundedDigits(number, least, most) {
  // The digits of a number of at least 0, before and after the point, rounded half up by its shortest text, as in `Intl`.
  const [, whole, part = "", exponent = "0"] = /^(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(String(number));
  const digits = whole + part, places = part.length - Number(exponent);
  const scaled = places > most + 1 ? BigInt(digits) / 10n ** BigInt(places - most - 1) : BigInt(digits) * 10n ** BigInt(most + 1 - places);
  const text = String((scaled + 5n) / 10n).padStart(most + 1, "0"), point = text.length - most;
  let end = text.slice(point);
  while (end.length > least && end.endsWith("0")) end = end.slice(0, -1);
  return [text.slice(0, point), end];
}

function numberInEnglish(number, options) {
  const { style = "decimal", currency = "", useGrouping = true, minimumIntegerDigits = 1 } = options;
  const usual = { currency: currency === "JPY" || currency === "KRW" ? [0, 0] : [2, 2], percent: [0, 0] }[style] || [0, 3];
  const least = options.minimumFractionDigits ?? Math.min(usual[0], options.maximumFractionDigits ?? usual[0]);
  const most = options.maximumFractionDigits ?? Math.max(usual[1], least);
  const isNegative = number < 0 || Object.is(number, -0), size = isNegative ? -number : number;
  let text = "∞";
  if (Number.isNaN(number)) text = "NaN";
  else if (size !== Infinity) {
    const [whole, part] = roundedDigits(typeof size === "bigint" || style !== "percent" ? size : Number(`${size}e2`) || size * 100, least, most);
    const padded = whole.padStart(minimumIntegerDigits, "0");
    text = (useGrouping ? padded.replace(/\B(?=(\d{3})+$)/g, ",") : padded) + (part && `.${part}`);
  }
  const sign = style === "currency" ? CURRENCIES[currency] || `${currency}\u00a0` : "";
  return `${isNegative ? "-" : ""}${sign}${text}${style === "percent" ? "%" : ""}`;
}

const bigintValue = BigInt.prototype.valueOf;
methods(Number.prototype, {
  toLocaleString(locales, options = {}) {
    return numberInEnglish(unbox.number(this), checkLocale(locales, options, NUMBER_OPTIONS));
  },
});
methods(BigInt.prototype, {
  toLocaleString(locales, options = {}) {
    return numberInEnglish(apply(bigintValue, this, []), checkLocale(locales, options, NUMBER_OPTIONS));
  },
});

// --- dates --------------------------------------------------------------------------------------------------------------

const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];
const DATE_PARTS = ["weekday", "year", "month", "day"], TIME_PARTS = ["hour", "minute", "second"];
const DATE_OPTIONS = [...DATE_PARTS, ...TIME_PARTS, "hour12", "timeZone", "dateStyle", "timeStyle"];
const STYLES = {
  full: { weekday: "long", year: "numeric", month: "long", day: "numeric" },
  long: { year: "numeric", month: "long", day: "numeric" },
  medium: { year: "numeric", month: "short", day: "numeric" },
  short: { year: "2-digit", month: "numeric", day: "numeric" },
};
const NUMERIC_DATE = { year: "numeric", month: "numeric", day: "numeric" }, NUMERIC_TIME = { hour: "numeric", minute: "2-digit", second: "2-digit" };

const named = (names, at, form) => ({ long: names[at], short: names[at].slice(0, 3), narrow: names[at][0] })[form];
const counted = (number, form) => (form === "2-digit" ? String(number % 100).padStart(2, "0") : String(number));

function dateInEnglish(date, parts) {
  const day = parts.day && counted(date.getDate(), parts.day), year = parts.year && counted(date.getFullYear(), parts.year);
  const weekday = parts.weekday && named(DAYS, date.getDay(), parts.weekday);
  const month = parts.month && (named(MONTHS, date.getMonth(), parts.month) || counted(date.getMonth() + 1, parts.month));
  const isNumeric = !month || /\d/.test(month);
  const text = isNumeric ? [month, day, year].filter(Boolean).join("/") : [month, day && (year ? `${day},` : day), year].filter(Boolean).join(" ");
  if (!weekday || !text) return weekday || text;
  return day && month ? `${weekday}, ${text}` : `${text} ${weekday}`;
}

function timeInEnglish(date, parts, hour12 = true) {
  const hour = date.getHours(), shown = hour12 ? hour % 12 || 12 : hour;
  const isShort = hour12 && parts.hour !== "2-digit";
  const texts = [parts.hour && counted(shown, isShort ? "numeric" : "2-digit"), parts.minute && counted(date.getMinutes(), "2-digit")];
  const text = [...texts, parts.second && counted(date.getSeconds(), "2-digit")].filter(Boolean).join(":");
  return parts.hour && hour12 ? `${text} ${hour < 12 ? "AM" : "PM"}` : text;
}

function momentInEnglish(date, locales, options, usual) {
  if (Number.isNaN(moment(date))) return "Invalid Date";
  const { hour12, timeZone = "UTC", dateStyle, timeStyle } = checkLocale(locales, options, DATE_OPTIONS);
  if (!/^(UTC|GMT|Etc\/UTC)$/i.test(timeZone)) throw new RangeErrorOf(`time zone ${brief(timeZone)} is not available: only "UTC" is`);
  const isGiven = (names) => names.some((name) => options[name] !== undefined);
  let parts = { ...options };
  if (dateStyle || timeStyle) {
    const { hour, minute, second } = NUMERIC_TIME, time = timeStyle === "short" ? { hour, minute } : { hour, minute, second };
    parts = { ...(dateStyle && STYLES[dateStyle]), ...(timeStyle && time) };
  } else {
    const wanted = { date: DATE_PARTS, time: TIME_PARTS, any: DATE_OPTIONS.slice(0, 7) }[usual];
    if (!isGiven(wanted)) parts = { ...(usual !== "time" && NUMERIC_DATE), ...(usual !== "date" && NUMERIC_TIME), ...parts };
  }
  const day = dateInEnglish(date, parts), time = timeInEnglish(date, parts, hour12);
  return [day, time].filter(Boolean).join(parts.month === "long" ? " at " : ", ");
}

const ZONE = " (Coordinated Universal Time)", nativeText = uncurried(Date.prototype.toString), nativeTime = uncurried(Date.prototype.toTimeString);
const zoned = (date, text) => (moment(date) === moment(date) ? text + ZONE : text);
const dateText = (date) => zoned(date, nativeText(date));
methods(Date.prototype, {
  toString() {
    return dateText(this);
  },
  toTimeString() {
    return zoned(this, nativeTime(this));
  },
  toLocaleString(locales, options = {}) {
    return momentInEnglish(this, locales, options, "any");
  },
  toLocaleDateString(locales, options = {}) {
    return momentInEnglish(this, locales, options, "date");
  },
  toLocaleTimeString(locales, options = {}) {
    return momentInEnglish(this, locales, options, "time");
  },
});
