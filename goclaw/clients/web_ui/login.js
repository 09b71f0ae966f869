// Signing in: with a code that is let in from Telegram or the terminal, with an access token, or by a link of `goclaw web`.

import { request } from "./connection.js";
import { el, icon, loadStyles } from "./html.js";

/** Show the page; `entered` gets who is here then. */
export function showLogin(place, words, entered) {
  loadStyles("./panels.css");
  const abort = new AbortController();
  const done = (me) => {
    abort.abort();
    place.replaceChildren();
    entered(me);
  };
  const said = el("p", { class: "error", role: "alert", hidden: !words }, words);
  const say = (text) => {
    said.hidden = !text;
    said.textContent = text;
  };
  place.replaceChildren(
    el(
      "div",
      { class: "login" },
      icon("claw"),
      el("h1", {}, "GoClaw"),
      el("p", { class: "muted" }, "Sign in to talk with your agent."),
      said,
      byCode(done, say, abort.signal),
      byToken(done, say),
      el("p", { class: "muted" }, "On the machine where GoClaw runs, ", el("code", {}, "goclaw web"), " opens this page signed in."),
    ),
  );
  place.hidden = false;
  document.title = "Sign in · GoClaw";
}

/** Show as whom a link signs in, beside who is here now (`me`), and ask. */
export async function showLink(place, link, me, entered) {
  loadStyles("./panels.css");
  const { person, name, owner } = await request("/web/login/link", { method: "POST", json: { link } });
  if (person === me.person) return entered(me); // a link to where this browser is already
  const said = el("p", { class: "error", role: "alert", hidden: true });
  const who = el("bdi", {}, name);
  const button = el("button", { class: "strong", type: "button", onclick: () => signIn() }, "Sign in as ", who);
  const stay = me.person && el("button", { type: "button", onclick: () => leave() }, "Stay signed in as ", el("bdi", {}, me.name));
  const words = me.person ? "This browser is already signed in; signing in again closes the open conversation." : "A GoClaw link opened this page.";
  const warning = `${words} Sign in only if you asked for this link: everything you write will count as ${owner ? "the owner's" : "that person's"}.`;
  place.replaceChildren(el("div", { class: "login" }, icon("claw"), el("h1", {}, "GoClaw"), el("p", {}, warning), said, button, stay || null));
  place.hidden = false;
  document.title = "Sign in · GoClaw";
  button.focus();

  function leave(as = me) {
    place.replaceChildren();
    entered(as);
  }

  async function signIn() {
    button.disabled = true;
    try {
      leave(await request("/web/login", { method: "POST", json: { link } }));
    } catch (error) {
      said.hidden = false;
      said.textContent = error.message;
    }
  }
}

function byCode(done, say, signal) {
  const box = el("div", { class: "by-code" });
  const button = el("button", { class: "strong", type: "button", onclick: () => ask() }, "Show a sign-in code");
  box.append(button);

  async function ask() {
    button.disabled = true;
    say("");
    try {
      const { code, secret, seconds } = await request("/web/login/code", { method: "POST", json: {} });
      const until = Date.now() + seconds * 1000;
      box.replaceChildren(
        el("p", {}, "Write this to your agent in Telegram or the terminal:"),
        el("p", { class: "pairing" }, el("code", {}, `/approve ${code}`)),
        el("p", { class: "muted", role: "status" }, "Waiting … The code signs in this browser and works for five minutes. Enter it yourself; do not share it."),
      );
      await wait(secret, until);
    } catch (error) {
      if (error.name === "AbortError") return;
      say(error.status === 410 ? "The code has expired or was refused. Get a new one." : error.message);
      button.disabled = false;
      box.replaceChildren(button);
    }
  }

  async function wait(secret, until) {
    while (Date.now() < until + 1000) {
      const answer = await request("/web/login/wait", { method: "POST", json: { secret }, signal });
      if (!answer.accepted) return done(answer);
    }
    throw Object.assign(new Error("over"), { status: 410 });
  }
  return box;
}

function byToken(done, say) {
  const field = el("input", { id: "token", type: "password", autocomplete: "current-password", required: true, spellcheck: "false" });
  const button = el("button", { type: "submit" }, "Sign in");
  const submit = async (event) => {
    event.preventDefault();
    button.disabled = true;
    say("");
    try {
      done(await request("/web/login", { method: "POST", json: { token: field.value.trim() } }));
    } catch (error) {
      say(error.status === 401 ? "This token is not valid. `goclaw token add` creates one." : error.message);
      button.disabled = false;
      field.select();
    }
  };
  // A password manager keeps the token under a name, which browsers look for.
  const name = el("input", { autocomplete: "username", value: "goclaw", hidden: true });
  const form = el("form", { onsubmit: submit }, name, el("label", { for: "token" }, "Access token"), el("div", { class: "row" }, field, button));
  return el("details", {}, el("summary", {}, "Sign in with a token"), form);
}
