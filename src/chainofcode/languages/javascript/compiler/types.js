// The types expected of holes, from how programs use their values. Texts are those of Python annotations.
"use strict";

const STRING_METHODS = methodsOnly(String.prototype, Array.prototype);
const LIST_METHODS = methodsOnly(Array.prototype, String.prototype);
const NUMBER_METHODS = new Set(["toFixed", "toPrecision"]);
const ARITHMETIC = new Set(["-", "*", "/", "%", "**"]);
const BOOL_NAMES = new Set(["is", "has", "have", "are", "can", "should", "does", "did", "was", "were", "contains", "includes"]);

function methodsOnly(one, other) {
  const shared = new Set(Object.getOwnPropertyNames(other));
  return new Set(Object.getOwnPropertyNames(one).filter((name) => !shared.has(name)));
}

function expectedType(hole) {
  const kinds = hole.uses.flatMap((use) => (use.call ? calledAs(use.call) : passedAs(use.node)));
  return mergedType(kinds) || typeByName(hole.name);
}

function calledAs(call) {
  return call.type === "NewExpression" ? ["dict"] : usedAs(call, 0);
}

function mergedType(kinds) {
  const known = [...new Set(kinds.filter((kind) => kind !== ""))];
  const labels = known.filter((kind) => kind.startsWith("="));
  const others = known.filter((kind) => !kind.startsWith("=") && kind !== "truth");
  if (labels.length && !others.length) {
    const names = `Literal[${labels.map((label) => quoted(label.slice(1))).join(", ")}]`;
    return labels.length > 1 ? names : `${names} | str`;
  }
  if (labels.length && others.every((kind) => kind === "str")) return "str";
  if (!others.length) return known.includes("truth") ? "bool" : "";
  return others.length === 1 && !labels.length ? others[0] : "";
}

function typeByName(name) {
  const words = name.split(".").at(-1).replace(/([a-z0-9])([A-Z])/g, "$1_$2").toLowerCase().replace(/^_+/, "").split("_");
  if (words.length < 2) return "";
  if (BOOL_NAMES.has(words[0])) return "bool";
  const isCount = words[0] === "count" || words[0] === "num";
  return isCount || (words[0] === "how" && words[1] === "many") || (words[0] === "number" && words[1] === "of") ? "int" : "";
}

function passedAs(node) {
  const call = node.parent;
  if (call.type !== "CallExpression" || call.callee.type !== "MemberExpression") return [];
  const name = call.callee.property.name;
  if (TESTING.has(name)) return ["truth"];
  return name === "sort" || name === "toSorted" ? ["number"] : [];
}

function usedAs(node, depth) {
  // How the value of an expression is used.
  const parent = node.parent;
  if (depth > 4) return [];
  if (["AwaitExpression", "ChainExpression", "ParenthesizedExpression"].includes(parent.type)) return usedAs(parent, depth + 1);
  if (isTest(node, parent)) return ["truth"];
  if (parent.type === "BinaryExpression") return comparedAs(node, parent);
  if (parent.type === "UnaryExpression") return { "!": ["truth"], "-": ["number"], "+": ["number"] }[parent.operator] || [];
  if (parent.type === "LogicalExpression") return parent.left === node && parent.operator !== "??" ? ["truth"] : usedAs(parent, depth + 1);
  if (parent.type === "ConditionalExpression") return usedAs(parent, depth + 1);
  if (parent.type === "SwitchStatement") return labelsOf(parent.cases.map((part) => part.test));
  if (parent.type === "MemberExpression" && parent.object === node) return memberAs(parent);
  if ((parent.type === "ForOfStatement" && parent.right === node) || parent.type === "SpreadElement") return ["list"];
  if (parent.type === "AssignmentExpression" && parent.right === node) return assignedAs(parent);
  if (parent.type === "VariableDeclarator") return variableAs(parent, depth);
  if (parent.type === "ArrowFunctionExpression" && parent.body === node) return passedAs(parent);
  if (parent.type === "CallExpression" && parent.callee !== node) return argumentAs(parent);
  return [];
}

function isTest(node, parent) {
  return ["IfStatement", "WhileStatement", "DoWhileStatement", "ForStatement", "ConditionalExpression"].includes(parent.type) && parent.test === node;
}

function comparedAs(node, parent) {
  const other = parent.left === node ? parent.right : parent.left;
  if (ARITHMETIC.has(parent.operator)) return ["number"];
  if (other.type === "TemplateLiteral") return ["str"];
  const value = other.type === "Literal" ? other.value : undefined;
  if (/^[!=]==?$/.test(parent.operator)) return labelsOf([other]);
  if (typeof value === "number") return ["number"];
  return typeof value === "string" && parent.operator !== "+" ? ["str"] : [];
}

function labelsOf(nodes) {
  const values = nodes.filter((node) => node && node.type === "Literal").map((node) => node.value);
  const names = { number: "number", boolean: "truth" };
  return values.map((value) => (typeof value === "string" ? `=${value}` : names[typeof value] || ""));
}

function memberAs(member) {
  if (member.computed) return [];
  const name = member.property.name;
  if (STRING_METHODS.has(name)) return ["str"];
  if (LIST_METHODS.has(name)) return ["list"];
  return NUMBER_METHODS.has(name) ? ["number"] : [];
}

function assignedAs(node) {
  if (node.operator === "=") return [];
  return node.operator === "+=" ? [] : ["number"];
}

function variableAs(declarator, depth) {
  if (declarator.id.type === "ArrayPattern") return ["list"];
  if (declarator.id.type !== "Identifier") return [];
  const binding = declarator.id.scope.find(declarator.id.name);
  return binding && binding.writes.length <= 1 ? binding.refs.flatMap((ref) => usedAs(ref, depth + 1)) : [];
}

function argumentAs(call) {
  const { callee } = call;
  if (callee.type === "Identifier" && callee.name === "Number") return ["number"];
  const isMath = callee.type === "MemberExpression" && callee.object.type === "Identifier" && callee.object.name === "Math";
  return isMath ? ["number"] : [];
}
