// What becomes of the daemon's frames: items of the view, oldest first. The same rules as the terminal's
// (goclaw/clients/tui/conversation.py), so that both show the same conversation.

import { announce, spoken } from "./html.js";
import { turnOf } from "./connection.js";
import { Calls } from "./messages.js";
import { Stream } from "./view.js";

export const FORGOTTEN = "This conversation was deleted; none of its messages are left.";
const OLDER_ROWS = 100;

export class Conversation {
  /** `ask` sends a frame; `changed` is told of what the page shows around the conversation (turn, to-do list). */
  constructor(view, ask, changed) {
    this.view = view;
    this.ask = ask;
    this.changed = changed;
    this.stream = new Stream(view, (item) => this.add([item]));
    this.me = "";
    this.enter("", "");
  }

  /** Begin with another session, in which the person is `me`. */
  enter(session, me) {
    this.session = session;
    this.me = me;
    this.waiting = new Map(); // own messages that are no row yet, by turn
    this.begun = new Map(); // those whose turn runs: its entries stand below them
    this.turn = "";
    this.clear();
  }

  clear() {
    this.view?.clear([...(this.begun?.values() ?? []), ...(this.waiting?.values() ?? [])]);
    this.lastRow = 0;
    this.firstRow = 1;
    this.lastText = "";
    this.calls = new Calls(this.session, this.ask, (card) => this.view.changed(card));
    this.questions = new Map(); // open questions
    this.stream?.forget();
  }

  // What comes from the daemon

  attached(frame, resumed) {
    this.stream.drop();
    if (resumed) this.addRows(frame.history);
    else this.begins(frame.history);
    const { now } = frame;
    this.syncQuestions(now.questions);
    if (now.thinking) this.stream.think(now.thinking);
    if (now.text) this.stream.write(now.text, now.html);
    this.turn = now.turn;
    if (frame.anew && !frame.history.length) this.note(FORGOTTEN);
    this.showEmpty(frame.greeting);
    this.changed({ turn: now.turn, since: now.since, todos: now.todos });
    if (!resumed) this.view.toEnd();
  }

  /** Show the newest rows, and nothing else; older ones are fetched when they are looked at. */
  begins(rows) {
    this.clear();
    this.view.hasOlder = rows.length > 0 && rows[0].row > 1;
    this.firstRow = rows[0]?.row ?? 1;
    this.addRows(rows);
    this.view.toEnd();
  }

  /** All at once: the page is laid out once. */
  addRows(rows) {
    this.add(rows.flatMap((row) => this.row(row)));
  }

  /** The connection is back, and what was missed follows. */
  wentOn(frame) {
    this.stream.replace(frame.now.html);
    this.askAgain();
  }

  happened(name, event) {
    const handler = this[`on${name}`];
    if (handler) handler.call(this, event); // a newer daemon has others
  }

  onTurnStarted(event) {
    this.turn = event.turn;
    this.begin(event.turn);
    this.changed({ turn: event.turn, since: Date.now() / 1000 });
  }

  onTextStreamed(event) {
    this.stream.write(event.text, event.html);
    this.changed({ isThinking: false });
  }

  onThinkingStreamed(event) {
    this.stream.think(event.text);
    this.changed({ isThinking: true });
  }

  onStreamRestarted() {
    this.stream.drop();
  }

  onMessageStored(event) {
    this.add(this.row(event));
  }

  onToolStarted(event) {
    this.add(this.calls.started(event));
  }

  onAgentProgress(event) {
    this.calls.progressed(event);
  }

  onToolFinished(event) {
    this.calls.finished(event);
  }

  onQuestionAsked(event) {
    this.addQuestion(event.question);
    announce(`${event.question.kind === "approval" ? "Approval needed" : "Question for you"}: ${spoken(event.question.title)}`);
  }

  onQuestionAnswered(event) {
    const item = this.questions.get(event.question_id);
    if (!item) return;
    this.questions.delete(event.question_id);
    item.answered = event;
    item.said = "";
    this.view.changed(item);
  }

  onNotice(event) {
    if (!this.waiting.has(event.turn)) this.note(event.text); // else the answer to that command says it
  }

  onTodosChanged(event) {
    this.changed({ todos: event.todos });
  }

  onSessionForgotten() {
    this.stream.drop();
    this.clear();
    this.note(FORGOTTEN);
    this.changed({ todos: [] });
  }

  onTurnFinished(event) {
    this.begin(event.turn);
    this.begun.delete(event.turn);
    this.stream.end();
    // What ended before the agent's own words stands in the transcript in brackets; a cut answer in several rows.
    const [text, last] = [event.text.trim(), this.lastText.trim()];
    if (text && !(last && (last === `[${text}]` || text.endsWith(last)))) this.note(text, event.outcome === "failed" ? "error" : "");
    this.lastText = "";
    this.calls.forget();
    this.turn = "";
    this.changed({ turn: "" });
  }

  /** Rows from before the oldest one that is loaded. */
  older({ rows }) {
    const isOurs = rows.length && rows.at(-1).row < this.oldest();
    this.view.hasOlder = isOurs && rows[0].row > 1;
    if (!isOurs) return;
    this.firstRow = rows[0].row;
    const newer = this.calls;
    this.calls = newer.ofOlderRows();
    const items = rows.flatMap((row) => this.itemsOf(row));
    newer.adopt(this.calls);
    this.calls = newer;
    this.view.prepend(items);
  }

  oldest() {
    return this.view.items.find((item) => item.row)?.row ?? this.lastRow + 1;
  }

  wantOlder() {
    return this.ask({ type: "ask_older", before: Math.min(this.oldest(), this.firstRow || 1) || 1, limit: OLDER_ROWS });
  }

  artifact({ blob, text, cut }) {
    for (const item of this.view.items) {
      if (!item.artifacts?.some((kept) => kept.blob === blob)) continue;
      item.fetched = { ...item.fetched, [blob]: cut ? `${text}\n… cut here` : text };
      this.view.changed(item);
    }
  }

  // What comes from the person

  /** An own message that was just sent: it waits below everything until it is a row. */
  say(id, text, files) {
    const item = { tag: "chat-message", role: "user", text, files, isWaiting: true, session: this.session };
    this.waiting.set(turnOf(id), item);
    this.view.add([item]);
    this.view.toEnd();
    this.dropEmpty();
  }

  /** An own message became an answer: the card of the question shows it. */
  withdraw(turn) {
    const item = this.noLongerWaits(turn);
    if (item) this.view.remove(item);
  }

  /** An own message becomes no row: it stays where it is, with its outcome below. */
  settle(turn, text, { html = "", tone = "" } = {}) {
    this.begin(turn);
    this.begun.delete(turn);
    if (text) this.note(text, tone, html);
  }

  /** The daemon gave a message a turn of another name (messages with files). */
  rename(turn, other) {
    const item = this.waiting.get(turn);
    if (!item || !other || turn === other) return;
    this.waiting.delete(turn);
    if (this.view.items.some((each) => each.turn === other && each.role === "user")) this.view.remove(item);
    else this.waiting.set(other, item);
  }

  note(text, tone = "", html = "") {
    this.add([{ tag: "note-line", text, tone, html }]);
  }

  // Rows

  row(row) {
    if (row.row <= this.lastRow) return [];
    this.lastRow = row.row;
    this.dropEmpty();
    const { message } = row;
    if (message.role === "user") this.withdraw(row.joined || row.turn);
    if (message.role === "assistant") {
      this.lastText = message.text;
      if (message.text.trim()) announce(`GoClaw: ${message.text}`);
      if (this.stream.become(row)) return this.calls.asked(row);
    }
    return this.itemsOf(row);
  }

  /** The items of a row by itself. */
  itemsOf(row) {
    const { message } = row;
    if (message.role === "tool_result") {
      this.calls.stored(row);
      return [];
    }
    const isUser = message.role === "user";
    const shared = { tag: "chat-message", row: row.row, turn: row.turn, at: row.at, session: this.session };
    if (isUser) {
      const sender = row.sender === this.me ? "" : row.sender;
      const { text, images, foreign } = message;
      return [{ ...shared, role: "user", text, sender, images, foreign }];
    }
    const text = message.text.trim() ? [{ ...shared, role: "answer", text: message.text, html: row.html ?? "", artifacts: message.artifacts }] : [];
    return [...text, ...this.calls.asked(row)];
  }

  // Questions

  addQuestion(question) {
    if (this.questions.has(question.id)) return;
    const old = this.view.items.find((item) => item.question?.id === question.id);
    if (old) this.view.remove(old); // closed without an answer, and asked again by a new daemon
    const item = { tag: "question-card", question, me: this.me, said: "", answered: null, decide: this.decide };
    this.questions.set(question.id, item);
    this.add([item]);
    import("./questions.js"); // the element comes to life then
  }

  /** After a break: exactly these are open. */
  syncQuestions(open) {
    for (const [id, item] of this.questions) {
      if (open.some((question) => question.id === id)) continue;
      this.questions.delete(id);
      item.answered = { answer: "", by: "", isUnknown: true };
      this.view.changed(item);
    }
    this.askAgain();
    for (const question of open) this.addQuestion(question);
  }

  /** An answer that was on its way when the connection broke may not have arrived. */
  askAgain() {
    for (const item of this.questions.values()) {
      item.said = "";
      this.view.changed(item);
    }
  }

  // What stands where

  /** Below everything that stands, above what waits. */
  add(items) {
    this.view.add(items, this.waiting.values().next().value ?? null);
  }

  /** The turn of an own message begins: its answer follows below it, and above what still waits. */
  begin(turn) {
    const item = this.waiting.get(turn);
    if (!item) return;
    this.waiting.delete(turn);
    item.isWaiting = false;
    this.begun.set(turn, item);
    this.view.changed(item);
    const next = this.waiting.values().next().value;
    if (next) this.view.move(item, next);
  }

  noLongerWaits(turn) {
    const item = this.waiting.get(turn) ?? this.begun.get(turn);
    this.waiting.delete(turn);
    this.begun.delete(turn);
    return item;
  }

  showEmpty(greeting) {
    if (this.view.items.length) return;
    const text = greeting || "Write below, attach a file, or type / to see the commands.";
    this.empty = { tag: "empty-state", title: "What can I do for you?", text };
    this.view.add([this.empty]);
  }

  dropEmpty() {
    if (this.empty) this.view.remove(this.empty);
    this.empty = null;
  }
}
