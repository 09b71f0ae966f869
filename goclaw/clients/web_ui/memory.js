// Memory: search in notes and conversations, the files, and one file to read.

import { api } from "./connection.js";
import { bytes, el, plural, putHtml, when } from "./html.js";
import { quoted } from "./sessions.js";

export async function show(place, { hashOf }) {
  const words = el("input", { type: "search", "aria-label": "Search memory", placeholder: "Search memory", dir: "auto" });
  const form = el("form", { class: "row", role: "search", onsubmit: search }, words, el("button", {}, "Search"));
  const found = el("div", { class: "cards" });
  place.append(el("div", { class: "column" }, form, found));

  async function list() {
    const { files } = await api("/memory/files");
    const cards = files.map((file) =>
      card(file.path, file.modified, `${plural(file.lines, "line")} · ${bytes(file.size)}`),
    );
    const none = el("p", { class: "muted" }, "No memories yet. Tell the agent: “remember that …”.");
    found.replaceChildren(...(cards.length ? cards : [none]));
  }

  async function search(event) {
    event.preventDefault();
    const q = words.value.trim();
    if (!q) return list();
    found.replaceChildren(el("p", { class: "muted", role: "status" }, "Searching …"));
    try {
      const { notes, conversations, left_out: leftOut } = await api(`/memory/search?q=${encodeURIComponent(q)}`);
      const cards = notes.map((hit) => card(hit.path, hit.modified, hit.heading || `lines ${hit.start}–${hit.end}`, hit.text));
      cards.push(...conversations.map((quote) => quoted(quote, hashOf)));
      if (!cards.length) cards.push(el("p", { class: "muted" }, leftOut || "No results. Try other words."));
      found.replaceChildren(...cards);
    } catch (error) {
      found.replaceChildren(el("p", { class: "error", role: "alert" }, error.message));
    }
  }

  /** A file; opened, all of it can be read. */
  function card(path, modified, about, text = "") {
    const body = el("div", { class: "prose", dir: "auto" });
    const details = el("details", { ontoggle: () => details.open && !body.hasChildNodes() && read(path, body) }, el("summary", {}, "Read the file"), body);
    return el(
      "article",
      { class: "card" },
      el("div", { class: "top" }, el("bdi", {}, path), when(modified)),
      el("p", { class: "muted", dir: "auto" }, about),
      text ? el("p", { class: "text", dir: "auto" }, text) : null,
      details,
    );
  }

  async function read(path, body) {
    body.append("Loading …");
    try {
      const { html, text } = await api(`/memory/file?path=${encodeURIComponent(path)}`);
      if (html) putHtml(body, html);
      else body.textContent = text || "(empty)";
    } catch (error) {
      body.replaceChildren(el("p", { class: "error", role: "alert" }, error.message));
    }
  }

  await list();
}
