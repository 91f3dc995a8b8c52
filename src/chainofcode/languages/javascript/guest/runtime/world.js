// The program's environment: timers, a fixed clock, seeded random numbers, and its inputs.

let elapsed = 0, lastTimer = 0, timerCount = 0;
const timers = create(null), queue = create(null);  // by number; and a heap of them, with the timer that is due first at 1

function later(callback, delay, args, isRepeated) {
  if (typeof callback !== "function") throw new TypeErrorOf("the callback of a timer must be a function");
  const wait = delay >= 1 && delay <= MAX_WAIT ? trunc(delay) : 1;
  const timer = { __proto__: null, number: ++lastTimer, callback, args, wait, isRepeated, at: 0 };
  timers[lastTimer] = timer;
  enqueue(timer);
  return lastTimer;
}

const isBefore = (one, other) => one.at < other.at || (one.at === other.at && one.number < other.number);

function enqueue(timer) {
  timer.at = elapsed + timer.wait;
  let place = ++timerCount;
  for (; place > 1 && isBefore(timer, queue[place >> 1]); place >>= 1) queue[place] = queue[place >> 1];
  queue[place] = timer;
}

function dequeue() {
  const first = queue[1], last = queue[timerCount];
  delete queue[timerCount--];
  let place = 1;
  for (let next = 2; next <= timerCount; next = 2 * place) {
    if (next < timerCount && isBefore(queue[next + 1], queue[next])) next++;
    if (!isBefore(queue[next], last)) break;
    queue[place] = queue[next];
    place = next;
  }
  if (timerCount) queue[place] = last;
  return first;
}

function nextTimer() {
  // Runs the timer that is due first, and returns whether there was one. Time passes only here.
  while (timerCount) {
    const timer = dequeue();
    if (timers[timer.number] !== timer) continue;  // cleared
    elapsed = timer.at;
    if (timer.isRepeated) enqueue(timer);
    else delete timers[timer.number];
    guarded(() => apply(timer.callback, undefined, timer.args));
    return true;
  }
  return false;
}

const now = () => settings.clock + elapsed;
put("setTimeout", (callback, delay, ...args) => later(callback, delay, args, false));
put("setInterval", (callback, delay, ...args) => later(callback, delay, args, true));
put("clearTimeout", (number) => void delete timers[`${number}`]);
put("clearInterval", (number) => void delete timers[`${number}`]);

let chance = random >>> 0;
Math.random = () => {
  // mulberry32
  chance = (chance + 0x6d2b79f5) >>> 0;
  let mixed = chance;
  mixed = Math_imul(mixed ^ (mixed >>> 15), mixed | 1);
  mixed ^= mixed + Math_imul(mixed ^ (mixed >>> 7), mixed | 61);
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
};
const Math_imul = Math.imul;

// These compute the same last digits as Node.
const { cbrt, sqrt, abs, fround } = Math;
methods(Math, {
  cbrt(x) {
    const root = cbrt(x), near = fround(root);
    if (near === 0 || near - near !== 0) return root;
    const ratio = x / (near * near);
    return near + near * ((ratio - near) / (near + near + ratio));
  },
  hypot(...sizes) {
    let most = 0, isNaN = false;
    for (let at = 0; at < sizes.length; at++) {
      sizes[at] = abs(sizes[at]);
      if (sizes[at] === Infinity) return Infinity;
      isNaN = isNaN || sizes[at] !== sizes[at];
      if (sizes[at] > most) most = sizes[at];
    }
    if (isNaN || most === 0) return isNaN ? NaN : 0;
    let sum = 0, lost = 0;
    for (let at = 0; at < sizes.length; at++) {
      const part = sizes[at] / most, next = part * part - lost, total = sum + next;
      lost = total - sum - next;
      sum = total;
    }
    return sqrt(sum) * most;
  },
});

function FixedDate(...args) {
  if (new.target === undefined) return dateText(new NativeDate(now()));
  const given = args.length ? args : [now()];
  return Reflect_construct(NativeDate, given, new.target === FixedDate ? NativeDate : new.target);
}
const Reflect_construct = Reflect.construct;
for (const name of ["UTC", "parse"]) defineProperty(FixedDate, name, getOwnPropertyDescriptor(NativeDate, name));
defineProperty(FixedDate, "now", { value: now, writable: true, configurable: true });
defineProperty(FixedDate, "prototype", { value: NativeDate.prototype, writable: false });
defineProperty(FixedDate, "name", { value: "Date" });
defineProperty(FixedDate, "length", { value: 7 });
defineProperty(NativeDate.prototype, "constructor", { value: FixedDate, writable: true, configurable: true });
put("Date", FixedDate);
put("performance", { now: () => elapsed, timeOrigin: settings.clock });

const NativeProxy = Proxy;
function WatchedProxy(target, handler) {
  if (new.target === undefined) throw new TypeErrorOf("Constructor Proxy requires 'new'");
  const made = new NativeProxy(target, handler);
  putIn(proxies, made);
  return made;
}
const revocable = NativeProxy.revocable;
defineProperty(WatchedProxy, "name", { value: "Proxy" });
defineProperty(WatchedProxy, "prototype", { value: undefined, writable: false });
defineProperty(WatchedProxy, "revocable", {
  value: (target, handler) => {
    const made = apply(revocable, NativeProxy, [target, handler]);
    putIn(proxies, made.proxy);
    return made;
  },
  writable: true,
  configurable: true,
});
put("Proxy", WatchedProxy);

// The source of a function would show the probes.
defineProperty(Function.prototype, "toString", {
  value: function toString() {
    const text = apply(functionText, this, []);
    return indexOf(text, "[native code]") >= 0 ? text : `function ${ownText(this, "name")}() { [code] }`;
  },
  writable: true,
  configurable: true,
});

const given = parse(inputs);
const names = ownKeys(given);
for (let at = 0; at < names.length; at++) put(names[at], revived(given[names[at]]));
settings.answer = hasOwn(given, "answer") ? given.answer : undefined;
