// @ts-check
// Requests to the server: JSON both ways, a token if it requires one, events as a stream.

import { kept } from "./dom.js";
import { parseJson } from "./values.js";

const MAX_STREAMS = 4; // of all tabs together: browsers open six connections to a server over HTTP/1.1
const POLL_MS = { seen: 1500, hidden: 5000 };
const RETRY_MS = [500, 1000, 2000, 4000, 8000];

/** An error, with a message for a reader. */
export class ServerError extends Error {
  constructor(status, message, retrySeconds = null) {
    super(message);
    this.status = status;
    this.retrySeconds = retrySeconds;
  }
}

/** The server; `askToken` resolves to a token if it requires one. */
export class Server {
  constructor(askToken) {
    this.askToken = askToken;
    const given = new URLSearchParams(location.search).get("token");
    if (given) {
      kept("sessionStorage", "coc-token", given);
      history.replaceState(null, "", location.pathname + location.hash);
    }
  }

  async fetch(path, options = {}) {
    const token = kept("sessionStorage", "coc-token");
    const headers = { ...options.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
    let response;
    try {
      response = await fetch(path, { ...options, headers, credentials: "same-origin" });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ServerError(0, "The server is not responding.");
    }
    if (response.status === 401) {
      kept("sessionStorage", "coc-token", await this.askToken(Boolean(token)));
      return this.fetch(path, options);
    }
    if (!response.ok) throw await errorOf(response);
    return response;
  }

  async get(path) {
    return parseJson(await (await this.fetch(path)).text());
  }

  /** Like `get`, but retries when the connection is lost; null if it was aborted. `onGone` gets whether the server is unreachable. */
  async getPatiently(path, signal, onGone) {
    for (let failures = 0; !signal.aborted; failures++) {
      try {
        const got = parseJson(await (await this.fetch(path, { signal })).text());
        onGone(false);
        return got;
      } catch (error) {
        if (signal.aborted) return null;
        if (!isPassing(error)) throw error;
      }
      onGone(true);
      await pause(failures);
    }
    return null;
  }

  async post(path, body = {}) {
    const options = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
    return parseJson(await (await this.fetch(path, options)).text());
  }

  async delete(path) {
    await this.fetch(path, { method: "DELETE" });
  }

  async upload(file) {
    const path = `api/files?name=${encodeURIComponent(file.name)}`;
    const options = { method: "POST", headers: { "Content-Type": "application/octet-stream" }, body: file };
    return parseJson(await (await this.fetch(path, options)).text());
  }

  /** The events of a run without duplicates, also when the connection is lost. `onGone` gets whether the server is unreachable. */
  async *events(id, signal, onGone) {
    let last = -1;
    for (let failures = 0; ; failures++) {
      const release = await takeStream();
      try {
        const headers = { Accept: "text/event-stream", ...(last >= 0 ? { "Last-Event-ID": String(last) } : {}) };
        const response = await this.fetch(`api/runs/${encodeURIComponent(id)}/events${release ? "" : "?live=0"}`, { headers, signal, cache: "no-store" });
        onGone(false);
        for await (const message of messagesOf(response.body)) {
          failures = 0;
          if (message.id !== null && message.id <= last) continue;
          last = message.id ?? last;
          yield message;
          if (message.event === "end") return;
        }
        if (!release) {
          await sleep(document.hidden ? POLL_MS.hidden : POLL_MS.seen);
          failures = -1;
          if (signal.aborted) return;
          continue;
        }
      } catch (error) {
        if (signal.aborted || error.name === "AbortError") return;
        if (!isPassing(error)) throw error;
      } finally {
        release?.();
      }
      if (signal.aborted) return;
      onGone(true);
      await pause(failures);
    }
  }
}

/** Whether an error may be temporary: no connection, a broken one, a rate limit or a server error. */
function isPassing(error) {
  if (!(error instanceof ServerError)) return error instanceof TypeError;
  return error.status < 400 || error.status >= 500 || error.status === 429;
}

function pause(failures) {
  return sleep(RETRY_MS[Math.min(failures, RETRY_MS.length - 1)]);
}

function sleep(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

/** Take one of the streams that all tabs share: a function that releases it, or null if none is free. */
async function takeStream() {
  if (!navigator.locks) return document.hidden ? null : () => {}; // plain HTTP from another machine
  for (let number = 0; number < MAX_STREAMS; number++) {
    const release = await new Promise((resolve) => {
      const taken = (lock) => (lock ? new Promise((free) => resolve(free)) : resolve(null));
      navigator.locks.request(`coc-stream-${number}`, { ifAvailable: true }, taken).catch(() => resolve(null));
    });
    if (release) return release;
  }
  return null;
}

async function errorOf(response) {
  let message = "";
  try {
    message = (await response.json()).error.message;
  } catch {
    message = `The server replied ${response.status} ${response.statusText}.`;
  }
  const seconds = Number(response.headers.get("Retry-After"));
  const when = response.status === 429 ? (seconds > 0 ? ` Try again in ${Math.ceil(seconds)} s.` : " Try again in a moment.") : "";
  return new ServerError(response.status, asSentence(String(message)) + when, seconds || null);
}

function asSentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?…:]$/.test(text) ? "" : ".");
}

/** Server-sent events: `{id, event, data}`, the data parsed. */
async function* messagesOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const blocks = (rest + value).replaceAll("\r\n", "\n").split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) {
        const message = messageOf(block);
        if (message) yield message;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function messageOf(block) {
  const message = { id: null, event: "message" };
  const data = [];
  for (const line of block.split("\n")) {
    const [, name, value] = /^([^:]*):? ?(.*)$/s.exec(line);
    if (name === "id") message.id = Number(value);
    else if (name === "event") message.event = value;
    else if (name === "data") data.push(value);
  }
  return data.length ? { ...message, data: parseJson(data.join("\n")) } : null;
}
