// Status: what /status says of this conversation; for admins also how the daemon is, in figures and plots.

import { api, encode } from "./connection.js";
import { el } from "./html.js";
import { followTheme, picture, theme } from "./usage.js";

const PLOTS = { lateness: "Event loop delay", memory: "Memory", turns: "Running answers" };

export async function show(place, { me, session }) {
  const column = el("div", { class: "column" });
  place.append(column);
  followTheme(place, () => load());

  async function load() {
    const status = await api(`/status?session=${encode(session)}`);
    const parts = [
      el("div", { class: "row" }, el("button", { type: "button", onclick: () => load() }, "Refresh")),
      el("pre", { class: "plain", tabindex: "0", dir: "auto" }, status.text),
    ];
    if (me.admin) parts.push(...Object.entries(PLOTS).flatMap(plot));
    if (status.daemon) parts.push(el("details", {}, el("summary", {}, "All figures"), table(status.daemon)));
    column.replaceChildren(...parts);
  }

  function plot([of, words]) {
    const address = `/api/v1/status/plot?of=${of}&theme=${theme()}`;
    return [el("h2", {}, words), picture(address, `${words} in the last hour`)];
  }

  await load();
}

function table(figures) {
  const rows = Object.entries(figures).map(([name, value]) =>
    el("tr", {}, el("th", { scope: "row" }, name), el("td", { class: "number" }, Number(value).toLocaleString(undefined, { maximumFractionDigits: 3 }))),
  );
  return el("div", { class: "wide", tabindex: "0" }, el("table", {}, el("tbody", {}, rows)));
}
