// Cards of questions: the approval of a tool's call, or a question of the agent. Open until it is answered, on whatever
// device; then a line says what was decided. The item: {question, me, said, answered, decide}.

import { el, icon, putHtml, revealed } from "./html.js";

const SEEN = 500; // ms that the buttons must have been in view: a tap that was meant for something else decides nothing

class QuestionCard extends HTMLElement {
  connectedCallback() {
    if (!this.isMade) this.make();
    this.isMade = true;
    this.update();
  }

  disconnectedCallback() {
    clearInterval(this.timer);
    this.observer?.disconnect();
  }

  make() {
    const { question, me } = this.item;
    this.className = "question";
    this.setAttribute("role", "group");
    const title = el("h3", { dir: "auto" }, revealed(question.title));
    this.setAttribute("aria-label", question.kind === "approval" ? `Approval: ${question.title}` : `Question: ${question.title}`);
    const kind = question.kind === "approval" ? "May it do this?" : "A question for you";
    const whose = question.asker && question.asker !== me ? ` · for ${question.asker}` : "";
    this.left = el("span", { class: "left" });
    this.body = el("div", { class: question.html ? "prose" : "plain", dir: "auto" });
    if (question.html) putHtml(this.body, question.html);
    else this.body.textContent = revealed(question.text);
    this.buttons = el("div", { class: "options" }, question.options.map((option) => this.button(option)));
    this.said = el("p", { class: "said", role: "status" });
    this.append(el("p", { class: "head" }, kind + whose, this.left), title, this.body, this.buttons);
    if (question.details) this.append(this.details());
    if (question.kind === "question" && (question.free_text || !question.options.length)) this.append(this.words());
    this.append(this.said);
  }

  button(option) {
    const { question } = this.item;
    const labels = { allow: "Allow", always: question.always || "Always", deny: "Deny" };
    const label = question.kind === "approval" ? (labels[option] ?? option) : option;
    const style = question.kind !== "approval" ? "" : option === "allow" ? "strong" : option === "deny" ? "danger" : "";
    return el("button", { type: "button", class: style, dir: "auto", disabled: true, onclick: () => this.answer(option) }, revealed(label));
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
    for (const button of this.querySelectorAll(".options button, .words button")) button.disabled = !isEnabled;
  }

  /** The buttons work when they have been in view for a moment. */
  watch() {
    this.observer?.disconnect();
    let seen;
    this.observer = new IntersectionObserver((entries) => {
      clearTimeout(seen);
      if (entries.at(-1).isIntersecting) seen = setTimeout(() => this.item.said || this.item.answered || this.enable(true), SEEN);
      else this.enable(false);
    });
    // The options where there are some: they must work also where the field below them is out of view.
    this.observer.observe(this.item.question.options.length ? this.buttons : this.form);
  }

  close() {
    this.observer?.disconnect();
    const { question, answered, me } = this.item;
    const [isGood, words] = outcome(question, answered, me);
    this.classList.add("closed");
    this.classList.toggle("good", isGood);
    const line = el("p", { class: "head" }, icon(isGood ? "check" : "close"), el("b", { dir: "auto" }, revealed(question.title)));
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
