// The way to the daemon: requests of the API, and one WebSocket that follows a session.
//
// No word is lost and none comes twice: a message stays in `waiting` until the daemon has taken it, and is sent again
// with the same id after a break (also after a reload of the page); events are numbered, and a new connection says
// which one it has. The frames are those of terminals: goclaw/common/core/wire.py.

const RETRY = [500, 1000, 2000, 4000, 8000]; // ms between two tries to reach the daemon
const REFUSED = 5000; // ms until a session that is not open is tried again: users.json may change
const FIRST_ROWS = 40;
const DRAWN = 50; // ms in which a page that has something to show draws it, before it connects
const MISSED_ROWS = 400; // rows that are fetched after a break; who missed more begins anew with the last ones
const SILENT = 1; // failed tries after which a daemon that answers all else is said to be broken
const BROKEN = "GoClaw answers but accepts no connection; see `goclaw doctor` or its log. Retrying";
const ACK = 1000; // ms between two acknowledgements
const QUIET = 25_000; // ms without a frame after which the daemon is asked whether it is there
const PATIENCE = 8000; // ms for the answer: browsers see a dead line late, or never

const credentials = { csrf: "" };

/** The daemon's refusal: `status`, and words for people. */
export class Refusal extends Error {
  constructor(status, words) {
    super(words);
    this.status = status;
  }
}

/** Use the CSRF token of this device from now on. */
export const use = (csrf) => (credentials.csrf = csrf);

/** Send a request of the page itself (`/web/…`) or of the API; return its JSON. Raises Refusal. */
export async function request(path, { method = "GET", json, body, signal } = {}) {
  const headers = {};
  if (method !== "GET" && credentials.csrf) headers["X-CSRF-Token"] = credentials.csrf;
  if (json !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, { method, headers, body: json === undefined ? body : JSON.stringify(json), signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(0, "GoClaw does not answer. Check your connection, then try again.");
  }
  const text = await answer.text();
  let data = null;
  try {
    data = text ? JSON.parse(text) : null;
  } catch {
    // A proxy's page, say: the status tells what is the matter.
  }
  if (answer.ok) return Object.assign(data ?? {}, answer.status === 202 ? { accepted: true } : {});
  throw new Refusal(answer.status, data?.detail || `GoClaw answered with status ${answer.status}.`);
}

/** Send a request of the API: `api("/sessions")`. */
export const api = (path, options) => request(`/api/v1${path}`, options);

export const encode = encodeURIComponent;

// Pages that came by plain http from another machine have no `randomUUID`.
const fresh = () => (crypto.randomUUID?.() ?? Array.from(crypto.getRandomValues(new Uint32Array(4))).join("-")).replaceAll("-", "");

/** Return the id of the turn that a message becomes which came by the WebSocket. */
export const turnOf = (id) => `socket:${id}`;

function connect() {
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  return new WebSocket(`${scheme}://${location.host}/web/ws`);
}

/**
 * A session's connection. The watcher has: attached(frame, resumed), wentOn(frame), received(frame), lost(words),
 * refused(words), loggedOut(), taken(id, acceptance), failed(id, words).
 */
export class Connection {
  constructor(watcher) {
    this.watcher = watcher;
    this.session = "";
    this.person = ""; // who is signed in
    this.connected = false;
    this.client = fresh();
    this.waiting = new Map();
    this.reset();
    addEventListener("online", () => this.again());
    addEventListener("offline", () => this.cut("offline"));
    document.addEventListener("visibilitychange", () => document.hidden || this.probe());
  }

  reset() {
    this.lastRow = 0;
    this.epoch = "";
    this.seen = this.acked = 0;
    this.wasAttached = false;
    this.tries = 0;
    this.unopened = 0; // failed tries while the daemon answered all else
    this.why = ""; // there is no connection
  }

  /**
   * Follow another session from now on; `row` is the last one that is shown of it already. Messages that no daemon took
   * stay with the session that they are for.
   */
  enter(session, row = 0) {
    this.leave();
    this.session = session;
    this.reset();
    this.lastRow = row;
    this.wasAttached = row > 0;
    this.waiting = new Map(JSON.parse(sessionStorage.getItem(`waiting ${session}`) ?? "[]"));
    if (row) this.retrying = setTimeout(() => this.again(), DRAWN);
    else this.open();
  }

  leave() {
    clearTimeout(this.retrying);
    clearInterval(this.timer);
    const socket = this.socket;
    this.socket = null;
    this.connected = false;
    socket?.close();
  }

  /** Send a message now, or as soon as there is a daemon; returns its id. `files` were uploaded before. */
  submit(text, files = []) {
    const id = fresh();
    this.waiting.set(id, { text, files });
    this.keep();
    if (this.connected) this.send(id);
    return id;
  }

  /** Send a frame once. False: there is no connection. */
  ask(frame) {
    if (this.connected) this.socket.send(JSON.stringify(frame));
    return this.connected;
  }

  /** Answer a question; returns the id under which the daemon confirms. Never sent again: it may be gone by then. */
  decide(question, answer) {
    const id = fresh();
    return this.ask({ type: "decide", id, question, answer }) ? id : "";
  }

  /** Give up a message; returns its text. */
  drop(id) {
    const text = this.waiting.get(id)?.text ?? null;
    this.waiting.delete(id);
    this.keep();
    return text;
  }

  // A reload of the page must not lose what was sent while the daemon was away.
  keep() {
    const key = `waiting ${this.session}`;
    if (this.waiting.size) sessionStorage.setItem(key, JSON.stringify([...this.waiting]));
    else sessionStorage.removeItem(key);
  }

  send(id) {
    const { text, files } = this.waiting.get(id);
    if (!files.length) return void this.ask({ type: "send", id, text });
    this.post(id, text, files.map((file) => file.file));
  }

  // Files go with the API's message, which is taken once by its id as well.
  async post(id, text, files) {
    const session = this.session;
    try {
      const accepted = await api(`/sessions/${encode(session)}/messages`, { method: "POST", json: { id, text, files } });
      if (session !== this.session || !this.waiting.has(id)) return;
      this.drop(id);
      this.watcher.taken(id, accepted);
    } catch (error) {
      if (session !== this.session) return;
      if (!error.status || error.status === 401 || error.status >= 500) {
        setTimeout(() => this.connected && session === this.session && this.waiting.has(id) && this.send(id), REFUSED);
        return;
      }
      this.drop(id);
      this.watcher.failed(id, error.message);
    }
  }

  open() {
    const socket = (this.socket = connect());
    this.limit = this.wasAttached ? MISSED_ROWS : FIRST_ROWS;
    this.refusal = "";
    this.heard = performance.now();
    socket.onopen = () => {
      const { session, lastRow: after, limit, client, epoch, seen } = this;
      socket.send(JSON.stringify({ type: "attach", session, after, limit, protocol: 1, client, epoch, seen }));
    };
    socket.onmessage = (message) => {
      if (socket !== this.socket) return; // of a session that was left
      this.heard = performance.now();
      this.asked = 0;
      this.take(JSON.parse(message.data));
    };
    socket.onclose = () => socket === this.socket && this.closed();
  }

  take(frame) {
    // Another tab has signed in another person: what waits here is not theirs to send.
    if (frame.type === "attached" && frame.person !== this.person) return location.reload();
    if (frame.type === "attached") return this.attach(frame);
    if (frame.type === "refused" && !this.connected) return void (this.refusal = frame.rule || frame.reason);
    if (frame.type === "happened" && frame.name === "MessageStored") this.lastRow = Math.max(this.lastRow, frame.event.row);
    if (frame.type === "accepted" && this.waiting.has(frame.id)) {
      frame.text = this.drop(frame.id);
    }
    this.watcher.received(frame);
    // Only now: if the connection breaks meanwhile, it comes again.
    if (frame.number > this.seen) this.seen = frame.number;
  }

  attach(frame) {
    this.connected = true;
    this.tries = this.unopened = 0;
    this.why = "";
    if (frame.goes_on) this.watcher.wentOn(frame);
    else {
      const resumed = this.wasAttached && frame.history.length < this.limit && !frame.anew;
      if (frame.anew || !resumed) this.lastRow = 0;
      for (const row of frame.history) this.lastRow = Math.max(this.lastRow, row.row);
      this.watcher.attached(frame, resumed);
      this.epoch = frame.epoch;
      this.seen = this.acked = frame.seen;
      this.wasAttached = true;
    }
    for (const id of this.waiting.keys()) this.send(id);
    clearInterval(this.timer);
    this.timer = setInterval(() => this.tick(), ACK);
  }

  tick() {
    if (this.epoch && this.seen > this.acked && this.ask({ type: "ack", seen: this.seen })) this.acked = this.seen;
    const now = performance.now();
    if (this.asked && now - this.asked > PATIENCE) this.cut("GoClaw does not answer");
    else if (!this.asked && now - this.heard > QUIET) this.probe();
  }

  /** Ask whether the daemon is still there. */
  probe() {
    if (!this.connected) return this.again();
    this.ask({ type: "ask_status" });
    this.asked ||= performance.now();
  }

  cut(words) {
    const socket = this.socket;
    if (!socket) return;
    socket.onclose = null;
    socket.close();
    this.closed(words);
  }

  /** Try now rather than when the pause is over. */
  again() {
    if (this.connected || !this.session || this.socket?.readyState === WebSocket.CONNECTING) return;
    clearTimeout(this.retrying);
    this.open();
  }

  async closed(words = "") {
    this.connected = false;
    this.asked = 0;
    clearInterval(this.timer);
    const { refusal, session } = this;
    if (refusal) this.watcher.refused(refusal);
    else this.watcher.lost(words || this.why);
    clearTimeout(this.retrying);
    const pause = refusal ? REFUSED : RETRY[Math.min(this.tries++, RETRY.length - 1)] * (0.75 + Math.random() / 2);
    this.retrying = setTimeout(() => this.again(), pause);
    // A browser does not tell why a connection was refused.
    const { isOut, why } = await askedWhy();
    if (session !== this.session || this.connected) return;
    if (isOut) {
      this.leave();
      return this.watcher.loggedOut();
    }
    this.unopened = why === undefined ? this.unopened + 1 : 0;
    this.why = why ?? (this.unopened > SILENT ? BROKEN : "");
    if (this.why && !refusal) this.watcher.lost(this.why);
  }
}

/** Return whether this browser is signed out, or else what the daemon says is the matter. */
async function askedWhy() {
  try {
    return { isOut: !(await request("/web/me")).person };
  } catch (error) {
    return { isOut: error.status === 401, why: error.status ? error.message : "" };
  }
}
