// What a shadow adds to the runtime: promises for values that have not arrived. Using one ends the statement.
(function (settings) {
  "use strict";
  const { apply, defineProperty } = Reflect;
  const skip = globalThis.$skip, { stringify } = JSON;
  delete globalThis.$skip;
  const flat = String.prototype.slice;
  const markers = new WeakMap(), isKnown = WeakMap.prototype.has, originIn = WeakMap.prototype.get, keep = WeakMap.prototype.set;
  const MakeProxy = Proxy, isArray = Array.isArray, arrayFrom = Array.from;

  class Unknown {
    constructor(origin) {
      this.origin = origin;
    }
  }
  const isUnknown = (error) => error instanceof Unknown;
  const isMarker = (value) => (typeof value === "function" || typeof value === "object") && value !== null && apply(isKnown, markers, [value]);

  function need(value) {
    if (isMarker(value)) throw new Unknown(apply(originIn, markers, [value]));
    return value;
  }

  const TRAPS = ["set", "has", "ownKeys", "apply", "construct", "deleteProperty", "getOwnPropertyDescriptor", "defineProperty", "getPrototypeOf", "setPrototypeOf"];

  function promised(origin) {
    const refuse = () => {
      throw new Unknown(origin);
    };
    const handler = { __proto__: null, get: (target, name) => (name === "then" ? undefined : refuse()) };
    for (const trap of TRAPS) handler[trap] = refuse;
    const made = new MakeProxy(function () {}, handler);
    apply(keep, markers, [made, origin]);
    return made;
  }

  let last = "";
  settings.isUnknown = isUnknown;
  settings.check = need;
  const holes = new WeakSet(), noted = WeakSet.prototype.add, isNoted = WeakSet.prototype.has;
  settings.note = (hole) => apply(noted, holes, [hole]);
  // A hole as a callback gets one argument, as it does from native methods.
  const argumentsFor = (callback, args) => (apply(isNoted, holes, [callback]) ? [args[0]] : args);
  settings.known = (reply, valueOf) => (reply[0] === "?" ? promised(reply.slice(1)) : valueOf(reply));
  settings.extra = {
    n: need,
    s(number, error) {
      if (!isUnknown(error)) throw error;
      last = error.origin;
      skip(number, apply(flat, stringify(last), [0]));
    },
    u: () => promised(last),
    c(error) {
      if (isUnknown(error)) throw error;
    },
  };

  // These native methods would mistake a promise for a value: they read values without an operation that a proxy traps.
  const replace = (home, name, make) => {
    const native = home[name];
    defineProperty(home, name, { value: make(native), writable: true, configurable: true });
  };
  const each = (list, callback, self, found) => {
    // Calls back for every item, even after one whose value is unknown, so that the calls go out together.
    let unknown = null;
    const length = list.length;
    for (let at = 0; at < length; at++) {
      if (!(at in list)) continue;
      try {
        found(list[at], apply(callback, self, argumentsFor(callback, [list[at], at, list])), at);
      } catch (error) {
        if (!isUnknown(error)) throw error;
        unknown = unknown || error;
        found(list[at], promised(error.origin), at);
      }
    }
    return unknown;
  };
  const A = Array.prototype;
  replace(A, "map", () => function map(callback, self) {
    const made = [];
    made.length = this.length;
    each(this, callback, self, (item, value, at) => { made[at] = value; });
    return made;
  });
  replace(A, "forEach", () => function forEach(callback, self) {
    const unknown = each(this, callback, self, () => {});
    if (unknown) throw unknown;
  });
  replace(A, "filter", () => function filter(callback, self) {
    const made = [];
    let unknown = null;
    each(this, callback, self, (item, value) => {
      if (isMarker(value)) unknown = unknown || value;
      else if (value) made.push(item);
    });
    if (unknown) need(unknown);
    return made;
  });
  for (const name of ["some", "every", "find", "findIndex", "findLast", "findLastIndex"]) {
    replace(A, name, (native) => function (callback, self) {
      return apply(native, this, [(...args) => need(apply(callback, self, argumentsFor(callback, args)))]);
    });
  }
  replace(A, "flatMap", () => function flatMap(callback, self) {
    return this.map(callback, self).flatMapped();
  });
  defineProperty(A, "flatMapped", {
    value() {
      let made = [];
      for (const item of this) made = made.concat(need(item));
      return made;
    },
    configurable: true,
  });
  for (const [home, names] of [[A, ["includes", "indexOf", "lastIndexOf"]], [Set.prototype, ["has", "add", "delete"]], [Map.prototype, ["has", "get", "set", "delete"]]]) {
    for (const name of names) {
      replace(home, name, (native) => function (...args) {
        need(args[0]);
        if (isArray(this)) for (let at = 0; at < this.length; at++) need(this[at]);
        return apply(native, this, args);
      });
    }
  }
  const NativeBoolean = Boolean;
  function KnownBoolean(value) {
    return new.target === undefined ? NativeBoolean(need(value)) : new NativeBoolean(need(value));
  }
  KnownBoolean.prototype = NativeBoolean.prototype;
  globalThis.Boolean = KnownBoolean;
  Object.is = (one, other) => need(one) === need(other) || (one !== one && other !== other);
})
