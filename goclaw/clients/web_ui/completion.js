// Suggestions while somebody types: commands after `/` at the beginning, files of the workspace after `@`.

import { byId, el } from "./html.js";

const MOST = 8;

export class Completion {
  /** `ask` sends a frame to the daemon; `changed` is called when a suggestion was taken over. */
  constructor(text, ask, changed) {
    this.text = text;
    this.ask = ask;
    this.changed = changed;
    this.box = byId("completions");
    this.choices = [];
    this.chosen = 0;
    this.begun = null;
    text.setAttribute("aria-controls", "completions");
    text.setAttribute("aria-autocomplete", "list");
    text.addEventListener("blur", () => this.close());
  }

  get before() {
    return this.text.value.slice(0, this.text.selectionStart);
  }

  suggest(commands) {
    const command = /^\/(\S*)$/.exec(this.before);
    const file = /(?:^|\s)@(\S*)$/.exec(this.before);
    this.begun = file ? file[1] : null;
    if (command) {
      const found = commands.filter(({ name }) => name.startsWith(command[1]));
      this.show(found.map(({ name, summary }) => ({ insert: `/${name} `, label: `/${name}`, about: summary, replaces: command[0].length })));
    } else if (file) this.ask({ type: "ask_files", begun: file[1] });
    else this.close();
  }

  found({ begun, paths }) {
    if (begun !== this.begun) return; // something else is typed by now
    this.show(paths.map((path) => ({ insert: `@${path} `, label: path, about: "", replaces: begun.length + 1 })));
  }

  show(choices) {
    this.choices = choices.slice(0, MOST);
    this.chosen = 0;
    this.draw();
  }

  draw() {
    this.box.hidden = !this.choices.length;
    this.box.replaceChildren(
      ...this.choices.map((choice, place) => {
        const isChosen = place === this.chosen;
        const take = (event) => {
          event.preventDefault(); // the text keeps the focus
          this.take(choice);
        };
        const parts = [el("b", { dir: "auto" }, choice.label), el("span", { class: "muted" }, choice.about)];
        return el("li", { id: `choice-${place}`, role: "option", "aria-selected": String(isChosen), onpointerdown: take }, ...parts);
      }),
    );
    if (this.choices.length) this.text.setAttribute("aria-activedescendant", `choice-${this.chosen}`);
    else this.text.removeAttribute("aria-activedescendant");
  }

  /** Returns whether the key was for the suggestions. */
  pressed(event) {
    if (!this.choices.length || event.isComposing) return false;
    const moves = { ArrowDown: 1, ArrowUp: -1 };
    if (event.key in moves) {
      this.chosen = (this.chosen + moves[event.key] + this.choices.length) % this.choices.length;
      this.draw();
    } else if (event.key === "Tab" || (event.key === "Enter" && !this.isWhole())) this.take(this.choices[this.chosen]);
    else if (event.key === "Escape") this.close();
    else return false;
    event.preventDefault();
    event.stopPropagation();
    return true;
  }

  // What is typed in full is sent by Enter.
  isWhole() {
    return this.choices.some((choice) => choice.insert.trim() === this.before.trim());
  }

  take(choice) {
    const { before } = this;
    const after = this.text.value.slice(before.length);
    const written = before.slice(0, before.length - choice.replaces) + choice.insert;
    this.text.value = written + after;
    this.text.setSelectionRange(written.length, written.length);
    this.close();
    this.changed();
  }

  close() {
    this.choices = [];
    this.draw();
  }
}
