// Rewrites a program, with probes after its statements and holes in place of undefined functions.
// Lines stay unchanged; marks show where each piece of the result comes from, and are removed at the end.
"use strict";

const MUTATORS = new Set(["push", "pop", "shift", "unshift", "splice", "sort", "reverse", "fill", "copyWithin", "set", "add", "delete", "clear"]);
const MAX_NAMES = 20;

class Writer {
  constructor(parsed, holes, prefix, views) {
    this.views = views; // null if models do not see variables
    this.source = parsed.text;
    this.tree = parsed.tree;
    this.prefix = prefix;
    this.mark = unusedCharacter(parsed.text);
    this.variables = new Map(); // hole's name, "~" before it if awaited → variable
    this.dynamic = new Map(); // name → the declaration of a hole that `with` may hide
    this.probed = new Map(); // statement → names in its probe
    this.hasEval = callsEval(parsed.tree);
    this.stubs = new Set(holes.stubs.map((stub) => stub.node));
  }

  at(number) {
    return this.mark + number + this.mark;
  }

  text(node) {
    if (node.hole !== undefined) return this.hole(node);
    if (node.isBlank) return `${this.prefix}.b`;
    if (node.number !== undefined) return this.at(node.number) + this.statement(node) + this.after(node);
    const own = this[node.type];
    return own ? own.call(this, node) : this.stitched(node);
  }

  after(node) {
    const around = statementOf(node.parent);
    return around ? this.at(around.number) : "";
  }

  stitched(node, start = node.start, end = node.end) {
    let out = "", at = start;
    for (const child of childrenOf(node)) {
      if (child.start < at || child.end > end) continue;
      out += this.source.slice(at, child.start) + this.text(child);
      at = child.end;
    }
    return out + this.source.slice(at, end);
  }

  lines(start, end) {
    return this.source.slice(start, end).replace(/[^\n]+/g, "");
  }

  // --- holes ----------------------------------------------------------------------------------------------------

  hole(node) {
    const { name, kind, isAwaited } = node.hole;
    const { prefix } = this, view = this.views ? this.views.at(node) : "", named = `${JSON.stringify(name)},${isAwaited ? 1 : 0}`;
    if (kind === "method") return `${prefix}.m(${this.text(node.object)},${named}${view})${this.lines(node.object.end, node.end)}`;
    if (kind === "name" && (this.hasEval || insideWith(node))) return this.found(node.name, named);
    const lines = this.lines(node.start, node.end);
    if (view && isCallee(node)) return `${prefix}.w(${named}${view})${lines}`;
    const variable = this.variable(isAwaited ? `~${name}` : name);
    return (view ? `${prefix}.p(${variable}${view})` : variable) + lines;
  }

  found(name, named) {
    // An object of `with` may have the name, and `eval` may declare it: the hole is a variable of that name, outside of all scopes.
    this.dynamic.set(name, `,${name}=${this.prefix}.h(${named})`);
    return name;
  }

  variable(name) {
    if (!this.variables.has(name)) this.variables.set(name, `${this.prefix}h${this.variables.size}`);
    return this.variables.get(name);
  }

  NewExpression(node) {
    if (node.callee.hole === undefined) return this.stitched(node);
    const start = node.start + "new".length, { line } = node.loc.start;
    if (/^\s*\(/.test(this.source.slice(start, node.callee.start))) {
      throw new Unsupported(`line ${line}: class ${quoted(node.callee.hole.name)} is not defined; write new ${node.callee.hole.name}(…) without parentheses around it`);
    }
    const hasArguments = this.source[node.end - 1] === ")";
    return this.stitched(node, start) + (hasArguments ? "" : "()");
  }

  Property(node) {
    if (!node.shorthand) return this.stitched(node);
    const isHole = node.value.hole !== undefined;
    return isHole ? `${node.key.name}:${this.text(node.value)}` : this.text(node.value);  // the key is part of the value
  }

  ImportExpression(node) {
    return `${this.prefix}.i(${this.text(node.source)})`;
  }

  // --- statements -----------------------------------------------------------------------------------------------

  statement(node) {
    const own = this[node.type];
    return own ? own.call(this, node) : this.stitched(node) + this.probe(node, touchedNames(node));
  }

  probe(node, names, before = ";") {
    this.probed.set(node.number, names);
    const flag = `${this.prefix}${node.number}`;
    return `${before}if(${flag})try{${flag}=${this.prefix}.v(${node.number},[${names.join(",")}])}catch{}`;
  }

  outcome(node, value) {
    if (!this.probed.has(node.number)) this.probed.set(node.number, []);
    const flag = `${this.prefix}${node.number}`;
    return `if(${flag})${flag}=${this.prefix}.o(${node.number},${value});`;
  }

  body(node, prefix) {
    if (node.type !== "BlockStatement") return `{${prefix}${this.text(node)}}`;
    return `{${prefix}${this.stitched(node, node.start + 1)}`;
  }

  ExpressionStatement(node) {
    if (!isKept(node)) return this.stitched(node) + (node.directive === undefined ? this.probe(node, touchedNames(node)) : "");
    const rest = this.source.slice(node.expression.end, node.end).replace(/;$/, "");
    const isCall = node.expression.type === "CallExpression" && node.parent.type === "Program";
    const kept = isCall ? `${this.prefix}.k(` : "(";
    const before = this.source.slice(node.start, node.expression.start) + unnamed(node.expression);
    return `${this.prefix}l=${kept}${before}${this.text(node.expression)}${rest});${this.probe(node, touchedNames(node), "")}`;
  }

  IfStatement(node) {
    const { start, test, consequent, alternate } = node;
    const head = this.source.slice(start, test.start) + this.text(test) + this.source.slice(test.end, consequent.start);
    const then = this.body(consequent, this.outcome(node, true));
    if (alternate === null) return `${head}${then}else{${this.outcome(node, false)}}`;
    const between = this.source.slice(consequent.end, alternate.start);
    return head + then + between + this.at(node.number) + this.body(alternate, this.outcome(node, false));
  }

  loop(node, prefix) {
    let out = "", at = node.start;
    for (const child of childrenOf(node)) {
      out += this.source.slice(at, child.start) + (child === node.body ? this.body(child, prefix) : this.text(child));
      at = child.end;
    }
    return out + this.source.slice(at, node.end);
  }

  WhileStatement(node) {
    return this.loop(node, this.outcome(node, true));
  }

  DoWhileStatement(node) {
    return `${this.loop(node, "")};`;
  }

  ForStatement(node) {
    const names = node.init && node.init.type === "VariableDeclaration" ? declaredNames(node.init) : [];
    return this.loop(node, `${this.probe(node, names, "")};`);
  }

  ForOfStatement(node) {
    const names = node.left.type === "VariableDeclaration" ? declaredNames(node.left) : patternNames(node.left).map((name) => name.name);
    return this.loop(node, `${this.probe(node, names, "")};`);
  }

  ForInStatement(node) {
    return this.ForOfStatement(node);
  }

  ReturnStatement(node) {
    if (node.argument === null) return this.stitched(node);
    if (!this.probed.has(node.number)) this.probed.set(node.number, []);
    const { prefix } = this, flag = `${prefix}${node.number}`, { argument } = node;
    const value = this.lines(node.start, argument.start) + unnamed(argument) + this.text(argument) + this.lines(argument.end, node.end);
    return `return (${prefix}t=(${value}),${flag}&&(${flag}=${prefix}.r(${node.number},${prefix}t)),${prefix}t);`;
  }

  FunctionDeclaration(node) {
    return this.stitched(node);
  }

  ThrowStatement(node) {
    const { argument } = node;
    const value = this.lines(node.start, argument.start) + this.text(argument) + this.lines(argument.end, node.end);
    return `throw ${this.prefix}.x(${value});`;  // the value may have no stack
  }

  BreakStatement(node) {
    return this.stitched(node);
  }

  ContinueStatement(node) {
    return this.stitched(node);
  }

  TryStatement(node) {
    return this.stitched(node);
  }

  SwitchStatement(node) {
    return this.stitched(node);
  }

  ImportDeclaration(node) {
    const name = String(node.source.value).replace(/^node:/, "");
    if (MODULES.has(name.split("/")[0])) throw new Unsupported(`line ${node.loc.start.line}: module ${quoted(name)} is not available in the sandbox`);
    return this.lines(node.start, node.end);
  }

  ExportNamedDeclaration(node) {
    return node.declaration ? this.lines(node.start, node.declaration.start) + this.text(node.declaration) : this.lines(node.start, node.end);
  }

  ExportDefaultDeclaration(node) {
    const isNamed = /Declaration$/.test(node.declaration.type) && node.declaration.id;
    const inner = this.text(node.declaration);
    return this.lines(node.start, node.declaration.start) + (isNamed ? inner : `;${this.prefix}l=(0,${inner});`);
  }

  ExportAllDeclaration(node) {
    return this.lines(node.start, node.end);
  }

  // --- the whole ------------------------------------------------------------------------------------------------

  program() {
    const body = this.stitched(this.tree, 0, this.source.length);
    const { prefix } = this;
    const holes = [...this.variables].map(([name, variable]) => {
      const isAwaited = name.startsWith("~");
      return `,${variable}=${prefix}.h(${JSON.stringify(isAwaited ? name.slice(1) : name)},${isAwaited ? 1 : 0})`;
    });
    const flags = [...this.probed.keys()].map((number) => `,${prefix}${number}=1`);
    const isStrict = this.tree.body.some((node) => node.directive === "use strict");
    const isAsync = waitsAtTop(this.tree);
    const variables = `var ${prefix}l,${prefix}t${flags.join("")}${holes.join("")}${[...this.dynamic.values()].join("")};`;
    // Two functions, so that `arguments` of the inner one is the program's. The program begins on a line of its own.
    const head = `(function(${prefix}){return (${isAsync ? "async " : ""}function(){${isStrict ? '"use strict";' : ""}${variables}\n`;
    const own = this.tree.scope.names.get("answer");
    const answer = own !== undefined && own.kind !== "import" ? "()=>answer" : "null";
    const code = `${head}${body.replace(/^#![^\n]*/, "")}\n;${prefix}.e(${answer},()=>${prefix}l)}).call(this)})`;
    return unmarked(code, this.mark);
  }
}

function callsEval(tree) {
  let found = false;
  walk(tree, (node) => {
    found = found || (node.type === "CallExpression" && node.callee.name === "eval" && !node.callee.binding);
  });
  return found;
}

function isKept(node) {
  // Whether a statement's value may be the program's last value: an expression outside of functions.
  if (node.type !== "ExpressionStatement" || node.directive !== undefined) return false;
  for (let at = node.parent; at; at = at.parent) if (FUNCTIONS.has(at.type) || at.type === "StaticBlock") return false;
  return true;
}

function unnamed(node) {
  // The text before a value kept in a variable: without it, an anonymous function would get the variable's name.
  return /^(Arrow)?FunctionExpression$|^ClassExpression$/.test(node.type) && !node.id ? "0," : "";
}

function unusedCharacter(source) {
  for (let code = 0xe000; code < 0xf8ff; code++) if (!source.includes(String.fromCharCode(code))) return String.fromCharCode(code);
  throw new Unsupported("the source uses every private character of Unicode");
}

function unmarked(code, mark) {
  // The code without marks, and the line and column (in characters) of each change of statement. The added head is line 0.
  const parts = code.split(mark), places = [];
  let out = "", line = 0, column = 0;
  parts.forEach((part, index) => {
    if (index % 2) {
      places.push([line, column, Number(part)]);
      return;
    }
    out += part;
    const last = part.lastIndexOf("\n");
    if (last >= 0) {
      line += part.split("\n").length - 1;
      column = 0;
    }
    column += [...part.slice(last + 1)].length;
  });
  return { code: out, places };
}

function waitsAtTop(tree) {
  let found = false;
  walk(tree, (node) => {
    if (FUNCTIONS.has(node.type)) return false;
    found = found || node.type === "AwaitExpression" || (node.type === "ForOfStatement" && node.await);
    return undefined;
  });
  return found;
}

function declaredNames(declaration) {
  return declaration.declarations.flatMap((part) => patternNames(part.id)).map((name) => name.name).slice(0, MAX_NAMES);
}

function rootOf(node) {
  let at = node;
  while (at && (at.type === "MemberExpression" || at.type === "ChainExpression" || at.type === "CallExpression")) at = at.object || at.expression || at.callee;
  return at && at.type === "Identifier" ? at : null;
}

function touchedNodes(node, isDeep = false) {
  // The variables that a statement sets or changes, not counting what the functions do that it calls.
  const found = [];
  const root = (part) => {
    const own = rootOf(part);
    if (own) found.push(own);
  };
  walk(node, (part) => {
    if (FUNCTIONS.has(part.type)) return isDeep ? undefined : false;
    if (part.type === "AssignmentExpression") {
      if (part.left.type === "MemberExpression") root(part.left);
      else found.push(...patternNames(part.left));
    } else if (part.type === "UpdateExpression" || (part.type === "UnaryExpression" && part.operator === "delete")) root(part.argument);
    else if (part.type === "VariableDeclarator") found.push(...patternNames(part.id));
    else if (part.type === "ClassDeclaration" && part.id) found.push(part.id);
    else if (part.type === "CallExpression" && part.callee.type === "MemberExpression" && !part.callee.computed) {
      const isAssign = part.callee.object.name === "Object" && part.callee.property.name === "assign";
      if (isAssign) root(part.arguments[0]);
      else if (MUTATORS.has(part.callee.property.name) || (!METHODS.has(part.callee.property.name) && !part.callee.hole)) root(part.callee.object);
    }
    return undefined;
  });
  return found;
}

function touchedNames(node) {
  const names = touchedNodes(node).filter((part) => !part.hole && (part.binding ? part.binding.kind !== "import" : !GLOBALS.has(part.name)));
  return [...new Set(names.map((part) => part.name))].slice(0, MAX_NAMES);
}

// --- the entry points -----------------------------------------------------------------------------------------------

function prepare(json) {
  // Returns a program as JSON, with its description for the trace and its code to run. Errors are data.
  const given = JSON.parse(json);
  try {
    return JSON.stringify(prepared(given));
  } catch (error) {
    const isDeep = error instanceof RangeError || error instanceof InternalError || /stack space/.test(error.message);
    const place = error.loc ? `line ${error.loc.line}: ` : "";
    const message = explained(String(error.message).replace(/ \(\d+:\d+\)$/, ""), given.source, error.pos);
    return JSON.stringify({ error: isDeep ? "the source is nested too deep to parse" : place + message, line: error.loc ? error.loc.line : 0 });
  }
}

function explained(message, source, at) {
  // acorn does not name the unexpected token.
  if (message !== "Unexpected token") return message;
  if (/\bawait\s+$/.test(source.slice(0, at))) return "'await' needs an async function around it";
  const [token] = /^(?:[\w$]+|\S)?/.exec(source.slice(at));
  return token ? `Unexpected token '${token}'` : "Unexpected end of the program";
}

function prepared(given) {
  const parsed = parseProgram(given.source);
  const statements = numberStatements(parsed);
  const free = resolveNames(parsed.tree);
  const views = given.isShown ? new Views(globalsOf(free, given.inputs)) : null;
  for (const name of given.inputs) free.delete(name);
  const holes = new Holes(parsed, free, given);
  const column = utf8Columns(parsed.text);
  const places = statements.map((node) => [node.loc.start.line, column(node.loc.start), node.loc.end.line, column(node.loc.end), kindOf(node)]);
  for (const spec of holes.specs) {
    spec.number = places.length;
    places.push([spec.start.line, column(spec.start), spec.end.line, column(spec.end), "FunctionDef"]);
  }
  holes.finish();
  const writer = new (given.isShadow ? ShadowWriter : Writer)(parsed, holes, given.prefix, views);
  const { code, places: marks } = writer.program();
  return {
    statements: places,
    holes: [...holes.names.keys()].sort(),
    uses: usesOf(holes),
    isHardCoded: statesItsAnswer(parsed.tree),
    code,
    marks,
    probes: Object.fromEntries(writer.probed),
    views: views ? views.names : [],
    lineage: given.isRecorded ? lineageOf(parsed, statements, holes) : null,
  };
}

function usesOf(holes) {
  const found = new Map();
  for (const use of holes.calls) {
    const hole = holes.names.get(use.name);
    const around = statementOf(use.node);
    if (around) found.set(`${around.number} ${use.name}`, [around.number, use.name, hole.type, hole.spec]);
  }
  return [...found.values()];
}

function statesItsAnswer(tree) {
  // Whether `answer` is assigned exactly once: a literal, at the top level.
  const values = [];
  walk(tree, (node) => {
    if (node.type === "VariableDeclarator" && node.id.name === "answer" && node.init) values.push(node.init);
    if (node.type === "AssignmentExpression" && node.left.name === "answer") values.push(node.right);
  });
  return values.length === 1 && values[0].type === "Literal" && statementOf(values[0]).parent.type === "Program";
}
