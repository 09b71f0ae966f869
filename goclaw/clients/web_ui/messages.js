// The elements of a conversation: messages, thoughts, tool cards and notes. Each shows its `item`, plain data that
// conversation.js changes; `update` shows the change. HTML comes from the daemon alone, see html.js.

import { addHtml, bytes, duration, el, icon, putHtml, when } from "./html.js";
import { encode } from "./connection.js";

/** An element that shows an item. */
class Entry extends HTMLElement {
  connectedCallback() {
    if (!this.isMade) this.make();
    this.isMade = true;
    this.update();
  }

  update() {}
}

/**
 * A message of a person or an answer of the agent: {role, text, html, done, open, sender, at, images, artifacts, foreign,
 * isWaiting}.
 */
class ChatMessage extends Entry {
  make() {
    const { item } = this;
    this.setAttribute("role", "article");
    this.className = `message ${item.role}`;
    if (item.sender) this.dataset.sender = item.sender;
    this.body = el("div", { class: "prose", dir: "auto" });
    const name = item.role === "answer" ? "GoClaw" : item.sender || "You";
    this.setAttribute("aria-label", name);
    this.head = el("p", { class: "head" }, el("span", { dir: "auto" }, name), item.at ? when(item.at) : null);
    this.append(this.head, this.body);
    for (const image of (item.images ?? []).filter(({ pages }) => !pages)) this.append(picture(item, image));
    for (const file of item.files ?? []) this.append(el("span", { class: "chip" }, icon("file"), el("bdi", {}, file.name)));
  }

  update() {
    const { item } = this;
    this.classList.toggle("waiting", Boolean(item.isWaiting));
    this.classList.toggle("streaming", Boolean(item.isStreaming));
    if (item.artifacts?.length && !this.given) this.append((this.given = handedOver(item)));
    const { done, open, hasHtml, isStreaming, text, html } = item;
    const grows = isStreaming && hasHtml;
    this.body.hidden = grows ? !(open || done.some(Boolean)) : !text;
    this.body.classList.toggle("plain", !grows && !html);
    if (grows) this.grow();
    else if (this.tail || this.shown !== text || this.html !== html) this.show();
  }

  /** Show all of the text at once. */
  show() {
    const { text, html } = this.item;
    [this.shown, this.html, this.tail] = [text, html, null];
    if (html) putHtml(this.body, html);
    else this.body.replaceChildren(...folded(text, this.item.foreign ?? []));
  }

  /** A stream: finished blocks stay as they are, the unfinished end is replaced. */
  grow() {
    if (!this.tail || this.item.isReplaced) {
      this.item.isReplaced = false;
      this.written = 0;
      this.tail = el("div", { class: "open" });
      this.body.replaceChildren(this.tail);
    }
    const { done, open } = this.item;
    if (this.written < done.length) {
      const finished = el("div", { class: "done" });
      addHtml(finished, done.slice(this.written).join(""));
      this.tail.before(...finished.childNodes);
      this.written = done.length;
    }
    putHtml(this.tail, open);
  }
}

const SHOWN_ATTACHMENT = 600; // characters, about what a phone shows at once

/** Return a message as it was typed; a long text that came with it, a file's say, is folded to a chip. */
function folded(text, foreign) {
  const characters = [...text]; // their places count whole characters
  const parts = [];
  let at = 0;
  for (const { start, end, origin } of foreign) {
    if (end - start <= SHOWN_ATTACHMENT) continue;
    const size = bytes(new Blob([characters.slice(start, end).join("")]).size);
    const chip = el("summary", { class: "chip" }, icon("file"), el("bdi", {}, origin), size);
    parts.push(characters.slice(at, start).join("").trimEnd());
    parts.push(el("details", { class: "attached" }, chip, el("div", { class: "plain", dir: "auto" }, characters.slice(start, end).join(""))));
    at = end;
  }
  return [...parts, characters.slice(at).join("").replace(/^\n/, at ? "" : "\n")];
}

const addressOf = (item, { blob }) => `/api/v1/sessions/${encode(item.session)}/media/${encode(blob)}`;

function picture(item, image) {
  const shown = el("img", { src: addressOf(item, image), alt: image.name ?? "Attached picture", loading: "lazy" });
  const link = el("a", { class: "picture", href: addressOf(item, image), target: "_blank", rel: "noopener" }, shown);
  // A file by the name of a picture need not be one: its download stands below.
  const lost = () => (image.name ? link.remove() : shown.replaceWith(el("p", { class: "muted" }, "[picture no longer kept]")));
  shown.addEventListener("error", lost);
  return link;
}

const SHOWN_TYPES = new Set(["image/gif", "image/jpeg", "image/png", "image/webp"]);
const isMessage = ({ kind }) => kind === "said" || kind === "sent" || kind === "named";

/** The texts and files that the agent hands over: pictures are shown, all can be downloaded. */
function handedOver(item) {
  const place = el("div", { class: "given" });
  for (const file of (item.artifacts ?? []).filter(isMessage)) {
    if (file.kind === "said") {
      const words = el("div", { class: file.html ? "prose" : "plain", dir: "auto" }, file.html ? [] : file.text);
      if (file.html) putHtml(words, file.html);
      place.append(words);
      continue;
    }
    if (SHOWN_TYPES.has(file.mime)) place.append(picture(item, file));
    const name = file.name.split("/").at(-1);
    const label = [icon("file"), el("span", { class: "unseen" }, "Download "), el("bdi", {}, name), bytes(file.size)];
    place.append(el("a", { class: "chip", href: addressOf(item, file), download: name, title: file.name }, label));
  }
  return place;
}

/** The model's thinking, folded: {text, isRunning}. */
class ThoughtNote extends Entry {
  make() {
    this.className = "thought";
    this.words = el("summary");
    this.body = el("div", { class: "plain", dir: "auto" });
    this.append(el("details", {}, this.words, this.body));
  }

  update() {
    this.words.textContent = this.item.isRunning ? "Thinking …" : "Thought";
    this.body.textContent = this.item.text;
  }
}

/** A line of GoClaw, or the answer of a command: {text, html, tone}. */
class NoteLine extends Entry {
  make() {
    const { text, html, tone } = this.item;
    this.className = `note ${tone ?? ""}`;
    const body = el("div", { class: html ? "prose" : "plain", dir: "auto" }, html ? [] : text);
    if (html) putHtml(body, html);
    this.append(body);
  }
}

/**
 * A call of a tool: {name, input, doing, inner, content, isError, outcome, seconds, artifacts, fetched, isOpen}.
 * Its content is null while it runs.
 */
class ToolCard extends Entry {
  make() {
    this.className = "tool";
    this.line = el("summary");
    this.inside = el("div", { class: "inside" });
    this.below = el("p", { class: "below", dir: "auto" });
    this.details = el("details", {}, this.line, this.inside);
    this.details.open = Boolean(this.item.isOpen);
    this.details.addEventListener("toggle", () => {
      this.item.isOpen = this.details.open;
      this.update();
    });
    this.given = el("div", { class: "given" });
    this.append(this.details, this.below, this.given);
  }

  update() {
    const { item } = this;
    const runs = item.content === null;
    const state = runs ? "runs" : item.isError ? "failed" : "done";
    this.dataset.state = state;
    const sign = el("span", { class: "sign" }, runs ? null : icon(item.isError ? "close" : "check"));
    const said = (runs ? item.doing : item.outcome) || hint(item.input); // `doing` is true only while it runs
    this.line.replaceChildren(
      sign,
      el("span", { class: "unseen" }, { runs: "running: ", failed: "failed: ", done: "done: " }[state]),
      el("b", {}, item.name),
      el("span", { class: "doing", dir: "auto" }, oneLine(said, 140)),
      el("span", { class: "took" }, item.seconds >= 0.1 ? duration(item.seconds) : ""),
    );
    const below = runs ? item.inner : item.outcome ? "" : firstLine(item.content);
    this.below.textContent = below ? oneLine(below, 300) : "";
    this.below.hidden = !below || this.details.open;
    if (item.artifacts !== this.handed) {
      this.handed = item.artifacts;
      this.given.replaceChildren(...handedOver(item).childNodes);
    }
    if (this.details.open) this.open();
  }

  open() {
    const { item } = this;
    const parts = Object.entries(item.input ?? {}).map(([name, value]) => part(name, asText(value)));
    if (item.content === null) parts.push(el("p", { class: "muted", dir: "auto" }, item.inner || "Running …"));
    else parts.push(part("result", item.content || "(no output)", item.isError));
    for (const kept of (item.artifacts ?? []).filter((each) => !isMessage(each))) {
      const fetched = item.fetched?.[kept.blob];
      if (fetched === undefined) item.fetch?.(kept.blob);
      parts.push(part(`${kept.name} · ${bytes(kept.size)}`, fetched ?? "…"));
    }
    this.inside.replaceChildren(...parts);
  }
}

const SHOWN_LINES = 400;

function part(name, text, isError = false) {
  const lines = text.replace(/\n$/, "").split("\n");
  const shown = lines.slice(0, SHOWN_LINES);
  const body = el("pre", { tabindex: "0", dir: "auto", class: isError ? "error" : null });
  if (isDiff(text)) body.append(...diff(shown));
  else body.textContent = shown.join("\n");
  if (lines.length > SHOWN_LINES) body.append(`\n… ${lines.length - SHOWN_LINES} more lines`);
  return el("div", { class: "part" }, el("p", { class: "label" }, name), body);
}

const isDiff = (text) => /^(@@ |diff --git )/m.test(text);

function diff(lines) {
  const kinds = { "+": "added", "-": "removed", "@": "place" };
  const begin = lines.findIndex((line) => line.startsWith("@@")); // above it stand the names of the files
  return lines.map((line, place) => el("span", { class: `line ${place < begin ? "place" : (kinds[line[0]] ?? "")}` }, `${line}\n`));
}

const asText = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 1));

/** Summarise a tool's input: the value of a single field, else name=value of each. */
function hint(input) {
  const fields = Object.entries(input ?? {});
  return fields.map(([name, value]) => (fields.length === 1 ? asText(value) : `${name}=${asText(value)}`)).join("  ");
}

const oneLine = (text, length) => {
  const line = text.slice(0, 4 * length).replace(/\s+/g, " ").trim();
  return line.length > length ? `${line.slice(0, length - 1)}…` : line;
};

function firstLine(content) {
  const lines = (content ?? "").trim().split("\n");
  if (!lines[0]) return "(no output)";
  return lines.length > 1 ? `${lines[0]}  … ${lines.length - 1} more ${lines.length === 2 ? "line" : "lines"}` : lines[0];
}

/** The calls of a session without a result, whose cards change; `ask` sends a frame, `changed` shows a card anew. */
export class Calls {
  constructor(session, ask, changed) {
    this.session = session;
    this.ask = ask;
    this.changed = changed;
    this.open = new Map(); // cards by turn and id of the call
    this.early = new Map(); // results whose calls are not loaded
    this.forget();
  }

  /** A turn has ended: a model may use its ids again. */
  forget() {
    this.open.clear();
    this.done = new Set();
  }

  /** Return new cards for the calls of an answer. */
  asked(row) {
    return (row.message.calls ?? []).flatMap((call) => {
      const key = `${row.turn} ${call.id}`;
      this.done.delete(key);
      const cards = this.open.has(key) ? [] : [this.card(key, call)];
      Object.assign(this.open.get(key), { row: row.row, askedAt: row.at });
      return cards;
    });
  }

  started(event) {
    const key = `${event.turn} ${event.call_id}`;
    if (this.done.has(key)) return []; // repeated after a break
    const cards = this.open.has(key) ? [] : [this.card(key, event)];
    const card = this.open.get(key);
    card.doing = event.hint || card.doing;
    this.changed(card);
    return cards;
  }

  progressed(event) {
    const card = this.open.get(`${event.turn} ${event.call_id}`);
    if (!card) return;
    card.inner = event.agent === card.name ? event.doing : `${event.agent} › ${event.doing}`;
    this.changed(card);
  }

  finished(event) {
    const card = this.open.get(`${event.turn} ${event.call_id}`);
    if (card) this.finish(card, event);
  }

  /** The result of a call became a row. */
  stored({ turn, message, at }) {
    const key = `${turn} ${message.call_id}`;
    const card = this.open.get(key);
    this.open.delete(key);
    this.done.add(key);
    if (card) this.finish(card, { ...message, at });
    else this.early.set(key, { ...message, at });
  }

  /** For rows from before those that are loaded: an id that is used again there is another call. */
  ofOlderRows() {
    return Object.assign(new Calls(this.session, this.ask, this.changed), { early: this.early });
  }

  /** Take over the calls of older rows, whose results may be known already or are still to come. */
  adopt(older) {
    for (const [key, card] of older.open) {
      const result = this.early.get(key);
      this.early.delete(key);
      if (result) this.finish(card, result);
      else if (!this.open.has(key)) this.open.set(key, card);
    }
  }

  card(key, { name, input }) {
    const fetch = (blob) => this.ask({ type: "ask_artifact", blob });
    const card = { tag: "tool-card", session: this.session, name, input, doing: "", inner: "", content: null, fetch };
    this.open.set(key, card);
    return card;
  }

  finish(card, result) {
    card.content = result.is_error ? errorWords(result.content) : result.content;
    card.isError = result.is_error || Boolean(result.denied);
    card.outcome = result.hint ?? "";
    card.artifacts = result.artifacts ?? [];
    const about = card.askedAt && result.at ? Math.round(result.at - card.askedAt) : 0;
    card.seconds = result.seconds ?? card.seconds ?? about;
    this.changed(card);
  }
}

/** Return the message of a failed call without the JSON that models get. */
function errorWords(content) {
  try {
    const found = JSON.parse(content);
    if (typeof found?.error === "string" && Object.keys(found).length === 1) return found.error;
  } catch {
    // No JSON: it is the message.
  }
  return content;
}

/** What stands in an empty conversation: {title, text}. */
class EmptyState extends Entry {
  make() {
    this.className = "empty";
    this.append(icon("claw"), el("h2", {}, this.item.title), el("p", {}, this.item.text));
  }
}

customElements.define("chat-message", ChatMessage);
customElements.define("thought-note", ThoughtNote);
customElements.define("note-line", NoteLine);
customElements.define("tool-card", ToolCard);
customElements.define("empty-state", EmptyState);
