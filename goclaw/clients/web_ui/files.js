// Files: the person's workspace, folder by folder. What the agent made is fetched here, and files are laid in for it.

import { api, encode } from "./connection.js";
import { announce, bytes, el, icon, plural } from "./html.js";
import { confirmed } from "./schedules.js";

const MAX_FILE = 20 * 1024 * 1024; // as the daemon takes them

export async function show(place, { rest }) {
  const path = rest || ".";
  const status = el("p", { class: "hint", role: "status" });
  const list = el("ul", { class: "files" });
  const picker = el("input", { type: "file", multiple: true, hidden: true, "aria-label": "Files to add", onchange: add });
  const button = el("button", { type: "button", hidden: true, onclick: () => picker.click() }, "Add files");
  const head = el("div", { class: "row" }, trail(path), el("span", { class: "space" }), button, picker);
  place.append(el("div", { class: "column" }, head, status, list));

  async function load() {
    const folder = await api(`/files?path=${encode(path)}`);
    button.hidden = !folder.writable;
    list.replaceChildren(...folder.entries.map((entry) => line(entry, folder.writable)));
    const count = plural(folder.entries.length, "entry", "entries");
    const words = folder.entries.length ? count : "This folder is empty.";
    status.textContent = folder.complete ? words : `${count} shown: ask the agent for the others.`;
  }

  function line({ name, path: at, size }, writable) {
    const isFolder = size === null;
    const label = el("bdi", {}, name);
    if (isFolder) return el("li", {}, el("a", { class: "name", href: `#/files/${encode(at)}` }, icon("folder"), label));
    const address = `/api/v1/files/content?path=${encode(at)}`;
    const link = el("a", { class: "name", href: address, download: name }, icon("file"), el("span", { class: "unseen" }, "Download "), label);
    const remove = () => act(() => api(`/files?path=${encode(at)}`, { method: "DELETE" }), `${name} is deleted.`);
    const button = el("button", { type: "button", class: "danger", onclick: () => confirmed(button, remove) }, "Delete", el("span", { class: "unseen" }, ` ${name}`));
    return el("li", {}, link, el("span", { class: "muted" }, bytes(size)), writable ? button : null);
  }

  /** Do something, say what came of it, and show the folder anew; the keyboard goes on at the list. */
  async function act(work, words) {
    try {
      await work();
      await load();
      announce(words);
    } catch (error) {
      status.textContent = error.message;
    }
    list.tabIndex = -1;
    list.focus();
  }

  async function add() {
    for (const file of picker.files) {
      if (file.size > MAX_FILE) {
        status.textContent = `${file.name} is larger than 20 MB.`;
        continue;
      }
      status.textContent = `Adding ${file.name} …`;
      await act(() => api(`/files?path=${encode(path === "." ? file.name : `${path}/${file.name}`)}`, { method: "POST", body: file }), `${file.name} is added.`);
    }
    picker.value = "";
  }

  await load();
  if (rest) head.querySelector("[aria-current]").focus();
}

/** The way from the workspace down to a folder. */
function trail(path) {
  const parts = path === "." ? [] : path.split("/");
  const steps = ["Workspace", ...parts].map((name, depth) => {
    const isHere = depth === parts.length;
    const at = parts.slice(0, depth).join("/");
    const href = at ? `#/files/${encode(at)}` : "#/files";
    return el("li", {}, isHere ? el("bdi", { tabindex: "-1", "aria-current": "page" }, name) : el("a", { href }, el("bdi", {}, name)));
  });
  return el("nav", { "aria-label": "Folders" }, el("ol", { class: "trail" }, steps));
}
