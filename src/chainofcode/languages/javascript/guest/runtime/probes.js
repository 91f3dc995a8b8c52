// Probes: they record what a statement did.

const MAX_VISITS = 64;
const visits = create(null), shown = create(null);

function record(number, delta, outcome) {
  const visit = visits[number] = (visits[number] || 0) + 1;
  const is_wanted = step(`{"statement":${number},"visit":${visit},"delta":{${delta}}${outcome}}`);
  return visit < MAX_VISITS && is_wanted ? 1 : 0;
}

function visited(number, values) {
  const names = settings.probes[number];
  let delta = "";
  for (let at = 0; at < names.length; at++) {
    const text = brief(values[at]), name = names[at];
    if (shown[name] === text) continue;
    shown[name] = text;
    delta += `${delta ? "," : ""}${stringify(name)}:${stringify(text)}`;
  }
  return record(number, delta, "");
}

const decided = (number, value) => record(number, "", `,"outcome":"${value}"`);

const API = freeze({
  __proto__: null,
  h: hole,
  m: method,
  w: called,
  b: class {},
  p: passed,
  v: visited,
  o: decided,
  r(number, value) {
    try {
      return record(number, "", `,"outcome":${stringify(brief(value))}`);
    } catch {
      return 0;  // too little stack or memory left to read it
    }
  },
  x(value) {
    try {
      if (!isError(value)) thrown = { __proto__: null, value, stack: whereFrom(API.x) };
    } catch {} // too little stack or memory left to read it
    return value;
  },
  k(value) {
    if (is(isPromise, value)) apply(then, value, [undefined, failed]);
    return value;
  },
  e(own, last) {
    ends = { __proto__: null, own, last };
  },
  i(name) {
    throw new TypeErrorOf(`cannot import ${brief(name)}: no modules are available in the sandbox`);
  },
  ...settings.extra,
});

let ends = null, thrown = null;  // the last thrown value that is not an error, and where
