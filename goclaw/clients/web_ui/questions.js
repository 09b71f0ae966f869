// Cards of questions: the approval of a tool's call, or a question of the agent. Open until it is answered, on whatever
// device; then a line says what was decided. The item: {question, me, said, answered, decide, isBegun}.
// A call is allowed by a person who had its beginning on the screen at some time (isBegun), and has its end there now.

import { el, icon, putHtml, revealed, spoken, titled } from "./html.js";

const SEEN = 500; // ms that the buttons must have been in view: a tap that was meant for something else decides nothing
const UNSEEN = "Scroll up: to allow this, read it from its beginning.";

class QuestionCard extends HTMLElement {
  connectedCallback() {
    if (!this.isMade) this.make();
    this.isMade = true;
    this.update();
  }

  disconnectedCallback() {
    clearInterval(this.timer);
    this.unwatch();
  }

  make() {
    const { question, me } = this.item;
    this.className = "question";
    this.setAttribute("role", "group");
    const title = el("h3", { dir: "auto" }, titled(question.title));
    this.setAttribute("aria-label", `${question.kind === "approval" ? "Approval" : "Question"}: ${spoken(question.title)}`);
    const kind = question.kind === "approval" ? "May it do this?" : "A question for you";
    const whose = question.asker && question.asker !== me ? ` · for ${question.asker}` : "";
    this.left = el("span", { class: "left" });
    this.body = el("div", { class: question.html ? "prose" : "plain", dir: "auto" });
    if (question.html) putHtml(this.body, question.html);
    else this.body.textContent = revealed(question.text);
    this.buttons = el("div", { class: "options" }, question.options.map((option) => this.button(option)));
    this.said = el("p", { class: "said", role: "status" });
    this.head = el("p", { class: "head" }, kind + whose, this.left);
    this.append(this.head, title, this.body, this.buttons);
    if (question.details) this.append(this.details());
    if (question.kind === "question" && (question.free_text || !question.options.length)) this.append(this.words());
    this.hint = el("p", { class: "said", role: "status", hidden: true }, UNSEEN);
    this.append(this.hint, this.said);
  }

  button(option) {
    const { question } = this.item;
    const labels = { allow: "Allow", always: question.always || "Always", deny: "Deny" };
    const label = question.kind === "approval" ? (labels[option] ?? option) : option;
    const style = question.kind !== "approval" ? "" : option === "allow" ? "strong" : option === "deny" ? "danger" : "";
    const button = el("button", { type: "button", class: style, dir: "auto", disabled: true, onclick: () => this.answer(option) }, revealed(label));
    button.needsAll = question.kind === "approval" && option !== "deny";
    return button;
  }

  details() {
    const { question } = this.item;
    const more = el("div", { class: question.details_html ? "prose" : "plain", dir: "auto" });
    if (question.details_html) putHtml(more, question.details_html);
    else more.textContent = revealed(question.details);
    const ways = el("p", {}, `/approve ${question.id} · /deny ${question.id}`);
    return el("details", {}, el("summary", {}, "Details"), more, ways);
  }

  words() {
    const text = el("input", { type: "text", dir: "auto", "aria-label": "Your answer", placeholder: "In your own words", autocomplete: "off" });
    const send = (event) => {
      event.preventDefault();
      if (text.value.trim()) this.answer(text.value.trim());
    };
    return (this.form = el("form", { class: "words", onsubmit: send }, text, el("button", { disabled: true }, "Answer")));
  }

  answer(option) {
    const { item } = this;
    if (item.said || item.answered) return;
    const isSent = item.decide(item, option);
    item.said = isSent ? "Answering …" : "";
    this.update();
    if (!isSent) this.said.textContent = "Not connected: answer again when the connection is back.";
  }

  update() {
    const { item } = this;
    clearInterval(this.timer);
    if (item.answered) return this.close();
    this.said.textContent = item.said;
    this.said.hidden = false;
    this.enable(false);
    if (!item.said) this.watch();
    if (item.question.expires_at) {
      this.timer = setInterval(() => this.tick(), 1000);
      this.tick();
    }
  }

  tick() {
    const left = Math.max(0, this.item.question.expires_at - Date.now() / 1000);
    const [most, unit] = left < 90 ? [1, "s"] : left < 3 * 3600 ? [60, "min"] : [3600, "h"];
    this.left.textContent = ` · ${Math.round(left / most)} ${unit} left`;
  }

  enable(isEnabled) {
    const buttons = [...this.querySelectorAll(".options button, .words button")];
    for (const button of buttons) button.disabled = !isEnabled || (button.needsAll && !this.item.isBegun);
    if (isEnabled) this.hint.hidden = this.item.isBegun || !buttons.some((button) => button.needsAll);
  }

  /** The buttons work when they have been in view for a moment, those that allow a call when its heading was, too. */
  watch() {
    this.unwatch();
    const seen = (this.seen = new Map());
    this.observer = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) {
        clearTimeout(seen.get(target));
        if (isIntersecting) seen.set(target, setTimeout(() => this.see(target), SEEN));
        else if (target !== this.head) this.see(target, false);
      }
    });
    this.isAtEnd = false;
    this.observer.observe(this.head);
    // The options where there are some: they must work also where the field below them is out of view.
    this.observer.observe(this.item.question.options.length ? this.buttons : this.form);
  }

  unwatch() {
    this.observer?.disconnect();
    for (const timer of this.seen?.values() ?? []) clearTimeout(timer);
  }

  see(target, isSeen = true) {
    if (target === this.head) this.item.isBegun = this.hint.hidden = true;
    else this.isAtEnd = isSeen;
    if (!this.item.said && !this.item.answered) this.enable(this.isAtEnd);
  }

  close() {
    this.unwatch();
    const { question, answered, me } = this.item;
    const [isGood, words] = outcome(question, answered, me);
    this.classList.add("closed");
    this.classList.toggle("good", isGood);
    const line = el("p", { class: "head" }, icon(isGood ? "check" : "close"), el("b", { dir: "auto" }, titled(question.title)));
    const parts = [line, el("p", { class: "outcome", dir: "auto" }, words)];
    // What was decided about can be read again.
    parts.push(el("details", {}, el("summary", {}, "Show the question"), this.body));
    this.replaceChildren(...parts);
  }
}

function outcome(question, { answer, by, isUnknown }, me) {
  const who = by === me ? "you" : by;
  if (isUnknown) return [true, "Answered meanwhile."];
  if (!by) return [false, question.expires_at && Date.now() / 1000 >= question.expires_at ? "Nobody answered in time." : "No longer needed."];
  if (question.kind === "approval") {
    const words = { allow: "Allowed", always: "Always allowed", deny: "Denied" }[answer] ?? answer;
    return [answer !== "deny", `${words} by ${who}.`];
  }
  return answer ? [true, `${answer} (${who})`] : [false, `Skipped by ${who}.`];
}

customElements.define("question-card", QuestionCard);
