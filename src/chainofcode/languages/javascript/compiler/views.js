// Views: the variables that a model sees with a call. Those that its statement mentions come first, then the others in
// scope, innermost first. The code of a view reads them when the call is made.
"use strict";

const MAX_VIEW_NAMES = 24;
// Names that cannot be read everywhere they are in scope, because a strict function or a generator reserves them.
const UNREADABLE = new Set([
  "arguments", "await", "eval", "implements", "interface", "let", "package", "private", "protected", "public", "static", "yield",
]);
const WITHOUT_DATA = new Set(["class", "function", "import"]);

class Views {
  constructor(globals) {
    this.globals = globals; // variables that no scope of the program declares
    this.names = []; // of each view
  }

  at(node) {
    // The arguments that give a call its view: the view's number and a function that reads it. Empty if there is nothing to see.
    const names = insideWith(node) ? [] : this.namesAt(node);
    if (!names.length) return "";
    const readers = names.map((name) => (node.scope.find(name) ? `()=>${name}` : "0"));
    return `,${this.names.push(names) - 1},()=>[${readers.join(",")}]`;
  }

  namesAt(node) {
    const found = new Set();
    const add = (name) => {
      const binding = node.scope.find(name);
      const isData = binding ? !WITHOUT_DATA.has(binding.kind) : this.globals.has(name);
      if (isData && !UNREADABLE.has(name)) found.add(name);
    };
    mentionedNames(statementOf(node)).forEach(add);
    for (let scope = node.scope; scope !== null; scope = scope.parent) [...scope.names.keys()].forEach(add);
    this.globals.forEach(add);
    return [...found].slice(0, MAX_VIEW_NAMES);
  }
}

function mentionedNames(statement) {
  const names = [];
  if (statement === null) return names;
  walk(statement, (node) => {
    if (node !== statement && node.number !== undefined) return false;
    if (isReference(node)) names.push(node.name);
    return undefined;
  });
  return names;
}

function insideWith(node) {
  // Inside `with`, reading a name may run code of the program.
  for (let at = node; at; at = at.parent) if (at.type === "WithStatement") return true;
  return false;
}

function globalsOf(free, inputs) {
  const set = [...free].filter(([, nodes]) => nodes.some(isTarget)).map(([name]) => name);
  return new Set([...inputs.filter((name) => name !== "question"), ...set]); // every prompt has the question
}
