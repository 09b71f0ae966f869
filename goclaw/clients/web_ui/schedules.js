// Schedules: reminders and tasks, their next time and their runs; pause, run now, forget, add.

import { api, encode } from "./connection.js";
import { el, when } from "./html.js";

const STATES = { active: "on", paused: "paused", stopped: "stopped", done: "over" };
const EXAMPLES = { at: "20m, tomorrow 8:00", every: "2h, 1d", cron: "30 8 * * 1-5" };

export async function show(place, { me }) {
  const list = el("div", { class: "cards" });
  const said = el("p", { class: "error", role: "alert", hidden: true });
  place.append(el("div", { class: "column" }, added(), said, list));

  async function load() {
    const { schedules } = await api("/schedules");
    const none = el("p", { class: "muted" }, "No schedules yet. Add one above, or tell the agent: “every morning at eight …”.");
    list.replaceChildren(...(schedules.length ? schedules.map(card) : [none]));
  }

  /** Do something with a schedule, then show all anew. */
  async function change(button, path, method = "POST") {
    button.disabled = true;
    said.hidden = true;
    try {
      await api(path, method === "POST" ? { method, json: {} } : { method });
      await load();
    } catch (error) {
      said.textContent = error.message;
      said.hidden = false;
      button.disabled = false;
    }
  }

  function card(schedule) {
    const path = `/schedules/${encode(schedule.name)}`;
    const button = (label, action) => el("button", { type: "button", onclick: (event) => change(event.target, `${path}/${action}`) }, label);
    const remove = el("button", { type: "button", class: "danger", onclick: () => confirmed(remove, () => change(remove, path, "DELETE")) }, "Delete");
    const isOn = schedule.state === "active";
    const state = schedule.running ? "running" : (STATES[schedule.state] ?? schedule.state);
    const whose = schedule.user === me.person ? "" : ` · ${schedule.user}`;
    return el(
      "article",
      { class: "card" },
      el("div", { class: "top" }, el("bdi", {}, schedule.name), el("span", { class: `badge ${isOn ? "good" : schedule.state === "stopped" ? "bad" : ""}` }, state)),
      el("p", { class: "muted" }, `${schedule.kind} · ${schedule.when}${whose}`, schedule.next ? [" · next ", when(schedule.next)] : null),
      schedule.note ? el("p", { class: "error", dir: "auto" }, schedule.note) : null,
      el("p", { class: "text", dir: "auto" }, schedule.text),
      runs(path),
      el("div", { class: "row" }, isOn ? button("Pause", "pause") : button("Resume", "resume"), button("Run now", "run"), remove),
    );
  }

  function runs(path) {
    const body = el("div");
    const read = async () => {
      if (!details.open) return;
      body.textContent = "Loading …";
      try {
        const found = (await api(`${path}/runs`)).runs;
        const shown = found.map((run) => el("p", { class: "quote", dir: "auto" }, el("b", {}, when(run.began), ` · ${run.state} `), run.text));
        body.replaceChildren(...(shown.length ? shown : ["It has not run yet."]));
      } catch (error) {
        body.replaceChildren(el("p", { class: "error", role: "alert" }, error.message));
      }
    };
    const details = el("details", { ontoggle: read }, el("summary", {}, "Runs"), body);
    return details;
  }

  function added() {
    const kind = choice("What", { message: "Send me this text", task: "Let the agent do this" });
    const time = choice("When", { at: "once, at", every: "every", cron: "cron" });
    const moment = el("input", { required: true, placeholder: EXAMPLES.at, autocomplete: "off" });
    const text = el("textarea", { rows: "2", required: true, dir: "auto" });
    const name = el("input", { placeholder: "chosen for you", maxlength: "64", autocomplete: "off" });
    time.field.addEventListener("change", () => (moment.placeholder = EXAMPLES[time.field.value]));
    const submit = async (event) => {
      event.preventDefault();
      const id = crypto.getRandomValues(new Uint32Array(4)).join("-");
      const json = { id, name: name.value.trim(), [time.field.value]: moment.value.trim(), [kind.field.value]: text.value.trim() };
      said.hidden = true;
      try {
        await api("/schedules", { method: "POST", json });
        event.target.reset();
        box.open = false;
        await load();
      } catch (error) {
        said.textContent = error.message;
        said.hidden = false;
      }
    };
    const field = (label, input) => {
      input.setAttribute("aria-label", label);
      return el("label", { class: "field" }, label, input);
    };
    const form = el("form", { class: "form", onsubmit: submit }, kind, field("Text", text), time, field("Time", moment), field("Name", name), el("button", { class: "strong" }, "Add"));
    const box = el("details", { class: "card" }, el("summary", {}, "Add a schedule"), form);
    return box;
  }

  await load();
}

function choice(label, options) {
  const field = el("select", { "aria-label": label }, Object.entries(options).map(([value, words]) => el("option", { value }, words)));
  return Object.assign(el("label", { class: "field" }, label, field), { field });
}

/** Let a button ask once more before it acts: what it forgets does not come back. */
export function confirmed(button, act) {
  if (button.ariaDisabled) return;
  if (button.dataset.sure) return act();
  button.dataset.sure = "yes";
  button.ariaDisabled = "true"; // the second click of a double-click confirms nothing
  setTimeout(() => (button.ariaDisabled = null), 500);
  const text = button.firstChild; // what is said to screen readers alone stays behind it
  const label = text.data;
  text.data = "Really?";
  setTimeout(() => {
    delete button.dataset.sure;
    text.data = label;
  }, 4000);
}
