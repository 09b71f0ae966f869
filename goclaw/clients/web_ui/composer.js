// Where a person writes: text with suggestions, files (chosen, pasted or dropped), send and stop, and what a message
// does that comes during an answer.

import { api, encode } from "./connection.js";
import { byId, bytes, el, icon } from "./html.js";

const MAX_FILES = 10;
const MAX_SIZE = 20 * 1024 * 1024;
const MAX_TEXT = 1_000_000; // characters
const TALL = 220; // px that the text may take

export class Composer {
  /** `actions`: send(text, files), stop(), ask(frame), error(words). */
  constructor(actions) {
    this.actions = actions;
    this.session = "";
    this.commands = [];
    this.files = [];
    this.line = Promise.resolve(); // files go one after the other: a phone's line is thin
    this.text = byId("text");
    this.list = byId("files");
    this.mode = byId("queue").querySelector("select");
    this.listen();
  }

  listen() {
    byId("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.send();
    });
    this.text.addEventListener("input", () => this.typed());
    this.text.addEventListener("keydown", (event) => this.pressed(event));
    this.text.addEventListener("paste", (event) => {
      if (!event.clipboardData.files.length) return;
      event.preventDefault();
      this.attach(event.clipboardData.files);
    });
    byId("attach").addEventListener("click", () => byId("picker").click());
    byId("picker").addEventListener("change", (event) => {
      this.attach(event.target.files);
      event.target.value = "";
    });
    byId("stop").addEventListener("click", () => this.actions.stop());
    this.mode.addEventListener("change", () => this.actions.send(`/queue ${this.mode.value}`, []));
    this.dropZone(document.body);
  }

  dropZone(zone) {
    const holdsFiles = (event) => event.dataTransfer?.types.includes("Files") && !byId("composer").hidden;
    zone.addEventListener("dragover", (event) => {
      if (!holdsFiles(event)) return;
      event.preventDefault();
      zone.classList.add("dropping");
    });
    zone.addEventListener("dragleave", (event) => event.relatedTarget || zone.classList.remove("dropping"));
    zone.addEventListener("drop", (event) => {
      zone.classList.remove("dropping");
      if (!holdsFiles(event)) return;
      event.preventDefault();
      this.attach(event.dataTransfer.files);
    });
  }

  /** Write to another session: what was begun for it before stands there again. */
  enter(session, { isReadOnly = false } = {}) {
    this.session = session;
    this.files = [];
    this.showFiles();
    this.put(sessionStorage.getItem(`draft ${session}`) ?? "");
    this.setReadOnly(isReadOnly);
    this.setRunning(false);
  }

  setReadOnly(isReadOnly) {
    byId("composer").hidden = isReadOnly;
    byId("readonly").hidden = !isReadOnly;
  }

  setRunning(isRunning) {
    byId("stop").hidden = !isRunning;
    byId("queue").hidden = !isRunning;
  }

  setQueueMode(mode) {
    if (mode) this.mode.value = mode;
  }

  put(text) {
    this.text.value = text;
    this.grow();
  }

  focus() {
    this.text.focus();
  }

  typed() {
    sessionStorage.setItem(`draft ${this.session}`, this.text.value);
    this.grow();
    this.suggest();
  }

  /** Be as tall as the text, up to a bound. */
  grow() {
    this.text.style.height = "auto";
    if (!this.text.value) return; // one row: nothing to measure, which would lay out the page
    this.text.style.height = `${Math.min(this.text.scrollHeight, TALL)}px`;
  }

  pressed(event) {
    if (this.completion?.pressed(event)) return;
    // A phone's Enter makes a new line: its button sends.
    const sends = event.key === "Enter" && !event.shiftKey && !event.isComposing && !matchMedia("(pointer: coarse)").matches;
    if (!sends) return;
    event.preventDefault();
    this.send();
  }

  /** Commands after `/`, files of the workspace after `@`: the module comes when somebody types one. */
  async suggest() {
    const before = this.text.value.slice(0, this.text.selectionStart);
    if (!this.completion) {
      if (!/^\/\S*$|(^|\s)@\S*$/.test(before)) return;
      const { Completion } = await import("./completion.js");
      this.completion ??= new Completion(this.text, this.actions.ask, () => this.typed());
    }
    this.completion.suggest(this.commands);
  }

  /** The daemon's answer to a question for files. */
  suggested(frame) {
    this.completion?.found(frame);
  }

  async send() {
    const text = this.text.value.trim();
    if (this.files.some((file) => file.isComing)) return this.actions.error("A file is still uploading; send again in a moment.");
    if (this.files.some((file) => file.error)) return this.actions.error("A file could not be uploaded: try again or remove it.");
    if (!text && !this.files.length) return;
    if (text.length > MAX_TEXT) return this.actions.error("This is too long for a message; attach it as a file.");
    const files = this.files.map(({ file, name }) => ({ file, name }));
    this.files = [];
    this.showFiles();
    sessionStorage.removeItem(`draft ${this.session}`);
    this.put("");
    this.completion?.close();
    this.actions.send(text, files);
  }

  // Files

  attach(files) {
    for (const file of files) {
      if (this.files.length >= MAX_FILES) return this.actions.error(`A message can have at most ${MAX_FILES} files.`);
      if (file.size > MAX_SIZE) {
        this.actions.error(`${file.name} is too large (${bytes(file.size)}); the limit is ${bytes(MAX_SIZE)}.`);
        continue;
      }
      const name = file.name || "pasted";
      const entry = { source: file, name, size: file.size, isComing: true, error: "", file: "" };
      this.files.push(entry);
      this.line = this.line.then(() => this.upload(entry));
    }
    this.showFiles();
  }

  async upload(entry) {
    const session = this.session;
    Object.assign(entry, { isComing: true, error: "" });
    this.showFiles();
    try {
      const path = `/sessions/${encode(session)}/files?name=${encode(entry.name)}`;
      entry.file = (await api(path, { method: "POST", body: entry.source })).file;
    } catch (error) {
      entry.error = error.message;
    }
    entry.isComing = false;
    if (session === this.session) this.showFiles();
  }

  showFiles() {
    this.list.hidden = !this.files.length;
    this.list.replaceChildren(...this.files.map((entry) => this.chip(entry)));
  }

  chip(entry) {
    const state = entry.isComing ? "uploading …" : entry.error || bytes(entry.size);
    const takeOut = () => {
      this.files = this.files.filter((each) => each !== entry);
      this.showFiles();
      this.focus();
    };
    const again = entry.error && el("button", { type: "button", onclick: () => this.upload(entry) }, "Try again");
    return el(
      "li",
      { class: entry.error ? "chip error" : "chip" },
      icon("file"),
      el("bdi", {}, entry.name),
      el("span", { class: "muted" }, state),
      again || null,
      el("button", { type: "button", class: "bare", "aria-label": `Remove ${entry.name}`, onclick: takeOut }, icon("close")),
    );
  }
}
