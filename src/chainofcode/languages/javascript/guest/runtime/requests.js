// Holes: requests for the values of calls.

const ONE = create(null), TWO = create(null);
for (const name of ["map", "filter", "some", "every", "find", "findIndex", "findLast", "findLastIndex", "flatMap", "forEach", "from", "fromAsync", "replace", "replaceAll", "[Symbol.replace]"]) ONE[name] = true;
for (const name of ["reduce", "reduceRight"]) TWO[name] = true;
const errorPlaces = { __proto__: null, limit: getOwnPropertyDescriptor(Error, "stackTraceLimit"), prepare: getOwnPropertyDescriptor(Error, "prepareStackTrace") };
const capture = Error.captureStackTrace;
fixErrors();

function fixErrors() {
  // Stack traces show where a call is; a program cannot change their format.
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
  // The native method that made the call, if any: it passes more arguments to a callback than the program means.
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
  const result = parse(reply);
  if (hasOwn(result, "error")) {
    const error = new NativeError(result.error);
    if (result.kind) defineProperty(error, "name", { __proto__: null, value: result.kind, configurable: true, writable: true });
    throw error;
  }
  return result.special ? revived(result.value) : result.value;
}

function revived(value) {
  // Numbers that JSON lacks arrive as {"$number": "NaN"}.
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
  // Encoding the variables takes longer than the call: they are sent only if the guest asks for them with an empty reply.
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
  // Returns the method `owner.name`; if the owner has none, a hole with the owner as first argument.
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

// --- views: the variables shown to a model with a call ------------------------------------------------------------------

const MAX_STATE = 3000;
const NO_VIEW = create(null), views = new Views();  // hole that is passed on → where it was passed last

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
