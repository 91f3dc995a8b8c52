// Computes what the statements of a program depend on, without running it: an over-approximation.
//
// A statement depends on every statement that may set a variable it reads, on every one that may change an object that such a
// variable may share, on the returns of the functions it mentions, and on what decides whether it runs.
"use strict";

const STATES = 0, PASSES_ON = 1, CHOOSES = 2, WORKS = 4;
const FRESH = new Set(["BinaryExpression", "UnaryExpression", "UpdateExpression", "Literal", "TemplateLiteral", "ArrowFunctionExpression", "FunctionExpression", "ClassExpression", "ThisExpression"]);
const PRIMITIVE_METHODS = new Set(["join", "toString", "includes", "indexOf", "has", "toUpperCase", "toLowerCase", "trim", "charAt", "charCodeAt", "startsWith", "endsWith", "toFixed", "padStart", "padEnd", "test", "stringify", "some", "every"]);
const CHANGING = new Set([...MUTATORS, "next", "exec", "assign", "defineProperty", "setPrototypeOf", "apply", "call"]);
const THIS = { name: "this" };

class Lineages {
  constructor(parsed, statements) {
    this.statements = statements;
    this.group = new Map(); // binding → the binding that represents its group of aliases
    this.globals = new Map();
    this.hubs = [];
    this.numbers = new Map(); // key of a hub → its number
    this.groups = new Map();
    this.jumps = new Map(); // function, or null for the program → the statements around its jumps
    this.functions = new Map(); // binding, or a property's name → functions
    this.returned = new Map(); // function → the binding that represents its value
    walk(parsed.tree, (node) => this.noteFunction(node));
    this.facts = statements.map((node) => this.factsOf(node));
    walk(parsed.tree, (node) => this.noteFlow(node));
    this.writers = this.index((fact) => fact.writes, (binding) => binding);
    this.changers = this.index((fact) => fact.changes, (binding) => this.find(binding));
  }

  // --- names and aliases ------------------------------------------------------------------------------------------

  binding(node) {
    if (node.binding) return node.binding;
    if (!this.globals.has(node.name)) this.globals.set(node.name, { name: node.name });
    return this.globals.get(node.name);
  }

  find(binding) {
    let at = binding;
    while (this.group.has(at)) at = this.group.get(at);
    return at;
  }

  join(one, other) {
    const a = this.find(one), b = this.find(other);
    if (a !== b) this.group.set(a, b);
  }

  valueOf(node) {
    if (!this.returned.has(node)) this.returned.set(node, { name: "return" });
    return this.returned.get(node);
  }

  noteFunction(node) {
    const add = (key, own) => this.functions.set(key, [...(this.functions.get(key) || []), own]);
    if (node.type === "FunctionDeclaration" && node.id) add(node.id.scope.find(node.id.name), node);
    else if (node.type === "VariableDeclarator" && node.init && FUNCTIONS.has(node.init.type) && node.id.type === "Identifier") add(node.id.scope.find(node.id.name), node.init);
    else if (/^(Property|MethodDefinition|PropertyDefinition)$/.test(node.type) && node.value && FUNCTIONS.has(node.value.type)) {
      add(`.${node.key.name ?? node.key.value}`, node.value);
      if (node.kind === "constructor") for (let at = node.parent; at; at = at.parent) if (at.type.startsWith("Class") && at.id) {
        add(at.id.scope.find(at.id.name), node.value);
        break;
      }
    } else if (node.type === "AssignmentExpression" && FUNCTIONS.has(node.right.type)) {
      if (node.left.type === "MemberExpression" && !node.left.computed) add(`.${node.left.property.name}`, node.right);
      else if (node.left.type === "Identifier") add(this.binding(node.left), node.right);
    }
  }

  mentioned(node) {
    // The functions of the program that an expression may evaluate to.
    if (FUNCTIONS.has(node.type)) return [node];
    if (node.type === "Identifier") return this.functions.get(this.binding(node)) || [];
    if (node.type === "MemberExpression" && !node.computed) return this.functions.get(`.${node.property.name}`) || [];
    return node.type === "MemberExpression" ? [...this.functions.entries()].filter(([key]) => typeof key === "string").flatMap(([, own]) => own) : [];
  }

  roots(node, depth = 0) {
    // The variables whose objects the value of an expression may be, or contain.
    if (!node || depth > 50 || (node.type !== "ThisExpression" && FRESH.has(node.type)) || (node.hole && node.hole.call)) return [];
    if (node.type === "ThisExpression") return [THIS];
    if (node.type === "Identifier") return [this.binding(node)];
    if (node.type === "MemberExpression") return this.roots(node.object, depth + 1);
    if (node.type === "CallExpression" || node.type === "NewExpression") return this.callRoots(node, depth);
    if (node.type === "AssignmentExpression") return this.roots(node.right, depth + 1);
    return childrenOf(node).flatMap((child) => this.roots(child, depth + 1));
  }

  callRoots(node, depth) {
    const { callee } = node;
    if (callee.hole) return [];
    const name = callee.type === "MemberExpression" ? callee.property.name : "";
    const own = this.mentioned(callee);
    if (PRIMITIVE_METHODS.has(name) && !own.length) return [];
    const receiver = callee.type === "MemberExpression" ? this.roots(callee.object, depth + 1) : [];
    const given = node.arguments.flatMap((argument) => [...this.roots(argument, depth + 1), ...this.mentioned(argument).map((own) => this.valueOf(own))]);
    return [...receiver, ...given, ...own.map((own) => this.valueOf(own)), ...(node.type === "NewExpression" ? [THIS] : [])];
  }

  noteFlow(node) {
    const flow = (targets, sources) => {
      for (const target of targets) for (const source of sources) this.join(target, source);
    };
    const names = (pattern) => patternNames(pattern).map((name) => this.binding(name));
    if (node.type === "VariableDeclarator" && node.init) flow(names(node.id), this.roots(node.init));
    else if (node.type === "AssignmentExpression") flow(node.left.type === "MemberExpression" ? this.roots(node.left) : names(node.left), this.roots(node.right));
    else if (node.type === "ForOfStatement" || node.type === "ForInStatement") {
      const left = node.left.type === "VariableDeclaration" ? node.left.declarations[0].id : node.left;
      flow(names(left), this.roots(node.right));
    } else if (node.type === "ReturnStatement" && node.argument) {
      const home = functionOf(node);
      if (home) flow([this.valueOf(home)], this.roots(node.argument));
    } else if (node.type === "ArrowFunctionExpression" && node.expression) flow([this.valueOf(node)], this.roots(node.body));
    else if (node.type === "CallExpression" || node.type === "NewExpression") this.noteCall(node, flow);
  }

  noteCall(node, flow) {
    const { callee } = node;
    const receiver = callee.type === "MemberExpression" ? this.roots(callee.object) : [];
    const given = node.arguments.flatMap((argument) => this.roots(argument));
    if (callee.type === "MemberExpression" && CHANGING.has(callee.property.name)) flow(receiver, given);
    const called = [...this.mentioned(callee), ...node.arguments.flatMap((argument) => this.mentioned(argument))];
    for (const own of called) {
      const parameters = own.params.flatMap((part) => patternNames(part)).map((name) => own.scope.find(name.name));
      flow(parameters, [...receiver, ...given]);
    }
    if (this.mentioned(callee).length) flow([THIS], receiver);
  }

  // --- what a statement does itself ---------------------------------------------------------------------------------

  factsOf(statement) {
    const fact = { reads: new Set(), writes: new Set(), changes: new Set(), functions: new Set(), says: false, work: PASSES_ON };
    const isLiteral = { only: true };
    const look = (node) => {
      if (node !== statement && node.number !== undefined) return;
      this.lookAt(node, fact, isLiteral);
      for (const child of childrenOf(node)) look(child);
    };
    look(statement);
    for (const own of fact.functions) for (const part of own.params) for (const name of patternNames(part)) fact.writes.add(own.scope.find(name.name));
    for (const binding of caughtFrom(statement)) fact.writes.add(binding);
    fact.work = this.workOf(statement, fact, isLiteral.only);
    return fact;
  }

  lookAt(node, fact, isLiteral) {
    if (FUNCTIONS.has(node.type)) fact.functions.add(node);
    if (isReference(node) || (node.type === "Identifier" && node.binding)) this.lookAtName(node, fact, isLiteral);
    else if (node.type === "ThisExpression") fact.reads.add(THIS);
    if (node.type === "MemberExpression") for (const own of this.mentioned(node)) fact.functions.add(own);
    if (node.type === "AssignmentExpression" && node.left.type === "MemberExpression") for (const root of this.roots(node.left)) fact.changes.add(root);
    if (node.type === "UpdateExpression" || (node.type === "UnaryExpression" && node.operator === "delete")) for (const root of this.roots(node.argument)) fact.changes.add(root);
    if (node.type === "CallExpression" || node.type === "NewExpression") this.lookAtCall(node, fact, isLiteral);
    if (/^(Binary|Update|Logical|Conditional|Template)/.test(node.type) && !(node.type === "TemplateLiteral" && !node.expressions.length)) isLiteral.only = false;
  }

  lookAtName(node, fact, isLiteral) {
    const binding = this.binding(node);
    for (const own of this.functions.get(binding) || []) fact.functions.add(own);
    if (isTarget(node)) fact.writes.add(binding);
    const assigned = node.parent.type === "AssignmentExpression" && node.parent.left === node && node.parent.operator === "=";
    if (!assigned && node.parent.type !== "VariableDeclarator" && !node.hole) fact.reads.add(binding);
    else if (node.parent.type === "VariableDeclarator" && node.parent.init === node) fact.reads.add(binding);
    if (!isTarget(node)) isLiteral.only = false;
  }

  lookAtCall(node, fact, isLiteral) {
    const { callee } = node;
    isLiteral.only = false;
    if (callee.hole) return;
    const name = callee.type === "MemberExpression" && !callee.computed ? callee.property.name : "";
    if (callee.type === "MemberExpression" && callee.object.name === "console") fact.says = true;
    if (CHANGING.has(name) || /^set[A-Z]/.test(name) || (callee.type === "MemberExpression" && callee.computed)) {
      for (const root of [...this.roots(callee), ...node.arguments.flatMap((argument) => this.roots(argument))]) fact.changes.add(root);
    }
  }

  workOf(statement, fact, isLiteral) {
    if (/^(Function|Class|Import|Break|Continue|Try)/.test(statement.type)) return STATES;
    if (/^(If|Switch)/.test(statement.type)) return CHOOSES;
    if (/^(For|While|DoWhile)/.test(statement.type)) return WORKS;
    if (isLiteral) return STATES;
    let most = PASSES_ON;
    walk(statement, (node) => {
      if (node !== statement && node.number !== undefined) return false;
      if (node.type === "ConditionalExpression" || node.type === "LogicalExpression") most = Math.max(most, CHOOSES);
      const isOwnCall = (node.type === "CallExpression" && !node.callee.hole) || node.type === "NewExpression";
      const isCompound = node.type === "AssignmentExpression" && node.operator !== "=";
      if (isOwnCall || isCompound || /^(Binary|Update|Template|Spread)/.test(node.type)) most = WORKS;
      return undefined;
    });
    return most;
  }

  index(of, key) {
    const found = new Map();
    this.facts.forEach((fact, number) => {
      for (const binding of of(fact)) {
        if (!found.has(key(binding))) found.set(key(binding), new Set());
        found.get(key(binding)).add(number);
      }
    });
    return found;
  }

  // --- dependencies -------------------------------------------------------------------------------------------------

  // Statements in groups, so that dependencies grow with the program and not with its square.

  hub(key, statements) {
    if (!this.numbers.has(key)) {
      this.numbers.set(key, this.hubs.length);
      this.hubs.push([...statements()]);
    }
    return this.numbers.get(key);
  }

  behind(binding) {
    const written = this.hub(binding, () => this.writers.get(binding) || []);
    const group = this.find(binding);
    return [written, this.hub(`${this.groupNumber(group)} changed`, () => this.changers.get(group) || [])];
  }

  groupNumber(group) {
    if (!this.groups.has(group)) this.groups.set(group, this.groups.size);
    return this.groups.get(group);
  }

  data(fact) {
    const found = new Set();
    for (const binding of fact.reads) for (const hub of this.behind(binding)) found.add(hub);
    for (const own of fact.functions) found.add(this.hub(own, () => this.inside(own)));
    return found;
  }

  inside(own) {
    // The statements of a function's body that determine its value: returns, yields, throws.
    const found = [];
    walk(own.body, (node) => {
      if (node.number !== undefined && (/^(Return|Throw)Statement$/.test(node.type) || holdsYield(node))) found.push(node.number);
    });
    return found;
  }

  decided(home) {
    // What decides whether the statements of a function run: the statements that mention it, and those around its jumps.
    return this.hub(home === null ? "top" : this.valueOf(home), () => {
      const callers = this.facts.map((fact, number) => (home !== null && fact.functions.has(home) ? number : -1)).filter((number) => number >= 0);
      return new Set([...callers, ...(this.jumps.get(home) || [])]);
    });
  }
}

function caughtFrom(statement) {
  // The variables of `catch` that an error in a statement sets.
  const found = [];
  for (let at = statement; at.parent && !FUNCTIONS.has(at.type); at = at.parent) {
    const { handler, block } = at.parent;
    if (at.parent.type === "TryStatement" && block === at && handler) found.push(...patternNames(handler.param).map((name) => handler.scope.find(name.name)));
  }
  return found;
}

function holdsYield(statement) {
  let found = false;
  walk(statement, (node) => {
    if (node !== statement && (node.number !== undefined || FUNCTIONS.has(node.type))) return false;
    found = found || node.type === "YieldExpression";
    return undefined;
  });
  return found;
}

function lineageOf(parsed, statements) {
  const lines = new Lineages(parsed, statements);
  const around = (node) => (statementOf(node.parent) ? statementOf(node.parent).number : -1);
  const where = (test) => lines.facts.map((fact, number) => (test(fact) ? number : -1)).filter((number) => number >= 0);
  for (const node of statements) {
    if (!/^(Return|Break|Continue|Throw)Statement$/.test(node.type) || around(node) < 0) continue;
    if (!lines.jumps.has(functionOf(node))) lines.jumps.set(functionOf(node), new Set());
    lines.jumps.get(functionOf(node)).add(around(node));
  }
  const ends = {}, inputs = {};
  for (const [name, binding] of [...parsed.tree.scope.names, ...lines.globals]) ends[name] = lines.behind(binding);
  for (const [name, binding] of lines.globals) inputs[name] = where((fact) => fact.reads.has(binding));
  return {
    data: lines.facts.map((fact) => [...lines.data(fact)]),
    control: statements.map((node) => lines.decided(functionOf(node))),
    parents: statements.map(around),
    hubs: lines.hubs,
    ends,
    inputs,
    last: lastExpressions(parsed.tree),
    says: where((fact) => fact.says),
    guards: statements.filter((node) => node.type === "ThrowStatement" && around(node) >= 0).map(around),
    works: lines.facts.map((fact) => fact.work),
  };
}

function lastExpressions(tree) {
  // The statements that may have a program's last value: from the end, up to one that always has it.
  const found = [];
  for (const top of tree.body.toReversed()) {
    const own = [];
    walk(top, (node) => {
      if (node.number !== undefined && !FUNCTIONS.has(node.type)) own.push(node);
      return FUNCTIONS.has(node.type) || /^Class/.test(node.type) ? false : undefined;
    });
    if (own.some(isKept)) found.push(...own.map((node) => node.number));
    if (isKept(top)) break;
  }
  return found;
}
