// Devices: the browsers that are signed in as this person. One that is lost is signed out here.

import { api, encode, request } from "./connection.js";
import { el, when } from "./html.js";
import { confirmed } from "./schedules.js";

export async function show(place, { signedOut }) {
  const list = el("div", { class: "cards" });
  const hint = "These browsers are signed in as you. Sign out any that you do not recognise or no longer use; it loses access at once.";
  place.append(el("div", { class: "column" }, el("p", { class: "hint" }, hint), list));

  async function load() {
    const { devices } = await api("/devices");
    list.replaceChildren(...devices.map(card));
  }

  function card({ name, device, made, until, current }) {
    const end = async () => {
      try {
        if (!current) {
          await api(`/devices/${encode(name)}`, { method: "DELETE" });
          return await load();
        }
        await request("/web/logout", { method: "POST", json: {} });
        signedOut();
      } catch (error) {
        list.prepend(el("p", { class: "error", role: "alert" }, error.message));
      }
    };
    const button = el("button", { type: "button", class: "danger", onclick: () => confirmed(button, end) }, "Sign out");
    return el(
      "article",
      { class: "card" },
      el("div", { class: "top" }, el("bdi", {}, device || name), current ? el("span", { class: "badge good" }, "this browser") : null),
      el("p", { class: "muted" }, `${name} · since `, when(made), until ? [" · until ", when(until)] : null),
      el("div", { class: "row" }, button),
    );
  }

  await load();
}
