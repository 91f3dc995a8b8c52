// `structuredClone`: copies data with its cycles, and rejects values that cannot be copied.

const { Map: NativeMap, Set: NativeSet, RegExp: NativeRegExp, ArrayBuffer: NativeBuffer, DOMException: NativeException } = global;
const NativeArray = Array, mapGet = uncurried(Map.prototype.get), mapSet = uncurried(Map.prototype.set), setAdd = uncurried(Set.prototype.add);
const bufferOf = uncurried(getOwnPropertyDescriptor(TypedArray.prototype, "buffer").get), sliceBuffer = uncurried(ArrayBuffer.prototype.slice);
const offsetOf = uncurried(getOwnPropertyDescriptor(TypedArray.prototype, "byteOffset").get);
const kindOfTyped = uncurried(getOwnPropertyDescriptor(TypedArray.prototype, Symbol.toStringTag).get);
const TYPED = create(null);
for (const name of ["Int8", "Uint8", "Uint8Clamped", "Int16", "Uint16", "Int32", "Uint32", "BigInt64", "BigUint64", "Float16", "Float32", "Float64"]) {
  TYPED[`${name}Array`] = global[`${name}Array`];
}
const ERRORS = { __proto__: null, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError };

function refuse(value) {
  throw new NativeException(`${brief(value)} could not be cloned.`, "DataCloneError");
}

function cloned(value, seen) {
  if (typeof value === "symbol" || typeof value === "function") refuse(value);
  if (typeof value !== "object" || value === null) return value;
  const known = mapGet(seen, value);
  if (known !== undefined) return known;
  const copy = emptyCopy(value, seen);
  mapSet(seen, value, copy);
  if (isMap(value)) eachOfMap(value, (item, key) => mapSet(copy, cloned(key, seen), cloned(item, seen)));
  else if (isSet(value)) eachOfSet(value, (item) => setAdd(copy, cloned(item, seen)));
  else if (isArray(copy) || getPrototypeOf(copy) === ObjectPrototype) copyFields(value, copy, seen);
  return copy;
}

function emptyCopy(value, seen) {
  if (isArray(value)) return new NativeArray(value.length);
  if (isMap(value)) return new NativeMap();
  if (isSet(value)) return new NativeSet();
  if (isDate(value)) return new NativeDate(moment(value));
  if (isRegExp(value)) return new NativeRegExp(regexpSource(value), slice(regexpText(value), regexpSource(value).length + 2));
  if (isTyped(value)) return new TYPED[kindOfTyped(value)](cloned(bufferOf(value), seen), offsetOf(value), lengthOf(value));
  if (is((it) => sliceBuffer(it, 0), value)) return sliceBuffer(value, 0);
  if (isError(value)) return clonedError(value, seen);
  for (const kind of ["number", "string", "boolean"]) if (is(unbox[kind], value)) return ObjectOf(unbox[kind](value));
  return isFields(value) ? {} : refuse(value);
}

function clonedError(value, seen) {
  const copy = new (ERRORS[value.name] || NativeError)(value.message);
  if (hasOwn(value, "cause")) defineProperty(copy, "cause", { __proto__: null, value: cloned(value.cause, seen), writable: true, configurable: true });
  return copy;
}

function isFields(value) {
  const tag = textOf(value);
  return !isIn(proxies, value) && (tag === "[object Object]" || (tag !== "[object Promise]" && indexOf(tag, "[object Weak") !== 0));
}

function copyFields(value, copy, seen) {
  const keys = ownKeys(value);
  for (let at = 0; at < keys.length; at++) {
    const found = typeof keys[at] === "string" ? getOwnPropertyDescriptor(value, keys[at]) : undefined;
    if (found === undefined || !found.enumerable) continue;
    defineProperty(copy, keys[at], { __proto__: null, value: cloned(value[keys[at]], seen), writable: true, enumerable: true, configurable: true });
  }
}

put("structuredClone", (value) => cloned(value, new NativeMap()));
