// Usage: tokens and costs by day, model, person or session, as a plot of the daemon and as a table.

import { api } from "./connection.js";
import { el } from "./html.js";

export async function show(place, { me }) {
  const by = select("By", { day: "day", model: "model", person: "person", session: "conversation" });
  const days = select("Period", { 7: "7 days", 30: "30 days", 90: "90 days", 365: "year" }, "30");
  const of = select("Shown", { cost: "cost", tokens: "tokens" });
  const everybody = el("input", { type: "checkbox" });
  const all = me.admin ? el("label", { class: "check" }, everybody, "Everybody") : null;
  const result = el("div", { class: "column" });
  place.append(el("div", { class: "column" }, el("form", { class: "row", onchange: () => load() }, by, days, of, all), result));
  followTheme(place, () => load());

  async function load() {
    const asked = `by=${by.field.value}&days=${days.field.value}&everybody=${everybody.checked}`;
    try {
      const { sums } = await api(`/usage?${asked}`);
      const shown = sums.length ? [tiles(sums), plot(asked), table(sums, by.field.value)] : [el("p", { class: "muted" }, "No usage in this period.")];
      result.replaceChildren(...shown);
    } catch (error) {
      result.replaceChildren(el("p", { class: "error", role: "alert" }, error.message));
    }
  }

  function plot(asked) {
    if (by.field.value === "session") return el("p", { class: "muted" }, "Conversations are shown as a table.");
    const address = `/api/v1/usage/plot?${asked}&of=${of.field.value}&theme=${theme()}`;
    return picture(address, `Chart of ${of.field.value} by ${by.field.value}; the table below has the figures`);
  }

  await load();
}

function tiles(sums) {
  const total = (name) => sums.reduce((sum, each) => sum + each[name], 0);
  const unpriced = total("unpriced");
  const figures = [
    [money(total("cost")), unpriced ? `cost, ${unpriced} answers without a price` : "cost"],
    [total("requests").toLocaleString(), "requests"],
    [total("input").toLocaleString(), "tokens read"],
    [total("output").toLocaleString(), "tokens written"],
  ];
  return el("div", { class: "tiles" }, figures.map(([figure, words]) => el("p", { class: "tile" }, el("b", {}, figure), el("span", {}, words))));
}

function table(sums, by) {
  const number = (value) => el("td", { class: "number" }, value);
  const row = (sum) =>
    el(
      "tr",
      {},
      el("td", {}, el("bdi", {}, sum.of || "(forgotten)")),
      [sum.requests, sum.input, sum.cache_read, sum.output].map((value) => number(value.toLocaleString())),
      number(money(sum.cost)),
    );
  const names = ["Requests", "Read", "Cached", "Written", "Cost"];
  const head = el("tr", {}, el("th", { scope: "col" }, by), names.map((name) => el("th", { scope: "col", class: "number" }, name)));
  return el("div", { class: "wide", tabindex: "0" }, el("table", {}, el("caption", { class: "unseen" }, `Usage by ${by}`), el("thead", {}, head), el("tbody", {}, sums.map(row))));
}

const money = (dollars) => `$${dollars.toFixed(dollars && dollars < 1 ? 4 : 2)}`;

export function select(label, options, chosen = "") {
  const choices = Object.entries(options).map(([value, words]) => el("option", { value, selected: value === chosen }, words));
  const field = el("select", { "aria-label": label }, choices);
  return Object.assign(el("label", { class: "field" }, label, field), { field });
}

/** A plot that the daemon draws. */
export function picture(address, alt) {
  const shown = el("img", { class: "plot", src: address, alt });
  const frame = el("div", { class: "wide", tabindex: "0", role: "group", "aria-label": "Chart" }, shown); // a phone scrolls in it
  shown.addEventListener("load", () => (frame.scrollLeft = frame.scrollWidth)); // what is latest is at the right
  shown.addEventListener("error", () => frame.replaceWith(el("p", { class: "muted" }, "The chart cannot be drawn now.")));
  return frame;
}

/** The theme that is shown now; plots are pictures, and do not follow it by themselves. */
export function theme() {
  const chosen = document.documentElement.dataset.theme;
  return chosen || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

/** Call `draw` when the theme changes, as long as the panel stands. */
export function followTheme(place, draw) {
  const mark = place.firstChild;
  const listen = () => (mark.isConnected ? draw() : stop());
  const system = matchMedia("(prefers-color-scheme: dark)");
  const stop = () => {
    removeEventListener("theme", listen);
    system.removeEventListener("change", listen);
  };
  addEventListener("theme", listen);
  system.addEventListener("change", listen);
}
