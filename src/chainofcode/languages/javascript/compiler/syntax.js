// The tree of a program: parsed with acorn, TypeScript blanked out, statements numbered, names resolved to bindings.
// Runs in an engine of its own, where no program ever runs.
"use strict";

const OPTIONS = {
  ecmaVersion: "latest", sourceType: "script", locations: true, allowHashBang: true,
  allowAwaitOutsideFunction: true, allowImportExportEverywhere: true, allowSuperOutsideMethod: false,
};
const FUNCTIONS = new Set(["FunctionDeclaration", "FunctionExpression", "ArrowFunctionExpression"]);
const NOT_STATEMENTS = new Set(["BlockStatement", "EmptyStatement", "LabeledStatement", "StaticBlock"]);
// Kinds of statements as traces name them: those of Python's syntax tree, for all languages.
const KINDS = {
  VariableDeclaration: "Assign", IfStatement: "If", ForStatement: "For", ForOfStatement: "For", ForInStatement: "For",
  WhileStatement: "While", DoWhileStatement: "While", ReturnStatement: "Return", FunctionDeclaration: "FunctionDef",
  ClassDeclaration: "ClassDef", TryStatement: "Try", ThrowStatement: "Raise", BreakStatement: "Break",
  ContinueStatement: "Continue", SwitchStatement: "Match", ImportDeclaration: "ImportFrom",
  ExportNamedDeclaration: "Expr", ExportDefaultDeclaration: "Expr", ExportAllDeclaration: "ImportFrom",
  DebuggerStatement: "Pass", WithStatement: "With",
};

// --- the tree -------------------------------------------------------------------------------------------------------

function childrenOf(node) {
  const found = [];
  for (const key in node) {
    if (key === "parent" || key === "loc" || key === "scope" || key === "binding") continue;
    const value = node[key];
    if (Array.isArray(value)) {
      for (const item of value) if (item !== null && typeof item === "object" && typeof item.type === "string") found.push(item);
    } else if (value !== null && typeof value === "object" && typeof value.type === "string") found.push(value);
  }
  return found.sort((a, b) => a.start - b.start);
}

function walk(node, visit) {
  if (visit(node) === false) return;
  for (const child of childrenOf(node)) walk(child, visit);
}

function isStatement(node) {
  if (NOT_STATEMENTS.has(node.type)) return false;
  if (node.type === "VariableDeclaration") {
    const head = node.parent;
    return !(head && ((head.type === "ForStatement" && head.init === node) ||
      ((head.type === "ForOfStatement" || head.type === "ForInStatement") && head.left === node)));
  }
  return /(Statement|Declaration)$/.test(node.type);
}

function kindOf(node) {
  if (node.type === "ExpressionStatement") return node.expression.type === "AssignmentExpression" ? "Assign" : "Expr";
  return KINDS[node.type] || "Expr";
}

function parseProgram(source) {
  const comments = [];
  let types = { specs: [], returns: {} };
  let text = source, tree, failure;
  try {
    tree = acorn.parse(text, { ...OPTIONS, onComment: comments });
  } catch (error) {
    failure = error;
  }
  if (failure !== undefined) {
    if (!(failure instanceof SyntaxError)) throw failure;
    let stripped;
    try {
      stripped = stripTypes(source);
      comments.length = 0;
      tree = acorn.parse(stripped.text, { ...OPTIONS, onComment: comments });
    } catch (error) {
      const isFurther = error instanceof Unsupported || error.pos > failure.pos;
      throw isFurther ? error : failure;
    }
    types = stripped;
    text = stripped.text;
  }
  walkParents(tree, null);
  return { tree, text, comments, types };
}

function walkParents(node, parent) {
  node.parent = parent;
  for (const child of childrenOf(node)) walkParents(child, node);
}

// --- TypeScript -----------------------------------------------------------------------------------------------------

class Unsupported extends Error {}

const ERASED = new Set([
  "TSTypeAnnotation", "TSTypeParameterDeclaration", "TSTypeParameterInstantiation", "TSInterfaceDeclaration",
  "TSTypeAliasDeclaration", "TSDeclareFunction", "TSDeclareMethod", "TSIndexSignature", "TSAbstractMethodDefinition",
]);
const NAMED = {
  TSEnumDeclaration: "an enum", TSModuleDeclaration: "a namespace", TSParameterProperty: "a parameter property",
  TSImportEqualsDeclaration: "an import assignment",
};
const NEAR = 100; // a mark follows a name within this many characters
const MODIFIERS = /\b(?:public|private|protected|readonly|override|declare|abstract)\b/g;

function stripTypes(source) {
  const parser = acorn.Parser.extend(tsPlugin());
  const tree = parser.parse(source, { ...OPTIONS, sourceType: "module" });
  walkParents(tree, null);
  const text = source.split("");
  const found = { specs: [], returns: {} };
  const blank = (start, end) => {
    for (let at = start; at < end; at++) if (text[at] !== "\n" && text[at] !== "\r") text[at] = " ";
  };
  walk(tree, (node) => {
    noteSignature(node, source, found);
    if (isErased(node)) {
      blank(node.start, isListed(node) ? afterComma(source, node.end) : node.end);
      if (isInBody(node)) text[node.start] = ";";  // lines around it must not become one statement
      return false;
    }
    if (node.type in NAMED) {
      throw new Unsupported(`line ${node.loc.start.line}: ${NAMED[node.type]} of TypeScript cannot be stripped; write JavaScript`);
    }
    const erase = ERASERS[node.type];
    if (erase) erase(node, source, blank);
    if (erase && text[node.end - 1] === " " && endsStatement(node)) text[node.end - 1] = ";";
    return undefined;
  });
  return { text: text.join(""), ...found };
}

function isErased(node) {
  if (node.declare === true || ERASED.has(node.type) || node.importKind === "type" || node.exportKind === "type") return true;
  if (node.type === "MethodDefinition") return node.abstract === true || !node.value.body;  // a signature
  if (node.type === "ExportDefaultDeclaration") return ERASED.has(node.declaration.type);
  return (node.type === "PropertyDefinition" && node.abstract === true) || isReceiver(node);
}

function isInBody(node) {
  return ["Program", "BlockStatement", "StaticBlock"].includes(node.parent.type);
}

function endsStatement(node) {
  let at = node;
  while (at.parent && at.parent.end === node.end && !isInBody(at)) at = at.parent;
  return isInBody(at) && at.end === node.end;
}

function isReceiver(node) {
  // The type of `this`, written as a first parameter.
  return node.type === "Identifier" && node.name === "this" && FUNCTIONS.has(node.parent.type) && node.parent.params[0] === node;
}

function isListed(node) {
  return /^(Import|Export)Specifier$/.test(node.type) || isReceiver(node);
}

function afterComma(source, end) {
  const found = /^\s*,/.exec(source.slice(end, end + NEAR));
  return found ? end + found[0].length : end;
}

const eraseCast = (node, source, blank) => {
  const word = node.type === "TSAsExpression" ? "as" : "satisfies";
  blank(source.lastIndexOf(word, node.typeAnnotation.start - 1), node.end);
};
const eraseHead = (node, source, blank) => {
  if (node.abstract === true) blank(node.start, node.start + "abstract".length);
  const types = node.implements || [];
  if (types.length) blank(source.lastIndexOf("implements", types[0].start), types.at(-1).end);
};
const eraseModifiers = (node, source, blank) => {
  for (const found of source.slice(node.start, node.key.start).matchAll(MODIFIERS)) {
    blank(node.start + found.index, node.start + found.index + found[0].length);
  }
  const keyEnd = node.computed ? source.indexOf("]", node.key.end) + 1 : node.key.end;
  const mark = /^\s*[?!]/.exec(source.slice(keyEnd, keyEnd + NEAR));
  if (mark) blank(keyEnd, keyEnd + mark[0].length);
};
const ERASERS = {
  TSAsExpression: eraseCast,
  TSSatisfiesExpression: eraseCast,
  TSNonNullExpression: (node, source, blank) => blank(node.end - 1, node.end),
  TSTypeAssertion: (node, source, blank) => blank(node.start, source.indexOf(">", node.typeAnnotation.end) + 1),
  Identifier(node, source, blank) {
    const end = node.start + node.name.length, mark = node.optional ? /^\s*\?(?!\.)/.exec(source.slice(end, end + NEAR)) : null;
    if (mark) blank(end, end + mark[0].length);
  },
  PropertyDefinition: eraseModifiers,
  MethodDefinition: eraseModifiers,
  ClassDeclaration: eraseHead,
  ClassExpression: eraseHead,
};

function noteSignature(node, source, found) {
  const type = node.returnType && node.returnType.typeAnnotation;
  if (node.type === "TSDeclareFunction" && node.id) {
    found.specs.push({ name: node.id.name, type: type ? typeText(type) : "", start: node.loc.start, end: node.loc.end });
  } else if (node.type === "FunctionDeclaration" && node.id && type) found.returns[node.id.name] = typeText(type);
  else if (node.type === "VariableDeclarator" && node.init && FUNCTIONS.has(node.init.type) && node.init.returnType) {
    found.returns[node.id.name] = typeText(node.init.returnType.typeAnnotation);
  }
}

const PLAIN_TYPES = { TSBooleanKeyword: "bool", TSNumberKeyword: "number", TSStringKeyword: "str", TSBigIntKeyword: "int" };

function typeText(type, depth = 0) {
  // Returns a type as the text of a Python annotation, as for all languages; empty for any type.
  if (depth > 8) return "";
  const inner = (part) => typeText(part, depth + 1) || "Any";
  if (type.type in PLAIN_TYPES) return PLAIN_TYPES[type.type];
  if (type.type === "TSArrayType") return `list[${inner(type.elementType)}]`;
  if (type.type === "TSLiteralType") return literalText(type.literal);
  if (type.type === "TSNullKeyword" || type.type === "TSUndefinedKeyword") return "None";
  if (type.type === "TSParenthesizedType") return typeText(type.typeAnnotation, depth + 1);
  if (type.type === "TSUnionType") return unionText(type.types.map(inner));
  if (type.type === "TSTypeReference") return referenceText(type, inner);
  if (type.type === "TSTypeLiteral") return fieldsText(type, inner);
  return "";
}

function unionText(parts) {
  const literals = parts.filter((part) => part.startsWith("Literal["));
  const others = parts.filter((part) => !part.startsWith("Literal["));
  const merged = literals.length ? [`Literal[${literals.map((part) => part.slice(8, -1)).join(", ")}]`] : [];
  return [...merged, ...others].join(" | ");
}

function literalText(literal) {
  if (typeof literal.value === "string") return `Literal[${quoted(literal.value)}]`;
  if (typeof literal.value === "number") return `Literal[${literal.value}]`;
  return typeof literal.value === "boolean" ? "bool" : "";
}

function referenceText(type, inner) {
  const parts = (type.typeArguments || type.typeParameters || { params: [] }).params;
  const name = type.typeName && type.typeName.name;
  if (name === "Promise" && parts.length === 1) return inner(parts[0]) === "Any" ? "" : inner(parts[0]);
  if ((name === "Array" || name === "ReadonlyArray" || name === "Set") && parts.length === 1) return `list[${inner(parts[0])}]`;
  if (name === "Record" && parts.length === 2) return `dict[str, ${inner(parts[1])}]`;
  return "";
}

function fieldsText(type, inner) {
  const fields = type.members.filter((member) => member.type === "TSPropertySignature" && member.key.type === "Identifier");
  if (fields.length !== type.members.length || !fields.length) return "dict";
  const parts = fields.map((field) => {
    const own = field.typeAnnotation ? inner(field.typeAnnotation.typeAnnotation) : "Any";
    return `${quoted(field.key.name)}: ${own}`;
  });
  return `{${parts.join(", ")}}`;
}

function quoted(text) {
  return `'${text.replace(/\\/g, "\\\\").replace(/'/g, "\\'").replace(/\n/g, "\\n").replace(/\r/g, "\\r")}'`;
}

// --- names ----------------------------------------------------------------------------------------------------------

class Scope {
  constructor(parent, isFunction) {
    this.parent = parent;
    this.isFunction = isFunction;
    this.names = new Map();
  }
  declare(name, kind, node) {
    let home = this;
    if (kind === "var") while (!home.isFunction) home = home.parent;
    let binding = home.names.get(name);
    if (binding === undefined) {
      binding = { name, kind, scope: home, nodes: [], refs: [], writes: [] };
      home.names.set(name, binding);
    }
    binding.nodes.push(node);
    return binding;
  }
  find(name) {
    for (let scope = this; scope !== null; scope = scope.parent) if (scope.names.has(name)) return scope.names.get(name);
    return null;
  }
}

function patternNames(pattern, found = []) {
  if (!pattern) return found;
  if (pattern.type === "Identifier") found.push(pattern);
  else if (pattern.type === "ObjectPattern") for (const part of pattern.properties) patternNames(part.value || part.argument, found);
  else if (pattern.type === "ArrayPattern") for (const part of pattern.elements) patternNames(part, found);
  else if (pattern.type === "AssignmentPattern") patternNames(pattern.left, found);
  else if (pattern.type === "RestElement") patternNames(pattern.argument, found);
  return found;
}

function declareAll(node, scope) {
  // First pass: a scope for each node that has one, with what is declared in it.
  let inner = scope;
  if (node.type === "Program") inner = new Scope(null, true);
  else if (FUNCTIONS.has(node.type)) inner = functionScope(node, scope);
  else if (["BlockStatement", "ForStatement", "ForOfStatement", "ForInStatement", "SwitchStatement", "CatchClause", "StaticBlock"].includes(node.type)) {
    inner = new Scope(scope, node.type === "StaticBlock");
    if (node.type === "CatchClause") for (const name of patternNames(node.param)) inner.declare(name.name, "let", name);
  } else if (node.type === "ClassDeclaration" || node.type === "ClassExpression") {
    inner = new Scope(scope, false);
    if (node.type === "ClassDeclaration" && node.id) scope.declare(node.id.name, "class", node.id);
    else if (node.id) inner.declare(node.id.name, "class", node.id);
  } else if (node.type === "VariableDeclaration") {
    for (const part of node.declarations) for (const name of patternNames(part.id)) scope.declare(name.name, node.kind, name);
  } else if (node.type === "ImportDeclaration") {
    for (const part of node.specifiers) scope.declare(part.local.name, "import", part.local);
  }
  node.scope = inner;
  for (const child of childrenOf(node)) declareAll(child, inner);
}

function functionScope(node, scope) {
  if (node.type === "FunctionDeclaration" && node.id) {
    const binding = scope.declare(node.id.name, "function", node.id);
    let home = scope;
    while (!home.isFunction) home = home.parent;
    if (!home.names.has(node.id.name)) home.names.set(node.id.name, binding);  // sloppy mode: also outside of its block
  }
  const inner = new Scope(scope, true);
  if (node.type === "FunctionExpression" && node.id) inner.declare(node.id.name, "function", node.id);
  if (node.type !== "ArrowFunctionExpression") inner.declare("arguments", "var", node);
  for (const parameter of node.params) for (const name of patternNames(parameter)) inner.declare(name.name, "param", name);
  return inner;
}

function isReference(node) {
  const parent = node.parent;
  if (node.type !== "Identifier") return false;
  if (FUNCTIONS.has(parent.type) || parent.type.startsWith("Class")) {
    return parent.body === node || parent.superClass === node;  // otherwise its name, or a parameter
  }
  if (parent.type === "MemberExpression") return parent.object === node || parent.computed;
  if (parent.type === "Property") return parent.value === node || parent.computed;
  if (parent.type === "MethodDefinition" || parent.type === "PropertyDefinition") return parent.value === node || parent.computed;
  if (/^(Labeled|Break|Continue)Statement$/.test(parent.type)) return false;
  return !/^(Import|Export|Meta)/.test(parent.type) || parent.type === "ExportDefaultDeclaration";
}

function isTarget(node) {
  // Whether an identifier is assigned to, as a whole or in a pattern.
  let at = node, up = node.parent;
  while (up && (up.type === "ArrayPattern" || up.type === "ObjectPattern" || up.type === "RestElement" ||
    (up.type === "Property" && up.value === at && up.parent.type === "ObjectPattern") || (up.type === "AssignmentPattern" && up.left === at))) {
    at = up;
    up = up.parent;
  }
  if (!up) return false;
  if (up.type === "AssignmentExpression" || up.type === "ForOfStatement" || up.type === "ForInStatement") return up.left === at;
  if (up.type === "VariableDeclarator") return up.id === at;
  return up.type === "UpdateExpression";
}

function resolveNames(tree) {
  // Second pass: every identifier with its binding. Returns those that nothing declares.
  declareAll(tree, null);
  const free = new Map();
  walk(tree, (node) => {
    if (!isReference(node)) return;
    const binding = node.scope.find(node.name);
    if (binding !== null) {
      node.binding = binding;
      if (!binding.nodes.includes(node)) binding.refs.push(node);
      if (isTarget(node)) binding.writes.push(node);
      return;
    }
    if (!free.has(node.name)) free.set(node.name, []);
    free.get(node.name).push(node);
  });
  return free;
}

// --- statements -----------------------------------------------------------------------------------------------------

function numberStatements(parsed) {
  const statements = [];
  walk(parsed.tree, (node) => {
    if (isStatement(node)) {
      node.number = statements.length;
      statements.push(node);
    }
  });
  return statements;
}

function statementOf(node) {
  let at = node;
  while (at && at.number === undefined) at = at.parent;
  return at || null;
}

function utf8Columns(source) {
  // Columns count bytes, as in Python's syntax tree.
  const lines = source.split("\n");
  return (place) => {
    const before = (lines[place.line - 1] || "").slice(0, place.column);
    return /^[\x00-\x7f]*$/.test(before) ? place.column : unescape(encodeURIComponent(before.replace(/[\ud800-\udfff]/g, "??"))).length;
  };
}
