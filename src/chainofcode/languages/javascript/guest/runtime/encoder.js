// Encodes values that leave the program: JSON as `JSON.stringify` writes it, with maps, sets and what JSON lacks.

const LIMITS = { depth: 90, nodes: 400000, chars: 5000000 };

class Encoder {
  #nodes = 0;
  #chars = 0;
  #open = create(null);
  #depth = 0;
  isOpaque = false;
  isTooLarge = false;

  text(value, isPart = true) {
    if (settings.isShadow) settings.check(value);
    this.#nodes++;
    if (this.#nodes > LIMITS.nodes || this.#chars > LIMITS.chars) {
      this.isTooLarge = true;
      throw new RangeErrorOf("the value is too large to leave the program");
    }
    if (typeof value === "string") {
      this.#chars += value.length;
      return stringify(value);
    }
    if (typeof value === "number") return value === value && value - value === 0 ? numberText(value) : "null";
    if (typeof value === "boolean" || value === null) return `${value}`;
    if (typeof value === "object" || typeof value === "bigint") return this.#converted(value);
    if (typeof value !== "undefined") this.isOpaque = true;
    if (isPart || typeof value === "undefined") return undefined;
    return stringify(brief(value));
  }

  #converted(value) {
    // The result of `toJSON` is not converted again.
    const convert = value.toJSON;
    const given = typeof convert === "function" ? apply(convert, value, [""]) : value;
    if (typeof given === "bigint") return bigintText(given);
    return typeof given === "object" && given !== null ? this.#object(given) : this.text(given);
  }

  #object(value) {
    for (let at = 0; at < this.#depth; at++) if (this.#open[at] === value) return this.#opaque("[Circular]");
    if (this.#depth > LIMITS.depth) return this.#opaque("[…]");
    this.#open[this.#depth++] = value;
    try {
      return this.#inside(value);
    } finally {
      this.#depth--;
    }
  }

  #opaque(text) {
    this.isOpaque = true;
    return stringify(text);
  }

  #inside(value) {
    if (isArray(value)) return this.#items(value, value.length);
    if (isTyped(value)) return this.#items(value, lengthOf(value));
    if (isMap(value)) return this.#map(value);
    if (isSet(value)) return this.#set(value);
    if (isError(value)) return this.text(`${value.name}: ${value.message}`);
    if (is(unbox.number, value)) return this.text(unbox.number(value));
    if (is(unbox.string, value)) return this.text(unbox.string(value));
    if (is(unbox.boolean, value)) return this.text(unbox.boolean(value));
    if (isRegExp(value)) return stringify(regexpText(value));
    return this.#fields(value);
  }

  #items(value, length) {
    let out = "[";
    for (let at = 0; at < length; at++) {
      const text = this.text(value[at]);
      out += (at ? "," : "") + (text === undefined ? "null" : text);
    }
    return `${out}]`;
  }

  #fields(value) {
    const keys = ownKeys(value);
    let out = "";
    for (let at = 0; at < keys.length; at++) {
      const key = keys[at], own = typeof key === "string" ? getOwnPropertyDescriptor(value, key) : undefined;
      if (own === undefined || !own.enumerable) continue;
      const text = this.text(value[key]);
      if (text !== undefined) out += `${out ? "," : ""}${stringify(key)}:${text}`;
    }
    return `{${out}}`;
  }

  #map(value) {
    let out = "", pairs = "", isPlain = true;
    eachOfMap(value, (item, key) => {
      isPlain = isPlain && typeof key === "string";
      const text = this.text(item), own = text === undefined ? "null" : text;
      if (typeof key === "string") out += `${out ? "," : ""}${stringify(key)}:${own}`;
      pairs += `${pairs ? "," : ""}[${this.text(key) ?? "null"},${own}]`;
    });
    return isPlain ? `{${out}}` : `[${pairs}]`;
  }

  #set(value) {
    let out = "";
    eachOfSet(value, (item) => {
      out += (out ? "," : "") + (this.text(item) ?? "null");
    });
    return `[${out}]`;
  }
}
