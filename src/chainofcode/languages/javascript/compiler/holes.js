// Finds holes, functions that a program calls but nothing defines: which of them are awaited, and their expected types.
"use strict";

// What the runtime adds to the engine's own globals.
const ADDED = ["console", "setTimeout", "clearTimeout", "setInterval", "clearInterval", "structuredClone"];
// Globals of other JavaScript environments: a model must not invent what they would do.
const ABSENT = new Set([
  "require", "module", "exports", "process", "Buffer", "global", "__dirname", "__filename", "fetch", "XMLHttpRequest", "WebSocket",
  "Worker", "importScripts", "postMessage", "window", "document", "self", "navigator", "location", "localStorage", "sessionStorage",
  "Deno", "Bun", "Intl", "WebAssembly", "setImmediate", "requestAnimationFrame", "TextEncoder", "TextDecoder", "URL",
  "URLSearchParams", "crypto", "std", "os", "bjson", "print", "load", "read", "readline", "quit", "ShadowRealm", "Temporal",
  "AbortController", "AbortSignal", "Blob", "BroadcastChannel", "CompressionStream", "CustomEvent", "DecompressionStream", "Event",
  "EventTarget", "File", "FormData", "Headers", "MessageChannel", "PerformanceObserver", "ReadableStream", "Request", "Response",
  "TextDecoderStream", "TextEncoderStream", "TransformStream", "URLPattern", "WritableStream", "clearImmediate",
]);
const MODULES = new Set([
  "assert", "buffer", "child_process", "cluster", "crypto", "dgram", "dns", "events", "fs", "http", "http2", "https", "module", "net",
  "os", "path", "perf_hooks", "process", "readline", "stream", "timers", "tls", "url", "util", "v8", "vm", "worker_threads", "zlib", "std",
]);
const GLOBALS = new Set([...LANGUAGE, ...ADDED, "arguments"]);
const METHODS = builtinMethods();
const ONE_ARGUMENT = ["map", "filter", "some", "every", "find", "findIndex", "findLast", "findLastIndex", "flatMap", "forEach"];
const TESTING = new Set(["filter", "some", "every", "find", "findIndex", "findLast", "findLastIndex"]);
const FUNCTION_METHODS = new Set(["apply", "bind", "call"]);
const SETTLING = new Set(["then", "catch", "finally"]);
const WAITING = new Set(["all", "allSettled", "race", "any", "resolve"]);

function builtinMethods() {
  // Names of methods and properties that some object of the language has: calling them is never a hole.
  const names = new Set(["log", "info", "warn", "error", "debug", "table", "then", "catch", "finally", "next", "return", "throw"]);
  const look = (object) => {
    for (let at = object; at !== null && at !== undefined; at = Object.getPrototypeOf(at)) {
      for (const name of Object.getOwnPropertyNames(at)) names.add(name);
    }
  };
  for (const name of LANGUAGE) {
    const value = globalThis[name];
    if ((typeof value === "function" || typeof value === "object") && value !== null) {
      look(value);
      if (typeof value === "function") look(value.prototype);
    }
  }
  for (const value of [[].values(), new Map().values(), new Set().values(), "".matchAll(/x/g), (function* () {})()]) look(value);
  return names;
}

// --- which names are holes ------------------------------------------------------------------------------------------

class Holes {
  constructor(parsed, free, given) {
    this.parsed = parsed;
    this.names = new Map(); // name → { name, uses: [nodes], spec: number|null, type }
    this.calls = []; // { node (the reference), name, call (the call, or null), kind: "name"|"dotted"|"method" }
    this.stubs = []; // bindings of functions that are declared and left empty
    this.own = propertyNames(parsed.tree);
    this.global = globalNames(parsed.tree);
    this.specs = declaredIn(parsed);
    const tools = new Set(given.tools);
    for (const [name, nodes] of free) this.addFree(name, nodes, tools);
    this.addStubs();
    this.addImported();
    this.addMethods();
    markAwaited(parsed.tree, this);
  }

  add(name, node, call, kind) {
    if (!this.names.has(name)) this.names.set(name, { name, uses: [], spec: null, type: "" });
    const use = { node, name, call, kind, isAwaited: false };
    this.names.get(name).uses.push(use);
    this.calls.push(use);
    node.hole = use;
  }

  addFree(name, nodes, tools) {
    const isKnown = (GLOBALS.has(name) || ABSENT.has(name)) && !tools.has(name);
    if (isKnown || this.global.has(name) || nodes.some(isTarget)) return;
    if (nodes.some((node) => isTypeof(node))) return;  // the program tests whether it exists
    const dotted = nodes.filter((node) => dottedCall(node) !== null);
    for (const node of dotted) {
      const { path, call } = dottedCall(node);
      this.add(path, call.callee, call, "dotted");
    }
    nodes.filter(isBaseClass).forEach(markBlank);
    const plain = nodes.filter((node) => !dotted.includes(node) && !isBaseClass(node));
    if (!plain.some((node) => isCallee(node) || isPassed(node))) return;
    for (const node of plain) this.add(name, node, isCallee(node) ? node.parent : null, "name");
  }

  addStubs() {
    walk(this.parsed.tree, (node) => {
      const binding = stubBinding(node);
      if (binding === null || !isSpecification(node, binding, this.parsed)) return;
      this.stubs.push({ binding, node });
      for (const ref of binding.refs) this.add(binding.name, ref, isCallee(ref) ? ref.parent : null, "name");
      if (!this.names.has(binding.name)) this.names.set(binding.name, { name: binding.name, uses: [], spec: null, type: "" });
      const hole = this.names.get(binding.name);
      hole.spec = statementOf(node).number;
      hole.type = this.parsed.types.returns[binding.name] || documentedType(node, this.parsed);
    });
  }

  addImported() {
    for (const node of this.parsed.tree.body) {
      if (node.type !== "ImportDeclaration") continue;
      for (const part of node.specifiers) {
        const binding = part.local.scope.find(part.local.name);
        const isRenamed = part.type === "ImportSpecifier" && part.imported.name !== "default";
        const name = isRenamed ? part.imported.name || part.imported.value : binding.name;
        for (const ref of binding.refs) {
          const found = dottedCall(ref);
          if (isBaseClass(ref)) markBlank(ref);
          else if (found !== null) this.add(found.path, found.call.callee, found.call, "dotted");
          else this.add(name, ref, isCallee(ref) ? ref.parent : null, "name");
        }
      }
    }
  }

  addMethods() {
    walk(this.parsed.tree, (node) => {
      const callee = node.type === "CallExpression" ? node.callee : null;
      if (callee === null || callee.type !== "MemberExpression" || callee.computed || callee.hole) return;
      if (callee.property.type !== "Identifier" || callee.object.type === "Super" || callee.object.hole) return;
      const name = callee.property.name, root = callee.object;
      if (METHODS.has(name) || this.own.has(name)) return;
      const isNamespace = root.type === "Identifier" && !root.binding && GLOBALS.has(root.name);
      if (isNamespace) return;
      if (inChain(node) && !(node.parent.type === "ChainExpression" && !node.optional && !hasOptional(root))) return;
      this.add(name, callee, node, "method");
    });
  }

  finish() {
    // Adds specifications from `declare function …`, and types inferred from uses.
    for (const spec of this.specs) {
      const hole = this.names.get(spec.name);
      if (hole === undefined) continue;
      hole.spec = spec.number;
      hole.type = spec.type;
    }
    for (const hole of this.names.values()) hole.type = hole.type || expectedType(hole);
  }
}

function propertyNames(tree) {
  const names = new Set();
  walk(tree, (node) => {
    if (/^(Property|MethodDefinition|PropertyDefinition)$/.test(node.type)) {
      if (node.key.type === "Identifier" || node.key.type === "PrivateIdentifier") names.add(node.key.name);
      else if (node.key.type === "Literal") names.add(String(node.key.value));
    } else if (node.type === "MemberExpression" && !node.computed) {
      const parent = node.parent;
      const isRead = parent.type === "CallExpression" && parent.callee === node;
      if (!isRead) names.add(node.property.name);  // set or passed on somewhere: the program knows it
    }
  });
  return names;
}

function globalNames(tree) {
  // Names that the program defines as properties of the global object.
  const names = new Set();
  const isGlobal = (node) => node && node.type === "Identifier" && node.name === "globalThis" && !node.binding;
  walk(tree, (node) => {
    if (node.type === "AssignmentExpression" && node.left.type === "MemberExpression" && isGlobal(node.left.object)) {
      const { property, computed } = node.left;
      names.add(computed ? property.value : property.name);
    } else if (node.type === "CallExpression" && isGlobal(node.arguments[0])) {
      for (const part of node.arguments.slice(1)) {
        if (part.type === "Literal") names.add(part.value);
        else if (part.type === "ObjectExpression") for (const { key } of part.properties) if (key) names.add(key.name || key.value);
      }
    }
  });
  return names;
}

function isCallee(node) {
  const { parent } = node;
  return (parent.type === "CallExpression" && parent.callee === node) || parent.tag === node || isConstructed(node);
}

function isConstructed(node) {
  // `new Review(text)`: if nothing defines the class, a model supplies the object.
  return node.parent.type === "NewExpression" && node.parent.callee === node;
}

function isBaseClass(node) {
  return node.parent.type.startsWith("Class") && node.parent.superClass === node;
}

function markBlank(node) {
  // As a base, an undefined class adds nothing: methods that the subclass lacks are holes.
  node.isBlank = true;
}

function isPassed(node) {
  const parent = node.parent;
  if (parent.type === "CallExpression" || parent.type === "NewExpression") return parent.callee !== node;
  if (parent.type === "VariableDeclarator") return parent.init === node;
  if (/^Assignment(Expression|Pattern)$/.test(parent.type)) return parent.right === node;
  if (parent.type === "ConditionalExpression") return parent.test !== node;
  if (parent.type === "MemberExpression") return FUNCTION_METHODS.has(parent.property.name);
  if (parent.type === "Property" || parent.type === "PropertyDefinition") return parent.value === node;
  if (parent.type === "ArrowFunctionExpression") return parent.body === node;
  return ["ArrayExpression", "AwaitExpression", "LogicalExpression", "ReturnStatement", "SequenceExpression", "YieldExpression"].includes(parent.type);
}

function isTypeof(node) {
  return node.parent.type === "UnaryExpression" && node.parent.operator === "typeof";
}

function dottedCall(node) {
  // `nlp.sentiment(x)`, if nothing declares `nlp`.
  let at = node, path = node.name;
  while (at.parent.type === "MemberExpression" && at.parent.object === at && !at.parent.computed && !at.parent.optional) {
    at = at.parent;
    if (at.property.type !== "Identifier") return null;
    path += `.${at.property.name}`;
  }
  const isOwn = at === node || FUNCTION_METHODS.has(at.property.name);  // `isFruit.call(null, x)`: a function, not a namespace
  return !isOwn && isCallee(at) ? { path, call: at.parent } : null;
}

function inChain(node) {
  for (let at = node; at; at = at.parent) {
    if (at.type === "ChainExpression") return true;
    if (at.parent && !["MemberExpression", "CallExpression", "ChainExpression"].includes(at.parent.type)) return false;
    if (at.parent && at.parent.type === "CallExpression" && at.parent.callee !== at) return false;
  }
  return false;
}

function hasOptional(node) {
  let found = false;
  walk(node, (part) => {
    found = found || part.optional === true;
  });
  return found;
}

// --- functions that are declared and left empty ---------------------------------------------------------------------

function stubBinding(node) {
  if (node.type === "FunctionDeclaration" && node.id && isEmpty(node)) return node.id.scope.find(node.id.name);
  if (node.type === "VariableDeclarator" && node.id.type === "Identifier" && node.init && FUNCTIONS.has(node.init.type)) {
    return isEmpty(node.init) ? node.id.scope.find(node.id.name) : null;
  }
  return null;
}

function isEmpty(node) {
  if (node.generator || node.body.type !== "BlockStatement") return false;
  const [first, ...rest] = node.body.body;
  if (first === undefined) return true;
  if (rest.length || first.type !== "ThrowStatement" || first.argument.type !== "NewExpression") return false;
  const [message] = first.argument.arguments;
  return message !== undefined && message.type === "Literal" && /not implemented|to ?do|emulate/i.test(String(message.value));
}

function isSpecification(node, binding, parsed) {
  // A function that does nothing may be intended: it is a specification only if its value is used or a comment describes it.
  if (binding.nodes.length > 1 || binding.writes.some((write) => !binding.nodes.includes(write))) return false;
  if (binding.refs.some(isConstructed)) return false;  // a constructor that sets nothing
  const body = (node.init || node).body;
  if (body.body.length) return true;
  if (parsed.comments.some((comment) => comment.start > body.start && comment.end < body.end)) return true;
  return binding.refs.some((ref) => !(isCallee(ref) && ref.parent.parent.type === "ExpressionStatement"));
}

function documentedType(node, parsed) {
  const start = statementOf(node).start;
  const before = parsed.comments.findLast((comment) => comment.end <= start);
  const isNext = before !== undefined && /^\s*$/.test(parsed.text.slice(before.end, start));
  const found = isNext && /@returns?\s*\{([^}]*)\}/.exec(before.value);
  return found ? signatureType(`declare function f(): ${found[1]};`) : "";
}

function signatureType(text) {
  try {
    const [spec] = stripTypes(text).specs;
    return spec ? spec.type : "";
  } catch {
    return "";
  }
}

function declaredIn(parsed) {
  // `declare function f(x: string): boolean`, as TypeScript or in a comment.
  const found = parsed.types.specs.map((spec) => ({ ...spec }));
  for (const comment of parsed.comments) {
    for (const match of comment.value.matchAll(/declare\s+function\s+([A-Za-z_$][\w$]*)\s*\([^\n]*/g)) {
      const text = match[0].replace(/\*\/$|;?\s*$/, ";");
      found.push({ name: match[1], type: signatureType(text), start: comment.loc.start, end: comment.loc.end });
    }
  }
  return found;
}

// --- awaited calls --------------------------------------------------------------------------------------------------

function markAwaited(tree, holes) {
  const seen = new Set();
  walk(tree, (node) => {
    if (node.type === "AwaitExpression") awaited(node.argument, seen);
    else if (node.type === "ForOfStatement" && node.await) awaited(node.right, seen);
    else if (node.type === "ReturnStatement" && node.argument) {
      const home = functionOf(node);
      if (home && home.async && !home.generator && !inTry(node, home)) awaited(node.argument, seen);
    } else if (node.type === "ArrowFunctionExpression" && node.async && node.expression) awaited(node.body, seen);
    else if (node.type === "CallExpression" && node.callee.type === "MemberExpression" && !node.callee.computed) {
      const { object, property } = node.callee;
      if (object.type === "Identifier" && object.name === "Promise" && WAITING.has(property.name)) awaited(node.arguments[0], seen);
      else if (SETTLING.has(property.name)) awaited(object, seen);
    }
  });
}

function functionOf(node) {
  let at = node.parent;
  while (at && !FUNCTIONS.has(at.type)) at = at.parent;
  return at;
}

function inTry(node, home) {
  for (let at = node.parent; at !== home; at = at.parent) if (at.type === "TryStatement") return true;
  return false;
}

function awaited(node, seen) {
  // Marks calls whose value is only awaited: they return promises, and their requests go out together.
  if (!node || seen.has(node)) return;
  seen.add(node);
  if (node.type === "ConditionalExpression") {
    awaited(node.consequent, seen);
    awaited(node.alternate, seen);
  } else if (node.type === "LogicalExpression") awaited(node.right, seen);
  else if (node.type === "SequenceExpression") awaited(node.expressions.at(-1), seen);
  else if (node.type === "ArrayExpression") for (const item of node.elements) awaited(item, seen);
  else if (node.type === "SpreadElement") awaited(node.argument, seen);
  else if (node.type === "CallExpression") awaitedCall(node, seen);
  else if (node.type === "Identifier" && node.binding) awaitedVariable(node.binding, seen);
}

function awaitedCall(node, seen) {
  if (node.callee.hole) {
    node.callee.hole.isAwaited = true;
    return;
  }
  const { callee } = node;
  if (callee.type !== "MemberExpression" || callee.computed || !["map", "flatMap", "from"].includes(callee.property.name)) return;
  for (const argument of node.arguments) {
    if (argument.hole) argument.hole.isAwaited = true;
    else if (FUNCTIONS.has(argument.type) && !argument.generator) awaitedReturns(argument, seen);
  }
}

function awaitedReturns(node, seen) {
  if (node.expression) awaited(node.body, seen);
  else {
    walk(node.body, (part) => {
      if (FUNCTIONS.has(part.type)) return false;
      if (part.type === "ReturnStatement" && !inTry(part, node)) awaited(part.argument, seen);
      return undefined;
    });
  }
}

function awaitedVariable(binding, seen) {
  const [only] = binding.nodes;
  const isPlain = binding.nodes.length === 1 && only.parent.type === "VariableDeclarator" && only.parent.id === only && binding.writes.length === 1;
  if (!isPlain || !binding.refs.every(isWaitedFor)) return;
  awaited(only.parent.init, seen);
}

function isWaitedFor(ref) {
  let at = ref;
  while (["ArrayExpression", "SpreadElement"].includes(at.parent.type)) at = at.parent;
  const parent = at.parent;
  if (parent.type === "AwaitExpression") return at === ref;
  if (parent.type === "MemberExpression" && !parent.computed) return isCallee(parent) && SETTLING.has(parent.property.name);
  const isAll = parent.type === "CallExpression" && parent.callee.type === "MemberExpression" && parent.arguments[0] === at;
  return isAll && parent.callee.object.name === "Promise" && WAITING.has(parent.callee.property.name);
}
