// What a program finds in its engine beside the language: holes, probes, console, timers, a fixed clock and fixed chance.
// Everything used later is taken now, before the program runs: it may replace any global and any prototype's method.
// Text only crosses to the host process: JSON, which escapes what UTF-8 cannot express.
(function (settings, inputs) {
  "use strict";
  const global = globalThis;
  const { apply, ownKeys, getPrototypeOf, defineProperty, getOwnPropertyDescriptor } = Reflect;
  const { freeze, create } = Object, ObjectPrototype = Object.prototype;
  const { stringify, parse } = JSON;
  const { isArray } = Array;
  // Text must be flat to cross: the engine keeps long concatenations as trees, which the binding cannot read.
  const flat = String.prototype.slice;
  const host = (name) => {
    const native = global[name];
    delete global[name];
    return (...texts) => {
      for (let at = 0; at < texts.length; at++) texts[at] = apply(flat, texts[at], [0]);
      return apply(native, undefined, texts);
    };
  };
  const ask = host("$ask"), open = host("$open"), step = host("$step"), print = host("$print"), fail = host("$fail"), finish = host("$finish");

  const uncurried = (method) => (self, ...rest) => apply(method, self, rest);
  const hasOwn = uncurried(Object.prototype.hasOwnProperty);
  const slice = uncurried(String.prototype.slice), indexOf = uncurried(String.prototype.indexOf), repeat = uncurried(String.prototype.repeat);
  const textOf = uncurried(Object.prototype.toString), numberText = uncurried(Number.prototype.toString);
  const functionText = Function.prototype.toString;
  const then = Promise.prototype.then, NativePromise = Promise, NativeDate = Date, NativeError = Error, TypeErrorOf = TypeError, RangeErrorOf = RangeError;
  const isoText = uncurried(Date.prototype.toISOString), moment = uncurried(Date.prototype.getTime);
  const bigintText = uncurried(BigInt.prototype.toString), symbolText = uncurried(Symbol.prototype.toString);
  const regexpText = uncurried(RegExp.prototype.toString);
  const sizeOf = { map: uncurried(getOwnPropertyDescriptor(Map.prototype, "size").get), set: uncurried(getOwnPropertyDescriptor(Set.prototype, "size").get) };
  const eachOfMap = uncurried(Map.prototype.forEach), eachOfSet = uncurried(Set.prototype.forEach);
  const Registry = WeakSet, isIn = uncurried(WeakSet.prototype.has), putIn = uncurried(WeakSet.prototype.add);
  const Views = WeakMap, viewOf = uncurried(WeakMap.prototype.get), putView = uncurried(WeakMap.prototype.set);
  const TypedArray = getPrototypeOf(Uint8Array), lengthOf = uncurried(getOwnPropertyDescriptor(TypedArray.prototype, "length").get);
  const unbox = { number: uncurried(Number.prototype.valueOf), string: uncurried(String.prototype.valueOf), boolean: uncurried(Boolean.prototype.valueOf) };
  const random = settings.seed, isInstance = Symbol.hasInstance;

  // --- the trace's own texts: nothing of the program's runs, so no getter, no `toJSON`, no trap of a proxy -------------

  const MAX_TEXT = 240, MAX_ITEMS = 64, MAX_DEPTH = 6;
  let room = 0;  // characters left for the text under way
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
  const isTyped = (value) => is(lengthOf, value), isError = Error.isError;

  function brief(value, depth = 0) {
    if (depth === 0) room = MAX_TEXT;
    const text = briefPart(value, depth);
    if (typeof value !== "object") room -= text.length;
    return text;
  }

  function briefPart(value, depth) {
    // A text that is cut is not JSON, so that it cannot be mistaken for the whole value.
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
    if (is((it) => regexpText(it), value) && textOf(value) === "[object RegExp]") return regexpText(value);
    const kind = getPrototypeOf(value);
    if (kind === null || kind === ObjectPrototype || isIn(proxies, kind)) return briefFields(value, depth);
    const maker = getOwnPropertyDescriptor(kind, "constructor");
    const isNamed = maker !== undefined && typeof maker.value === "function" && !isIn(proxies, maker.value);
    return `${isNamed ? ownText(maker.value, "name") : "object"} ${briefFields(value, depth)}`;
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

  // --- values that leave: JSON as `JSON.stringify` writes it, with maps, sets and what JSON lacks -------------------

  const LIMITS = { depth: 90, nodes: 400000, chars: 5000000 };

  class Encoder {
    #nodes = 0;
    #chars = 0;
    #open = create(null);
    #depth = 0;
    isOpaque = false;

    text(value, isPart = true) {
      if (settings.isShadow) settings.check(value);
      this.#nodes++;
      if (this.#nodes > LIMITS.nodes || this.#chars > LIMITS.chars) throw new RangeErrorOf("the value is too large to leave the program");
      if (typeof value === "string") {
        this.#chars += value.length;
        return stringify(value);
      }
      if (typeof value === "number") return value === value && value - value === 0 ? numberText(value) : "null";
      if (typeof value === "boolean" || value === null) return `${value}`;
      if (typeof value === "bigint") return bigintText(value);
      if (typeof value === "object") return this.#object(value);
      if (typeof value !== "undefined") this.isOpaque = true;
      if (isPart || typeof value === "undefined") return undefined;
      return stringify(brief(value));
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
      const convert = value.toJSON;
      if (typeof convert === "function") {
        const text = this.text(apply(convert, value, [""]), false);
        return text === undefined ? "null" : text;
      }
      if (isArray(value)) return this.#items(value, value.length);
      if (isTyped(value)) return this.#items(value, lengthOf(value));
      if (isMap(value)) return this.#map(value);
      if (isSet(value)) return this.#set(value);
      if (isError(value)) return this.text(`${value.name}: ${value.message}`);
      if (is(unbox.number, value)) return this.text(unbox.number(value));
      if (is(unbox.string, value)) return this.text(unbox.string(value));
      if (is(unbox.boolean, value)) return this.text(unbox.boolean(value));
      if (textOf(value) === "[object RegExp]" && is(regexpText, value)) return stringify(regexpText(value));
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

  // --- holes ----------------------------------------------------------------------------------------------------------

  const ONE = create(null), TWO = create(null);
  for (const name of ["map", "filter", "some", "every", "find", "findIndex", "findLast", "findLastIndex", "flatMap", "forEach", "from", "fromAsync", "replace", "replaceAll", "[Symbol.replace]"]) ONE[name] = true;
  for (const name of ["reduce", "reduceRight"]) TWO[name] = true;
  const errorPlaces = { __proto__: null, limit: getOwnPropertyDescriptor(Error, "stackTraceLimit"), prepare: getOwnPropertyDescriptor(Error, "prepareStackTrace") };
  const capture = Error.captureStackTrace;
  fixErrors();

  function fixErrors() {
    // Stacks tell where a call is: a program cannot change how they are written.
    apply(errorPlaces.limit.set, Error, [100]);
    for (const [name, value] of [["stackTraceLimit", 100], ["prepareStackTrace", undefined]]) {
      defineProperty(Error, name, { get: () => value, set: () => {}, enumerable: false, configurable: false });
    }
  }

  function whereFrom(skipped) {
    const found = {};
    capture(found, skipped);
    return found.stack;
  }

  function callerOf(stack) {
    // The native method that called, if one did: a callback gets more arguments than it is meant to have.
    const end = indexOf(stack, "\n"), line = end < 0 ? stack : slice(stack, 0, end), native = indexOf(line, " (native)");
    return native < 0 ? "" : slice(line, indexOf(line, "at ") + 3, native);
  }

  function messageOf(name, args, stack) {
    const caller = callerOf(stack);
    let count = args.length;
    if (ONE[caller] && count > 1) count = 1;
    else if (TWO[caller] && count > 2) count = 2;
    const encoder = new Encoder();
    let texts = "", parts = "";
    for (let at = 0; at < count; at++) {
      const text = encoder.text(args[at], false) ?? "null";
      texts += (at ? ", " : "") + text;
      parts += (at ? "," : "") + text;
    }
    const flags = `"opaque":${encoder.isOpaque},"stack":${stringify(stack)}`;
    return `"name":${stringify(name)},"text":${stringify(`${name}(${texts})`)},"args":[${parts}],${flags}`;
  }

  function valueOf(reply) {
    const told = parse(reply);
    if (hasOwn(told, "error")) {
      const error = new NativeError(told.error);
      if (told.kind) defineProperty(error, "name", { __proto__: null, value: told.kind, configurable: true, writable: true });
      throw error;
    }
    return told.special ? revived(told.value) : told.value;
  }

  function revived(value) {
    // Numbers that JSON lacks come as {"$number": "NaN"}.
    if (typeof value !== "object" || value === null) return value;
    const keys = ownKeys(value);
    if (keys.length === 1 && keys[0] === "$number") return { NaN: NaN, Infinity: Infinity, "-Infinity": -Infinity }[value.$number];
    for (let at = 0; at < keys.length; at++) {
      if (!isArray(value) || keys[at] !== "length") {
        defineProperty(value, keys[at], { __proto__: null, value: revived(value[keys[at]]), writable: true, enumerable: true, configurable: true });
      }
    }
    return value;
  }

  const waiting = create(null);

  function hole(name, isAwaited) {
    const own = (...args) => {
      const { view, look } = viewOf(views, own) || NO_VIEW;
      return requested(name, args, isAwaited, own, view, look);
    };
    defineProperty(own, "name", { __proto__: null, value: name });
    defineProperty(own, isInstance, { __proto__: null, value: () => false });  // objects of an undefined class are plain
    if (settings.isShadow) settings.note(own);
    return own;
  }

  function requested(name, args, isAwaited, own, view, look) {
    const message = messageOf(name, args, whereFrom(own));
    if (settings.isShadow) return settings.known(sent(ask, message, view, look), valueOf);
    if (!isAwaited) return valueOf(sent(ask, message, view, look));
    return new NativePromise((resolve, reject) => {
      waiting[sent(open, message, view, look)] = { __proto__: null, resolve, reject };
    });
  }

  function sent(request, message, view, look) {
    // The variables take longer to write than the call: they are sent if the guest asks for them, with an empty reply.
    return request(`{${message}}`) || request(`{${message},"state":${stateOf(view, look)}}`);
  }

  function arrived(number, reply) {
    const { resolve, reject } = waiting[number];
    delete waiting[number];
    try {
      resolve(valueOf(reply));
    } catch (error) {
      reject(error);
    }
  }

  function method(owner, name, isAwaited, view, look) {
    // `owner.name` about to be called. Where the owner has no such method, it is a hole with the owner as first argument.
    if (owner === undefined || owner === null || name in Object(owner)) {
      const found = owner[name];
      return (...args) => apply(callable(found, name), owner, args);
    }
    const own = (...args) => {
      const all = [owner];
      for (let at = 0; at < args.length; at++) defineProperty(all, at + 1, { __proto__: null, value: args[at], writable: true, enumerable: true, configurable: true });
      return requested(name, all, isAwaited, own, view, look);
    };
    return own;
  }

  function called(name, isAwaited, view, look) {
    const own = (...args) => requested(name, args, isAwaited, own, view, look);
    return own;
  }

  function callable(found, name) {
    if (typeof found !== "function") throw new TypeErrorOf(`${name} is not a function`);
    return found;
  }

  // --- views: the variables beside a call, for a model ------------------------------------------------------------------

  const MAX_STATE = 3000;
  const NO_VIEW = create(null), views = new Views();  // of holes that are passed on: where that happened last

  function passed(own, view, look) {
    putView(views, own, { __proto__: null, view, look });
    return own;
  }

  function stateOf(view, look) {
    if (look === undefined) return "{}";
    const names = settings.views[view], readers = look();
    let out = "", left = MAX_STATE;
    for (let at = 0; at < names.length && left > 0; at++) {
      const name = names[at], text = shownText(name, readers[at]);
      if (text === "") continue;
      out += `${out ? "," : ""}${stringify(name)}:${stringify(text)}`;
      left -= name.length + text.length;
    }
    return `{${out}}`;
  }

  function shownText(name, read) {
    try {
      const value = read ? read() : valueIn(global, name);
      return value === undefined || typeof value === "function" ? "" : brief(value);
    } catch {
      return "";  // not declared yet or, in a shadow, not known yet
    }
  }

  function valueIn(object, name) {
    const found = getOwnPropertyDescriptor(object, name);
    return found !== undefined && hasOwn(found, "value") ? found.value : undefined;
  }

  // --- probes: what a statement did -----------------------------------------------------------------------------------

  const MAX_VISITS = 64;
  const visits = create(null), shown = create(null);

  function record(number, delta, outcome) {
    const visit = visits[number] = (visits[number] || 0) + 1;
    const is_wanted = step(`{"statement":${number},"visit":${visit},"delta":{${delta}}${outcome}}`);
    return visit < MAX_VISITS && is_wanted ? 1 : 0;
  }

  function visited(number, values) {
    const names = settings.probes[number];
    let delta = "";
    for (let at = 0; at < names.length; at++) {
      const text = brief(values[at]), name = names[at];
      if (shown[name] === text) continue;
      shown[name] = text;
      delta += `${delta ? "," : ""}${stringify(name)}:${stringify(text)}`;
    }
    return record(number, delta, "");
  }

  const decided = (number, value) => record(number, "", `,"outcome":"${value}"`);

  const API = freeze({
    __proto__: null,
    h: hole,
    m: method,
    w: called,
    b: class {},
    p: passed,
    v: visited,
    o: decided,
    r(number, value) {
      try {
        return record(number, "", `,"outcome":${stringify(brief(value))}`);
      } catch {
        return 0;  // too little room left to look at it
      }
    },
    k(value) {
      if (is(isPromise, value)) apply(then, value, [undefined, failed]);
      return value;
    },
    e(own, last) {
      ends = { __proto__: null, own, last };
    },
    i(name) {
      throw new TypeErrorOf(`cannot import ${brief(name)}: no modules are available in the sandbox`);
    },
    ...settings.extra,
  });

  let ends = null;

  // --- the end --------------------------------------------------------------------------------------------------------

  function isPromise(value) {
    apply(then, value, [undefined, undefined]);  // throws for anything else
  }

  function failed(error) {
    if (settings.isShadow && settings.isUnknown(error)) return;
    let name = "Error", message = "", stack = "";
    try {
      if (typeof error === "object" && error !== null) {
        name = `${error.name}`;
        message = `${error.message}`;
        stack = typeof error.stack === "string" ? error.stack : "";
      } else {
        name = "Uncaught";
        message = brief(error);
      }
    } catch {} // a getter of the program's own
    fail(stringify(slice(name, 0, 200)), stringify(slice(message, 0, 4000)), stringify(slice(stack, 0, 20000)));
  }

  function guarded(action) {
    try {
      return action();
    } catch (error) {
      failed(error);
      return undefined;
    }
  }

  function start(main) {
    guarded(() => {
      const result = apply(main, global, [API]);
      if (is(isPromise, result)) apply(then, result, [undefined, failed]);
    });
  }

  function end() {
    // The answer, once nothing is left to run: `answer`, else the last expression. Promises are waited for.
    if (ends === null) return finish("");
    return guarded(() => {
      const own = getOwnPropertyDescriptor(global, "answer");
      let value = ends.own !== null ? ends.own() : own && own.value, source = "variable";
      if (value === undefined || typeof value === "function" || (own && value === settings.answer)) {
        value = ends.last();
        source = "expression";
      }
      const isWaiting = is(isPromise, value);
      if (isWaiting) apply(then, value, [(known) => finish(answered(known, source)), failed]);
      return isWaiting ? undefined : finish(answered(value, source));
    });
  }

  function answered(value, source) {
    if (value === undefined || typeof value === "function") return "";
    let text;
    try {
      text = new Encoder().text(value, false);
    } catch (error) {
      if (!(error instanceof RangeErrorOf)) throw error;
    }
    const told = text === undefined ? `"type":${stringify(textOf(value))},"brief":${stringify(brief(value))}` : `"value":${text}`;
    return `{"source":"${source}",${told}}`;
  }

  // --- the world ------------------------------------------------------------------------------------------------------

  function say(...args) {
    let text = "";
    for (let at = 0; at < args.length; at++) text += (at ? " " : "") + (typeof args[at] === "string" ? args[at] : spoken(args[at]));
    print(stringify(`${text}\n`), stringify(whereFrom(say)));
  }

  function spoken(value) {
    if (typeof value !== "object" || value === null) return brief(value);
    try {
      return new Encoder().text(value, false) ?? brief(value);
    } catch {
      return brief(value);
    }
  }

  let elapsed = 0, timers = create(null), lastTimer = 0;

  function later(callback, delay, args, period) {
    if (typeof callback !== "function") throw new TypeErrorOf("the callback of a timer must be a function");
    const wait = +delay > 0 ? +delay : 0;
    timers[++lastTimer] = { __proto__: null, callback, args, at: elapsed + wait, period: period ? (wait > 1 ? wait : 1) : 0 };
    return lastTimer;
  }

  function nextTimer() {
    // Runs the timer that is due first; time passes only here. Whether there was one.
    let first = 0;
    for (const number in timers) if (!first || timers[number].at < timers[first].at) first = number;
    if (!first) return false;
    const timer = timers[first];
    elapsed = timer.at > elapsed ? timer.at : elapsed;
    if (timer.period) timer.at = elapsed + timer.period;
    else delete timers[first];
    guarded(() => apply(timer.callback, undefined, timer.args));
    return true;
  }

  const put = (name, value) => defineProperty(global, name, { value, writable: true, enumerable: false, configurable: true });
  const now = () => settings.clock + elapsed;
  put("console", { log: say, info: say, warn: say, error: say, debug: say, table: say });
  put("setTimeout", (callback, delay, ...args) => later(callback, delay, args, false));
  put("setInterval", (callback, delay, ...args) => later(callback, delay, args, true));
  put("clearTimeout", (number) => void delete timers[`${number}`]);
  put("clearInterval", (number) => void delete timers[`${number}`]);
  put("structuredClone", (value) => parse(new Encoder().text(value, false) ?? "null"));

  let chance = random >>> 0;
  Math.random = () => {
    // mulberry32
    chance = (chance + 0x6d2b79f5) >>> 0;
    let mixed = chance;
    mixed = Math_imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math_imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
  const Math_imul = Math.imul;

  function FixedDate(...args) {
    if (new.target === undefined) return `${new NativeDate(now())}`;
    const given = args.length ? args : [now()];
    return Reflect_construct(NativeDate, given, new.target === FixedDate ? NativeDate : new.target);
  }
  const Reflect_construct = Reflect.construct;
  for (const name of ["UTC", "parse"]) defineProperty(FixedDate, name, getOwnPropertyDescriptor(NativeDate, name));
  defineProperty(FixedDate, "now", { value: now, writable: true, configurable: true });
  defineProperty(FixedDate, "prototype", { value: NativeDate.prototype, writable: false });
  defineProperty(FixedDate, "name", { value: "Date" });
  defineProperty(FixedDate, "length", { value: 7 });
  defineProperty(NativeDate.prototype, "constructor", { value: FixedDate, writable: true, configurable: true });
  put("Date", FixedDate);
  put("performance", { now: () => elapsed, timeOrigin: settings.clock });

  const NativeProxy = Proxy;
  function WatchedProxy(target, handler) {
    if (new.target === undefined) throw new TypeErrorOf("Constructor Proxy requires 'new'");
    const made = new NativeProxy(target, handler);
    putIn(proxies, made);
    return made;
  }
  const revocable = NativeProxy.revocable;
  defineProperty(WatchedProxy, "name", { value: "Proxy" });
  defineProperty(WatchedProxy, "prototype", { value: undefined, writable: false });
  defineProperty(WatchedProxy, "revocable", {
    value: (target, handler) => {
      const made = apply(revocable, NativeProxy, [target, handler]);
      putIn(proxies, made.proxy);
      return made;
    },
    writable: true,
    configurable: true,
  });
  put("Proxy", WatchedProxy);

  // The text of a function would show our probes.
  defineProperty(Function.prototype, "toString", {
    value: function toString() {
      const text = apply(functionText, this, []);
      return indexOf(text, "[native code]") >= 0 ? text : `function ${ownText(this, "name")}() { [code] }`;
    },
    writable: true,
    configurable: true,
  });

  const given = parse(inputs);
  const names = ownKeys(given);
  for (let at = 0; at < names.length; at++) put(names[at], revived(given[names[at]]));
  settings.answer = hasOwn(given, "answer") ? given.answer : undefined;
  return { start, end, arrived, nextTimer };
})
