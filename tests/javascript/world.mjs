// Runs programs in Node, with the functions that they leave undefined defined here. One JSON object per line, in and out.
import vm from "node:vm";
import { stripTypeScriptTypes } from "node:module";
import { readFileSync } from "node:fs";

process.removeAllListeners("warning");  // stripping types is experimental

const FRUITS = ["apple", "kiwi", "pear", "banana", "cherry"];
const CAPITALS = { France: "Paris", Italy: "Rome", Spain: "Madrid", Japan: "Tokyo" };
const KINDS = { apple: "fruit", kiwi: "fruit", pear: "fruit", cat: "animal", dog: "animal", ant: "animal", car: "thing" };
const WORLD = {
  isFruit: (word) => FRUITS.includes(word),
  colorOf: (word) => ({ apple: "red", kiwi: "green", pear: "green", banana: "yellow", cherry: "red" })[word] ?? "grey",
  legs: (animal) => ({ cat: 4, dog: 4, bird: 2, ant: 6 })[animal] ?? 0,
  capitalOf: (country) => CAPITALS[country] ?? null,
  sentiment: (text) => (/great|good|love/i.test(text) ? "positive" : /bad|awful/i.test(text) ? "negative" : "neutral"),
  scoreOf: (text) => text.length % 10,
  categoryOf: (word) => KINDS[word] ?? "other",
  isFunnier: (one, other) => one.length > other.length,
  compareHumor: (one, other) => one.length - other.length,
  facts: (word) => ({ name: word, size: word.length, tags: [word[0], word.at(-1)] }),
  wordsIn: (text) => text.split(" "),
  combine: (one, other) => `${one}+${other}`,
  isEven: (number) => number % 2 === 0,
  describe: (thing) => `${thing.name} is ${thing.age}`,
  isSarcastic: (text) => text.startsWith("Oh"),
  translate: (text, language) => `${language}:${text}`,
  kindOf: (word) => KINDS[word] ?? "other",
  isEmpty: (text) => text.length === 0,
  walk: (text) => `${text}!`,
  quoted: (text) => `'${text}'`,
};
const isTypeScript = process.argv[2] === "typescript";
const METHODS = ["isSarcastic", "translate"];

function compiles(program) {
  try {
    return Boolean(new vm.Script(program));
  } catch {
    return false;  // it waits at the top level
  }
}

async function result(written) {
  const program = isTypeScript ? stripTypeScriptTypes(written) : written;
  const calls = {};
  const holes = {};
  for (const [name, own] of Object.entries(WORLD)) {
    holes[name] = (...args) => {
      const meant = args.slice(0, own.length);
      const value = own(...meant);
      calls[`${name}(${meant.map((arg) => JSON.stringify(arg)).join(", ")})`] = value;
      return value;
    };
  }
  const printed = [];
  const say = (...args) => void printed.push(args.map((arg) => (typeof arg === "string" ? arg : JSON.stringify(arg))).join(" "));
  const context = vm.createContext({ ...holes, setTimeout, clearTimeout, setInterval, clearInterval, queueMicrotask, structuredClone, console: { log: say }, $holes: holes });
  vm.runInContext(`for (const name of ${JSON.stringify(METHODS)}) {
    Object.defineProperty(Object.prototype, name, { value(...args) { return $holes[name](this.valueOf(), ...args); } });
  }`, context);
  const own = "\n;globalThis.$answer = () => (typeof answer === 'undefined' ? undefined : answer);";
  let value;
  if (/^await |^[^\n]*= await |^for await|^try .*await/m.test(program) || !compiles(program)) {
    await vm.runInContext(`(async () => {${program}${own}})()`, context);
  } else value = vm.runInContext(program, context);
  if (!context.$answer) vm.runInContext(own.trim().slice(1), context);
  value = await value;
  await new Promise((resolve) => setTimeout(resolve, 60));
  const answer = await context.$answer();
  return { value: JSON.parse(JSON.stringify(answer ?? value ?? printed.at(-1) ?? null)), calls, printed };
}

const programs = readFileSync(0, "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line));
const results = await Promise.all(programs.map(async ({ id, program }) => {
  try {
    return { id, ...(await result(program)) };
  } catch (error) {
    return { id, error: `${error.name}: ${error.message}` };
  }
}));
for (const line of results) console.log(JSON.stringify(line));
