// The start and the end of a program: its answer, or its error.

function isPromise(value) {
  apply(then, value, [undefined, undefined]);  // throws for anything else
}

function partOf(error, name, otherwise) {
  try {
    const found = error[name];
    return found === undefined ? otherwise : `${found}`;
  } catch {
    return otherwise;  // a getter of the program
  }
}

function failed(error) {
  if (settings.isShadow && settings.isUnknown(error)) return;
  const isObject = typeof error === "object" && error !== null;
  const name = isObject ? partOf(error, "name", "Error") : "Uncaught", message = isObject ? partOf(error, "message", "") : brief(error);
  const own = isObject ? partOf(error, "stack", "") : "", stack = own || (thrown !== null && thrown.value === error ? thrown.stack : "");
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

const PENDING = '{"pending":true}';  // until the awaited promise settles

function end() {
  // Sends the answer when nothing is left to run: `answer`, else the last expression. A promise is awaited.
  if (ends === null) return finish(PENDING);
  return guarded(() => {
    const own = getOwnPropertyDescriptor(global, "answer");
    let value = ends.own !== null ? ends.own() : own && own.value, source = "variable";
    if (value === undefined || typeof value === "function" || (own && value === settings.answer)) {
      value = ends.last();
      source = "expression";
    }
    const isWaiting = is(isPromise, value);
    if (isWaiting) finish(PENDING);
    if (isWaiting) apply(then, value, [(known) => finish(answered(known, source)), failed]);
    return isWaiting ? undefined : finish(answered(value, source));
  });
}

function answered(value, source) {
  if (value === undefined || typeof value === "function") return "";
  const encoder = new Encoder();
  let text;
  try {
    text = encoder.text(value, false);
  } catch (error) {
    if (!encoder.isTooLarge) throw error;
  }
  const fields = text === undefined ? `"type":${stringify(textOf(value))},"brief":${stringify(brief(value))}` : `"value":${text}`;
  return `{"source":"${source}",${fields}}`;
}
