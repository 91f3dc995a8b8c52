// Rewrites a program for its shadow: a statement that needs a missing value is skipped, and the variables that it would
// have set are unknown from then on.
"use strict";

const WRAPPED = new Set(["IfStatement", "ForStatement", "ForOfStatement", "ForInStatement", "WhileStatement", "DoWhileStatement", "SwitchStatement", "TryStatement"]);
const SAME = new Set(["===", "!==", "==", "!=", "in", "instanceof"]);

class ShadowWriter extends Writer {
  text(node) {
    const text = super.text(node);
    return isLookedAt(node) ? `${this.prefix}.n(${text})` : text;
  }

  statement(node) {
    if (node.type === "VariableDeclaration") return this.declaration(node);
    if (node.type === "ExpressionStatement" && node.directive === undefined) return this.skippable(node, this.expression(node), touchedNodes(node));
    if (WRAPPED.has(node.type)) return this.skippable(node, this.stitched(node), touchedNodes(node));
    if (node.type === "ReturnStatement") return this.stitched(node);
    return Writer.prototype.statement.call(this, node);
  }

  probe() {
    return "";
  }

  outcome() {
    return "";
  }

  expression(node) {
    if (node.parent.type !== "Program") return this.stitched(node);
    const kept = node.expression.type === "CallExpression" ? `${this.prefix}.k(` : "(";
    const before = this.source.slice(node.start, node.expression.start) + unnamed(node.expression), rest = this.source.slice(node.expression.end, node.end).replace(/;$/, "");
    return `${this.prefix}l=${kept}${before}${this.text(node.expression)}${rest})`;
  }

  skippable(node, code, touched) {
    const label = node.parent.type === "LabeledStatement";  // a jump to it must stay inside
    const names = touched.filter((part) => !part.hole && isSettable(part)).map((part) => part.name);
    const { prefix } = this;
    const forget = [...new Set(names)].map((name) => `${name}=${prefix}.u();`).join("");
    const leave = escapes(node) || label ? `throw ${prefix}e;` : "";
    if (label) return code;
    return `try{${code};}catch(${prefix}e){${prefix}.s(${node.number},${prefix}e);${forget}${leave}}`;
  }

  declaration(node) {
    const { prefix } = this, names = declaredIdentifiers(node);
    const parts = node.declarations.filter((part) => part.init).map((part) => `${this.text(part.id)}=${this.text(part.init)}`);
    const lines = this.lines(node.start, node.end), written = parts.join(",");
    const left = lines.length - (written.match(/\n/g) || []).length;
    const head = `${node.kind === "var" ? "var" : "let"} ${names.join(",")};`;
    if (!parts.length || !names.length) return names.length ? head + lines : this.stitched(node);
    const forget = names.map((name) => `${name}=${prefix}.u();`).join("");
    return `${head}try{(${written})${"\n".repeat(Math.max(left, 0))}}catch(${prefix}e){${prefix}.s(${node.number},${prefix}e);${forget}}`;
  }

  VariableDeclaration(node) {  // in the head of a loop
    const text = this.stitched(node);
    return node.kind === "const" ? text.replace("const", "let") : text;
  }

  CatchClause(node) {
    const { prefix } = this;
    const param = node.param ? `let ${this.text(node.param)}=${prefix}e;` : "";
    return `catch(${prefix}e){${prefix}.c(${prefix}e);${param}${this.text(node.body)}}`;
  }

  AssignmentExpression(node) {
    const text = this.stitched(node);
    const isLogical = ["||=", "&&=", "??="].includes(node.operator) && node.left.type === "Identifier";
    return isLogical ? `(${this.prefix}.n(${node.left.name}),${text})` : text;
  }
}

function declaredIdentifiers(node) {
  return [...new Set(node.declarations.flatMap((part) => patternNames(part.id)).map((name) => name.name))];
}

function isSettable(node) {
  return node.binding ? node.binding.kind !== "import" && node.binding.kind !== "class" : !GLOBALS.has(node.name);
}

function isLookedAt(node) {
  // Whether the engine reads the value of an expression without calling any method of it.
  const parent = node.parent;
  if (!parent || node.number !== undefined || parent.type === "BlockStatement") return false;
  if (isTest(node, parent)) return true;
  if (parent.type === "LogicalExpression") return parent.left === node;
  if (parent.type === "UnaryExpression") {
    const isBare = parent.operator === "typeof" && node.type === "Identifier" && !node.binding;
    return ["!", "typeof"].includes(parent.operator) && !isBare;
  }
  if (parent.type === "BinaryExpression") return SAME.has(parent.operator) && node.type !== "PrivateIdentifier";
  return (parent.type === "SwitchStatement" && parent.discriminant === node) || (parent.type === "SwitchCase" && parent.test === node);
}

function escapes(statement) {
  // Whether a part of a statement may leave it: then the effects of the code after it are unknown, too.
  const look = (node, inLoop, inSwitch) => {
    if (FUNCTIONS.has(node.type)) return false;
    if (node.type === "ReturnStatement" || node.type === "ThrowStatement") return true;
    if (node.type === "BreakStatement") return node.label !== null || !(inLoop || inSwitch);
    if (node.type === "ContinueStatement") return node.label !== null || !inLoop;
    const loop = inLoop || /^(For|ForOf|ForIn|While|DoWhile)Statement$/.test(node.type);
    return childrenOf(node).some((child) => look(child, loop, inSwitch || node.type === "SwitchStatement"));
  };
  return look(statement, false, false);
}
