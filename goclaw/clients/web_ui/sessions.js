// Conversations: all that this person may read, of every channel, the latest first; a filter of the list, and a search
// in what was said.

import { api } from "./connection.js";
import { el, plural, when } from "./html.js";

export async function show(place, { hashOf, session: current }) {
  const list = el("div", { class: "cards" });
  const more = el("button", { type: "button", hidden: true, onclick: () => load() }, "Show more");
  const agents = el("input", { type: "checkbox", onchange: () => restart() });
  const words = el("input", { type: "search", "aria-label": "Search in conversations", placeholder: "Search conversations", dir: "auto" });
  const form = el("form", { class: "row", role: "search", onsubmit: search }, words, el("button", {}, "Search"));
  place.append(el("div", { class: "column" }, form, el("label", { class: "check" }, agents, "Include agents’ conversations"), list, more));
  let cursor = "";

  async function load() {
    more.disabled = true;
    const page = await api(`/sessions?limit=50&agents=${agents.checked}${cursor && `&cursor=${encodeURIComponent(cursor)}`}`);
    list.append(...page.sessions.map(card));
    cursor = page.next;
    more.disabled = false;
    more.hidden = !cursor;
    if (!list.children.length) list.append(el("p", { class: "muted" }, "No conversations yet. Write a message in the chat, or to the bot in Telegram."));
  }

  async function restart() {
    cursor = "";
    list.replaceChildren();
    await load();
  }

  function card({ key, title, messages, last_at: at }) {
    return el(
      "a",
      { class: "card", href: hashOf(key), "aria-current": key === current ? "true" : null },
      el("span", { class: "top" }, el("span", { dir: "auto" }, title || key), when(at)),
      el("p", { class: "muted", dir: "auto" }, `${key} · ${plural(messages, "message")}`),
    );
  }

  async function search(event) {
    event.preventDefault();
    const q = words.value.trim();
    if (!q) return restart();
    more.hidden = true;
    list.replaceChildren(el("p", { class: "muted", role: "status" }, "Searching …"));
    try {
      const found = await api(`/memory/search?everybody=true&limit=20&q=${encodeURIComponent(q)}`);
      const quotes = found.conversations.map((quote) => quoted(quote, hashOf));
      list.replaceChildren(...(quotes.length ? quotes : [el("p", { class: "muted" }, found.left_out || "No results. Try other words.")]));
    } catch (error) {
      list.replaceChildren(el("p", { class: "error", role: "alert" }, error.message));
    }
  }

  await load();
}

/** A place in a conversation, with the messages around it. */
export function quoted({ session, lines, row }, hashOf) {
  const said = lines.map((line) => el("p", { class: line.row === row ? "quote hit" : "quote", dir: "auto" }, el("b", {}, `${line.speaker}: `), line.text));
  return el("a", { class: "card", href: hashOf(session) }, el("span", { class: "top" }, el("span", { dir: "auto" }, session), when(lines[0].at)), said);
}
