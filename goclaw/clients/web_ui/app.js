// The page: who is here, which place is shown (#/, #/s/SESSION, #/memory …), and the wiring of the chat.

import { Composer } from "./composer.js";
import { api, Connection, encode, request, turnOf, use } from "./connection.js";
import { Conversation } from "./conversation.js";
import { byId, duration, el, loadStyles, when } from "./html.js";
import { View } from "./view.js";

// Places beside the chat, with their titles. Each is a module that is loaded when somebody goes there.
const PANELS = {
  sessions: "Conversations",
  files: "Files",
  memory: "Memory",
  schedules: "Schedules",
  usage: "Usage",
  status: "Status",
  devices: "Devices",
};
const THEMES = { "": "system", light: "light", dark: "dark" };
const RECENT = 8; // conversations in the sidebar
const TAKEN = "GoClaw received this before the connection broke, but its reply was lost.";

const page = {
  me: null,
  place: "",
  session: "",
  turn: "",
  since: 0,
  isThinking: false,
  line: "", // what is the matter with the connection
  decisions: new Map(), // own answers to questions that the daemon has not confirmed, by their ids
};

// Who is here

async function start() {
  setTheme(localStorage.getItem("theme") ?? "");
  const link = /^#link=(.+)$/.exec(location.hash)?.[1];
  if (link) history.replaceState(null, "", "/"); // it works once, and need not stay in the history
  const here = byId("here");
  here.remove(); // nothing of it stays in the page for the next person
  if (here.textContent && !link) return enter(JSON.parse(here.textContent)); // at once: there is nothing to wait for
  let me;
  try {
    me = here.textContent ? JSON.parse(here.textContent) : await request("/web/me");
    if (link) await logInBy(decoded(link), me);
    else if (me.person) enter(me);
    else await logIn();
  } catch (error) {
    if (!me?.person) return logIn(error.status === 401 && !link ? "" : error.message);
    enter(me);
    conversation.note(error.message, "error");
  }
}

async function logIn(words = "") {
  connection.leave();
  page.me = null;
  conversation.enter("", ""); // nothing of it stays in the page for the next person
  byId("panel").replaceChildren();
  byId("app").hidden = true;
  const { showLogin } = await import("./login.js");
  showLogin(byId("login"), words, enter);
}

/** A link that somebody else sent would let this browser write into their account: the person decides. */
async function logInBy(link, me) {
  const { showLink } = await import("./login.js");
  await showLink(byId("login"), link, me, enter);
}

function enter(me) {
  page.me = me;
  page.session = "";
  connection.person = me.person;
  // Drafts and messages that wait belong to the person who wrote them.
  if (sessionStorage.getItem("person") !== me.person) sessionStorage.clear();
  sessionStorage.setItem("person", me.person);
  use(me.csrf);
  byId("login").hidden = true;
  byId("app").hidden = false;
  byId("person").textContent = me.name;
  go();
}

// Places

function go() {
  if (!page.me) return;
  const [, place = "", rest = ""] = location.hash.split("/");
  page.place = Object.hasOwn(PANELS, place) ? place : "";
  const session = (place === "s" && decoded(rest)) || (page.place && page.session) || page.me.session;
  if (session !== page.session) enterSession(session);
  if (page.place) showPanel(page.place, decoded(rest));
  const isPanel = Boolean(page.place);
  byId("chat").hidden = isPanel;
  byId("panel").hidden = !isPanel;
  byId("panelbar").hidden = !isPanel;
  byId("bar").classList.toggle("of-panel", isPanel);
  if (byId("menu").matches(":popover-open")) byId("menu").hidePopover();
  showTitle();
  if (!isPanel) {
    if (view.follows) view.toEnd();
    if (matchMedia("(pointer: fine)").matches) composer.focus();
  }
  for (const link of byId("menu").querySelectorAll("a")) {
    const isHere = link.getAttribute("href") === (page.place ? `#/${page.place}` : hashOf(page.session));
    if (isHere) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return ""; // an address that somebody broke
  }
}

const hashOf = (session) => (session === page.me.session ? "#/" : `#/s/${encode(session)}`);

async function showPanel(name, rest) {
  const panel = byId("panel");
  panel.replaceChildren(el("p", { class: "muted" }, "Loading …"));
  loadStyles("./panels.css");
  try {
    const module = await import(`./${name}.js`);
    if (page.place !== name || decoded(location.hash.split("/")[2] ?? "") !== rest) return;
    panel.replaceChildren();
    panel.scrollTop = 0;
    await module.show(panel, { me: page.me, rest, hashOf, session: page.session, signedOut: () => logIn("You have signed out of this browser.") });
  } catch (error) {
    if (error.status === 401) return logIn("This browser is not signed in any more.");
    panel.append(el("p", { class: "error", role: "alert" }, error.message));
  }
}

async function enterSession(session) {
  page.session = session;
  Object.assign(page, { turn: "", since: 0, isThinking: false, line: "Connecting …" });
  page.decisions.clear();
  const isOwn = session === page.me.session;
  conversation.enter(session, page.me.person);
  composer.enter(session, { isReadOnly: session.includes("/agent:") });
  const { rows = [] } = isOwn ? page.me : {};
  page.me.rows = []; // they are the newest once
  connection.enter(session, rows.at(-1)?.row);
  for (const [id, { text, files }] of connection.waiting) conversation.say(id, text, files);
  if (rows.length) conversation.begins(rows);
  showDoing();
  showTodos([]);
  if (isOwn || session.includes("/agent:")) return;
  try {
    const { writable } = await api(`/sessions/${encode(session)}`);
    if (session === page.session) composer.setReadOnly(!writable);
  } catch {
    // The connection says what is the matter.
  }
}

function showTitle() {
  const title = PANELS[page.place] ?? (page.session === page.me.session ? "Chat" : page.session);
  byId("title").textContent = title;
  document.title = `${title} · GoClaw`;
}

// What the connection tells

const watcher = {
  attached(frame, resumed) {
    conversation.me = frame.person || conversation.me;
    conversation.attached(frame, resumed);
    connected(frame);
  },
  wentOn(frame) {
    conversation.wentOn(frame);
    connected(frame);
  },
  received(frame) {
    const handlers = {
      happened: () => happened(frame),
      accepted: () => (decided(frame.id, frame.acceptance.text) ? null : accepted(frame.id, frame.acceptance, frame.text)),
      refused: () => (decided(frame.id, frame.reason) ? null : refused(frame.id, frame.reason)),
      older: () => conversation.older(frame),
      artifact: () => conversation.artifact(frame),
      files: () => composer.suggested(frame),
      sessions: () => showRecent(frame.sessions),
      status: () => composer.setQueueMode(frame.numbers.queue_mode),
    };
    handlers[frame.type]?.();
  },
  taken: (id, acceptance) => accepted(id, acceptance, ""),
  failed: (id, words) => conversation.settle(turnOf(id), `Not accepted: ${words}`, { tone: "error" }),
  lost(words) {
    page.decisions.clear();
    page.line = navigator.onLine ? (words && words !== "offline" ? words : "Connecting …") : "Offline";
    showDoing();
  },
  refused(words) {
    page.line = `You have no access: ${words}`;
    showDoing();
  },
  loggedOut: () => logIn("This browser is not signed in any more."),
};

function connected(frame) {
  page.line = "";
  composer.commands = frame.commands;
  connection.ask({ type: "ask_status" });
  connection.ask({ type: "ask_sessions" });
  showDoing();
}

function happened({ name, event }) {
  conversation.happened(name, event);
  if (name.startsWith("Question")) showDoing();
  if (name === "TurnFinished") connection.ask({ type: "ask_sessions" });
}

/** The daemon took a message: as a turn, which becomes a row, or with an answer of its own. */
function accepted(id, acceptance, text = "") {
  const turn = turnOf(id);
  const { kind } = acceptance;
  if (kind === "turn") return conversation.rename(turn, acceptance.turn);
  if (kind === "reply") {
    conversation.settle(turn, acceptance.text, { html: acceptance.html });
    connection.ask({ type: "ask_status" });
  } else if (kind === "answer") {
    if (acceptance.refusal) conversation.settle(turn, `Not accepted as an answer: ${acceptance.text}`, { tone: "error" });
    else conversation.withdraw(turn);
  } else if (kind === "ignored") conversation.settle(turn, "You may not write here.", { tone: "error" });
  else if (kind === "duplicate") {
    if (text.startsWith("/")) conversation.settle(turn, TAKEN);
    else conversation.rename(turn, acceptance.turn);
  }
}

function refused(id, reason) {
  const text = id ? connection.drop(id) : null;
  if (text === null) return conversation.note(reason, "error");
  conversation.settle(turnOf(id), `Not accepted: ${reason}`, { tone: "error" });
  if (!byId("text").value) composer.put(text);
}

/** Show the outcome of an own answer to a question. Returns whether it was one. */
function decided(id, sentence) {
  const item = page.decisions.get(id);
  page.decisions.delete(id);
  if (item && !item.answered) {
    item.said = sentence;
    view.changed(item);
  }
  return Boolean(item);
}

// What stands around the conversation

function showAround(change) {
  if ("todos" in change) showTodos(change.todos);
  const { turn = page.turn, since = page.since, isThinking = page.isThinking } = change;
  if ("turn" in change || isThinking !== page.isThinking) {
    Object.assign(page, { turn, since, isThinking: turn ? isThinking : false });
    composer.setRunning(Boolean(turn));
    showDoing();
  }
}

function showDoing() {
  const spent = page.turn && page.since ? Math.max(0, Date.now() / 1000 - page.since) : 0;
  const doing = conversation.questions.size ? "Waiting for an answer" : page.isThinking ? "Thinking" : "Working";
  const unsent = connection.connected ? 0 : connection.waiting.size;
  const waits = unsent ? ` · ${unsent} not sent yet` : "";
  byId("state").textContent = page.line;
  byId("state").classList.toggle("away", Boolean(page.line));
  const line = byId("doing");
  line.hidden = !page.turn && !waits;
  const text = page.line ? `${page.line}${waits}` : `${doing}${spent >= 1 ? ` · ${duration(Math.floor(spent)).replace(".0", "")}` : " …"}`;
  if (line.textContent !== text) line.textContent = text;
}

function showTodos(todos) {
  const box = byId("todos");
  const done = todos.filter((todo) => todo.status === "completed").length;
  const current = todos.find((todo) => todo.status === "in_progress") ?? todos.find((todo) => todo.status === "pending");
  box.hidden = !todos.length || done === todos.length;
  box.querySelector("summary").textContent = `${done} of ${todos.length} done${current ? ` · ${current.content}` : ""}`;
  const words = { pending: "to do", in_progress: "in progress", completed: "done" };
  const items = todos.map((todo) => el("li", { class: todo.status, dir: "auto" }, el("span", { class: "unseen" }, `${words[todo.status]}: `), todo.content));
  box.querySelector("ol").replaceChildren(...items);
}

function showRecent(sessions) {
  const shown = sessions.filter(({ key }) => key !== page.me.session).slice(0, RECENT);
  byId("recent-title").hidden = !shown.length;
  const link = ({ key, title, last_at: at }) => el("li", {}, el("a", { href: hashOf(key), dir: "auto" }, el("span", {}, title || key), when(at)));
  byId("recent").replaceChildren(...shown.map(link));
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  if (theme) localStorage.setItem("theme", theme);
  else localStorage.removeItem("theme");
  byId("theme").querySelector("span").textContent = `Theme: ${THEMES[theme]}`;
  dispatchEvent(new Event("theme"));
}

// The parts, and what keys do

const connection = new Connection(watcher);
const view = new View(() => conversation.wantOlder());
const conversation = new Conversation(view, (frame) => connection.ask(frame), showAround);
conversation.decide = (item, answer) => {
  const id = connection.decide(item.question.id, answer);
  if (id) page.decisions.set(id, item);
  return Boolean(id);
};

function send(text, files) {
  const id = connection.submit(text, files);
  conversation.say(id, text, files);
  showDoing();
}

async function stop() {
  try {
    await api(`/sessions/${encode(page.session)}/stop`, { method: "POST", json: {} });
  } catch (error) {
    conversation.note(error.message, "error");
  }
}

const composer = new Composer({
  send,
  stop,
  ask: (frame) => connection.ask(frame),
  error: (words) => conversation.note(words, "error"),
});

addEventListener("hashchange", go);
setInterval(() => page.turn && showDoing(), 1000);
byId("theme").addEventListener("click", () => {
  const names = Object.keys(THEMES);
  setTheme(names[(names.indexOf(document.documentElement.dataset.theme) + 1) % names.length]);
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  composer.focus();
});
// Only with Ctrl or ⌘: single letters belong to screen readers.
addEventListener("keydown", (event) => {
  if (!(event.ctrlKey || event.metaKey) || event.altKey) return;
  if (event.key === "k") location.hash = "#/sessions";
  else if (event.key === "." && page.turn) byId("stop").click();
  else return;
  event.preventDefault();
});

start();
