// Built-ins that the runtime uses, saved before the program starts, which may replace any global and prototype method.
// All files of this folder are parts of one function of `settings` and `inputs`, in the order of source_compiler.py.
// Only text crosses to the guest process: JSON, which escapes what UTF-8 cannot express.

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
const regexpSource = uncurried(getOwnPropertyDescriptor(RegExp.prototype, "source").get);
const REGEXP_FLAGS = [["hasIndices", "d"], ["global", "g"], ["ignoreCase", "i"], ["multiline", "m"], ["dotAll", "s"], ["unicode", "u"], ["unicodeSets", "v"], ["sticky", "y"]];
const regexpFlags = REGEXP_FLAGS.map(([name, letter]) => [uncurried(getOwnPropertyDescriptor(RegExp.prototype, name).get), letter]);
const sizeOf = { map: uncurried(getOwnPropertyDescriptor(Map.prototype, "size").get), set: uncurried(getOwnPropertyDescriptor(Set.prototype, "size").get) };
const eachOfMap = uncurried(Map.prototype.forEach), eachOfSet = uncurried(Set.prototype.forEach);
const Registry = WeakSet, isIn = uncurried(WeakSet.prototype.has), putIn = uncurried(WeakSet.prototype.add);
const Views = WeakMap, viewOf = uncurried(WeakMap.prototype.get), putView = uncurried(WeakMap.prototype.set);
const TypedArray = getPrototypeOf(Uint8Array), lengthOf = uncurried(getOwnPropertyDescriptor(TypedArray.prototype, "length").get);
const unbox = { number: uncurried(Number.prototype.valueOf), string: uncurried(String.prototype.valueOf), boolean: uncurried(Boolean.prototype.valueOf) };
const NumberOf = Number, ObjectOf = Object, parseWhole = parseInt, parseReal = parseFloat;
const { trunc } = Math, MAX_WAIT = 2 ** 31 - 1;
const random = settings.seed, isInstance = Symbol.hasInstance;
const put = (name, value) => defineProperty(global, name, { value, writable: true, enumerable: false, configurable: true });
const methods = (home, own) => {
  for (const name of ownKeys(own)) defineProperty(home, name, { value: own[name], writable: true, enumerable: false, configurable: true });
};
