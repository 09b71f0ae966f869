// The window on the conversation: all items that are loaded are in `items`, and only those around what is looked at
// are in the page. So 5,000 messages scroll as 50 do. An item is plain data with the `tag` of its custom element
// (messages.js), which is made when it comes near the window and thrown away when it is far from it.

import { byId } from "./html.js";

const MOST = 200; // elements in the page
const STEP = 60; // elements that come at once while scrolling
const NEAR = 900; // px from an edge at which more comes
const KEPT = 1500; // items that stay loaded while the end is looked at; older ones are fetched again
const AT_END = 80; // px from the end that still count as the end

export class View {
  /** `wantOlder` fetches what is older than everything that is loaded. */
  constructor(wantOlder) {
    this.wantOlder = wantOlder;
    this.items = [];
    this.from = this.to = 0; // which items are in the page
    this.hasOlder = false;
    this.follows = true; // whether the end is looked at, and stays in view
    this.lastTop = 0;
    this.scroller = byId("messages");
    this.list = document.createElement("div");
    this.list.className = "list";
    this.scroller.append(this.list);
    this.newest = byId("newest");
    this.newest.addEventListener("click", () => this.toEnd());
    this.scroller.addEventListener("scroll", () => this.scrolled(), { passive: true });
    // What is added, pictures that arrive, answers that grow, and the keyboard of a phone move the end. It is followed
    // when all of that is laid out: to look where it is after each change would lay out the page each time.
    const resized = new ResizeObserver(() => this.follows && this.stick());
    resized.observe(this.list);
    resized.observe(this.scroller);
  }

  get isComplete() {
    return this.to === this.items.length;
  }

  /** Put items before one that stands, or (null) at the end. */
  add(items, before = null) {
    if (!items.length) return;
    const found = before ? this.items.indexOf(before) : -1;
    const place = found < 0 ? this.items.length : found;
    // Far from the end they wait until somebody scrolls to them.
    const isShown = place <= this.to && place >= this.from && (this.follows || this.to - this.from < MOST);
    this.items.splice(place, 0, ...items);
    if (isShown) {
      this.list.insertBefore(fragment(items), this.items[place + items.length]?.element ?? null);
      this.to += items.length;
      if (this.follows) this.trimTop();
    } else if (place < this.from) {
      this.from += items.length;
      this.to += items.length;
    } else if (place < this.to) {
      this.render(this.from, this.to);
    }
    this.showNewest();
  }

  /** Put older items before all others; what is looked at does not move. */
  prepend(items) {
    this.items.unshift(...items);
    this.from += items.length;
    this.to += items.length;
    this.up();
  }

  remove(item) {
    const place = this.items.indexOf(item);
    if (place < 0) return;
    this.items.splice(place, 1);
    if (place < this.from) this.from--;
    if (place < this.to) this.to--;
    item.element?.remove();
    item.element = null;
  }

  /** Let an item stand before another one. */
  move(item, before) {
    this.remove(item);
    this.add([item], before);
  }

  clear(kept = []) {
    for (const item of this.items) item.element = null;
    this.list.replaceChildren();
    this.items = [];
    this.from = this.to = 0;
    this.hasOlder = false;
    this.follows = true;
    this.add(kept);
  }

  /** Show what has changed in an item, at the next frame: a stream changes faster than a screen. */
  changed(item) {
    if (!item.element || item.isDirty) return;
    item.isDirty = true;
    requestAnimationFrame(() => {
      item.isDirty = false;
      item.element?.update?.();
    });
  }

  toEnd() {
    this.follows = true;
    if (!this.isComplete) this.render(Math.max(0, this.items.length - 2 * STEP), this.items.length);
    this.stick();
    this.showNewest();
  }

  stick() {
    this.scroller.scrollTop = this.scroller.scrollHeight;
    this.lastTop = this.scroller.scrollTop; // less than before where something went away: no person scrolled up
  }

  scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.scroller;
    const below = scrollHeight - scrollTop - clientHeight;
    // Only a person scrolls up: an end that moves away by itself is followed.
    if (this.isComplete && below < AT_END) this.follows = true;
    else if (scrollTop < this.lastTop - 1 || !this.isComplete) this.follows = false;
    this.lastTop = scrollTop;
    if (scrollTop < NEAR) this.up();
    if (below < NEAR && !this.isComplete) this.down();
    this.showNewest();
  }

  showNewest() {
    this.newest.hidden = this.follows;
  }

  /** Show older items, or fetch them. */
  up() {
    if (this.from > 0) {
      const begin = Math.max(0, this.from - STEP);
      this.anchored(() => {
        this.list.prepend(fragment(this.items.slice(begin, this.from)));
        this.from = begin;
        if (!this.follows) this.trimBottom();
      });
    } else if (this.hasOlder && this.wantOlder()) {
      this.hasOlder = false; // until the answer says so
    }
  }

  /** Show newer items again. */
  down() {
    const end = Math.min(this.items.length, this.to + STEP);
    this.anchored(() => {
      this.list.append(fragment(this.items.slice(this.to, end)));
      this.to = end;
      this.trimTop();
    });
  }

  /** Change what is above or below, while what is looked at stays where it is. */
  anchored(change) {
    const top = this.scroller.getBoundingClientRect().top;
    const anchor = [...this.list.children].find((element) => element.getBoundingClientRect().bottom > top);
    const before = anchor?.getBoundingClientRect().top;
    change();
    if (anchor?.isConnected) this.scroller.scrollTop += anchor.getBoundingClientRect().top - before;
  }

  trimTop() {
    while (this.to - this.from > MOST) this.discard(this.items[this.from++]);
    if (this.follows && this.items.length > KEPT) this.unload();
  }

  trimBottom() {
    while (this.to - this.from > MOST) this.discard(this.items[--this.to]);
  }

  /** Forget the oldest items, whole rows only: they are fetched again when somebody scrolls up to them. */
  unload() {
    let end = Math.min(this.from, this.items.length - KEPT / 2);
    while (end > 0 && this.items[end].row === this.items[end - 1].row) end--;
    if (end <= 0) return;
    this.items.splice(0, end);
    this.from -= end;
    this.to -= end;
    this.hasOlder = true;
  }

  discard(item) {
    item.element?.remove();
    item.element = null;
  }

  render(from, to) {
    for (const item of this.items) item.element = null;
    this.from = from;
    this.to = to;
    this.list.replaceChildren(fragment(this.items.slice(from, to)));
  }
}

function fragment(items) {
  const made = document.createDocumentFragment();
  for (const item of items) {
    item.element = document.createElement(item.tag);
    item.element.item = item;
    made.append(item.element);
  }
  return made;
}

/** What is being written at the end of the conversation: at most one answer and one thought, which stands above it. */
export class Stream {
  /** `add` puts an item below everything that does not wait. */
  constructor(view, add) {
    this.view = view;
    this.add = add;
    this.forget();
  }

  forget() {
    this.answer = this.thought = null;
  }

  think(text) {
    if (!this.thought) this.add((this.thought = { tag: "thought-note", text: "" }));
    this.thought.isRunning = true;
    this.thought.text += text;
    this.view.changed(this.thought);
  }

  /** The answer goes on: `html` has the blocks that are finished now, and the unfinished end. */
  write(text, html) {
    this.endThinking();
    if (!this.answer) {
      const at = Date.now() / 1000;
      this.answer = { tag: "chat-message", role: "answer", isStreaming: true, text: "", done: [], open: "", at };
      this.add(this.answer);
    }
    const { answer } = this;
    answer.text += text;
    answer.hasHtml = Boolean(html); // else its beginning is unknown to the daemon: it is plain text until it is a row
    if (html?.done) answer.done.push(html.done);
    answer.open = html?.open;
    this.view.changed(answer);
  }

  /** The same answer, as the daemon knows it after a break: what it adds from now on follows this. */
  replace(html) {
    const { answer } = this;
    if (!answer) return;
    Object.assign(answer, { hasHtml: Boolean(html), done: [html?.done ?? ""], open: html?.open, isReplaced: true });
    this.view.changed(answer);
  }

  /** The answer became a row of the transcript. Returns whether one was streamed that has a text. */
  become({ message, html = "", row, turn, session }) {
    this.endThinking();
    const { answer } = this;
    this.forget();
    if (answer && !message.text.trim()) this.view.remove(answer);
    if (!answer || !message.text.trim()) return false;
    Object.assign(answer, { text: message.text, html, row, turn, session, artifacts: message.artifacts, isStreaming: false });
    this.view.changed(answer);
    return true;
  }

  /** No row follows: the thinking stays. */
  end() {
    this.endThinking();
    this.thought = null;
    this.drop();
  }

  /** What was streamed is void. */
  drop() {
    for (const item of [this.answer, this.thought]) if (item) this.view.remove(item);
    this.forget();
  }

  endThinking() {
    if (!this.thought?.isRunning) return;
    this.thought.isRunning = false;
    this.view.changed(this.thought);
  }
}
