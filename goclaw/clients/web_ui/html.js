// Elements, text and HTML. This is the one place that puts HTML into the page, and only HTML that the daemon has made
// and cleaned (Markdown of messages). Everything else is text: `el` and `textContent` cannot make a tag of it.

const policy = globalThis.trustedTypes?.createPolicy("goclaw", { createHTML: (html) => html });

/** Put the daemon's HTML into an element, in place of what it holds. */
export function putHtml(element, html) {
  element.innerHTML = policy ? policy.createHTML(html) : html;
  furnish(element);
}

/** Add the daemon's HTML at the end of an element; what stands there stays as it is. */
export function addHtml(element, html) {
  const template = document.createElement("template");
  template.innerHTML = policy ? policy.createHTML(html) : html;
  furnish(template.content);
  element.append(template.content);
}

/** Give wide things a place to scroll in, and code a button that copies it. */
function furnish(root) {
  for (const table of root.querySelectorAll("table")) {
    const frame = el("div", { class: "wide", tabindex: "0" });
    table.replaceWith(frame);
    frame.append(table);
  }
  for (const code of root.querySelectorAll("pre")) {
    const frame = el("div", { class: "code" });
    code.tabIndex = 0; // keys scroll it
    code.replaceWith(frame);
    frame.append(code, copyButton(() => code.textContent));
  }
}

function copyButton(text) {
  const button = el("button", { class: "copy", type: "button" }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text());
      button.textContent = "Copied";
    } catch {
      button.textContent = "Not allowed here";
    }
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  return button;
}

/**
 * Make an element: attributes, listeners (`onclick: function`) and children, which are elements or texts.
 * An attribute that is null or false is left out.
 */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Return one of the icons that stand in index.html. It says nothing to screen readers: its button has a label. */
export function icon(name) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  const use = document.createElementNS(space, "use");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  use.setAttribute("href", `#i-${name}`);
  svg.append(use);
  return svg;
}

/** Return the element of index.html with this id. */
export const byId = (id) => document.getElementById(id);

/** Load a stylesheet of this folder, once. */
export function loadStyles(name) {
  const { href } = new URL(name, import.meta.url); // the folder has the version of all files
  if (!document.querySelector(`link[href="${href}"]`)) document.head.append(el("link", { rel: "stylesheet", href }));
}

/** Say something to screen readers. */
export function announce(text) {
  byId("heard").textContent = text.length > 600 ? `${text.slice(0, 600)} …` : text;
}

// Characters that are invisible or turn the direction of what follows: in a text that a person decides on they are
// shown as their codes.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0]/g;

/** Return a text in which nothing stays hidden. */
export const revealed = (text) => String(text).replace(HIDDEN, (hidden) => `\\u${hidden.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** Return a title's nodes: what stands in backticks as code, and nothing hidden. */
export const titled = (text) => revealed(text).split(/`([^`]+)`/).map((part, at) => (at % 2 ? el("code", {}, part) : part));

/** Return a title without the marks of code, to be said. */
export const spoken = (title) => title.replaceAll("`", "");

// Words for numbers and times

export const plural = (count, one, many = `${one}s`) => `${count.toLocaleString()} ${count === 1 ? one : many}`;

/** 950 B, 12.3 kB, 1.2 MB. */
export function bytes(size) {
  if (size < 1000) return `${size} B`;
  return size < 999_950 ? `${(size / 1000).toFixed(1)} kB` : `${(size / 1e6).toFixed(1)} MB`;
}

/** 0.2 s, 14 s, 3 min 05 s. */
export function duration(seconds) {
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  return `${Math.floor(seconds / 60)} min ${String(Math.floor(seconds) % 60).padStart(2, "0")} s`;
}

// Made once: each of them loads the rules of a language.
const CLOCK = { hour: "2-digit", minute: "2-digit" };
const formats = {};
const format = (name, options) => (formats[name] ??= new Intl.DateTimeFormat([], options));
const clock = (date) => format("clock", CLOCK).format(date);
const day = (date) => format("day", { day: "numeric", month: "short", ...CLOCK }).format(date);
const year = (date) => format("year", { year: "numeric", day: "numeric", month: "short", ...CLOCK }).format(date);
const whole = (date) => format("whole", { dateStyle: "short", timeStyle: "medium" }).format(date);
const isToday = (date) => date.toDateString() === new Date().toDateString();

/** Return a `time` element: the clock of today, the date of earlier days. `at` is in epoch seconds. */
export function when(at) {
  const date = new Date(at * 1000);
  const shown = isToday(date) ? clock(date) : date.getFullYear() === new Date().getFullYear() ? day(date) : year(date);
  return el("time", { datetime: date.toISOString(), title: whole(date) }, shown);
}
