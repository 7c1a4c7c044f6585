// Builds elements. Text becomes text nodes, never markup, wherever it comes from.

const SVG = "http://www.w3.org/2000/svg";

// Letters that do not show, or turn the order of others around, are written out.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

function visible(text) {
  return String(text).replace(HIDDEN, (letter) => `\\u{${letter.codePointAt(0).toString(16)}}`);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : name === "href" ? String(value) : visible(value));
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children) {
    if (child === undefined || child === null || child === false) continue;
    if (Array.isArray(child)) append(element, child);
    else element.append(child instanceof Node ? child : document.createTextNode(visible(child)));
  }
}

export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

// A link to a page of the console; every part of the way is encoded.
export function href(...parts) {
  return "#/" + parts.map(encodeURIComponent).join("/");
}

export function link(text, ...parts) {
  const target = href(...parts);
  return h("a", { href: target, "data-key": target }, h("bdi", {}, text));
}

export function table(head, rows, empty) {
  if (rows.length === 0) return h("p", { class: "state" }, empty);
  const cell = (tag) => (one) =>
    one !== null && typeof one === "object" && "cell" in one
      ? h(tag, { class: one.kind }, one.cell)
      : h(tag, {}, one);
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "table" },
    h("table", {},
      h("thead", {}, h("tr", {}, head.map(cell("th")))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map(cell("td")))))));
}

export const number = (cell) => ({ cell, kind: "number" });

// A sentence: it gets the room that is left.
export const wide = (cell) => ({ cell, kind: "wide" });

export function badge(state) {
  const marks = { safe: "✓", held: "≈", unsafe: "!", unknown: "?", off: "○" };
  return h("span", { class: `badge ${state}` }, `${marks[state] ?? "?"} ${state}`);
}

export function qos(name) {
  return h("span", { class: `qos ${String(name).toLowerCase()}` }, name);
}

export function card(label, value, note) {
  return h("div", { class: "card" },
    h("div", { class: "label" }, label), h("div", { class: "value" }, value),
    note && h("div", { class: "note" }, note));
}

export function headline(state, text, note) {
  return h("div", { class: `headline ${state ?? ""}` }, h("h1", {}, text), note && h("p", {}, note));
}

export function command(text) {
  return h("p", { class: "command" }, "The same in a terminal: ", h("bdi", {}, h("code", {}, text)));
}

export function pager(data, page, turn) {
  if (data.pages <= 1) return null;
  const button = (label, to, off) =>
    h("button", { type: "button", disabled: off, "data-key": `pager-${label}`, onclick: () => turn(to) }, label);
  return h("div", { class: "pager" },
    button("Previous", page - 1, page <= 0),
    h("span", {}, `page ${data.page + 1} of ${data.pages}`),
    button("Next", page + 1, page >= data.pages - 1));
}
