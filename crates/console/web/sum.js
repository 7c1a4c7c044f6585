// A decision and the sum behind it, wherever one is shown.
import { h } from "/elements.js";
import { ago, amount } from "/format.js";

const SIGNS = { plus: "+", minus: "−", equals: "=", then: ">" };

export function sum(decided) {
  const lines = decided.lines;
  if (lines.length === 0) return null;
  // As many digits as the finest term needs, so that the column adds up.
  const digits = lines.some((line) => line.amount % 10 !== 0) ? 3 : 2;
  return h("table", { class: "sum" }, h("tbody", {}, lines.map((line, index) =>
    h("tr", { class: index > 0 && line.sign === "equals" ? "result" : "" },
      h("td", { class: "sign" }, index === 0 && line.sign === "plus" ? "" : SIGNS[line.sign] ?? ""),
      h("td", { class: "number" }, amount(line.amount, line.unit, digits)),
      h("td", {}, line.label), h("td", { class: "note" }, source(line))))));
}

function source({ note, setting }) {
  const value = setting?.value;
  const set = !setting ? "" : value ? `${setting.name} = ${value.value} (${value.setBy})` : `${setting.name} is not set`;
  return [note, set].filter(Boolean).join("; ");
}

// The outcome; what is about a pod begins with its name.
export function outcome(decided, tag) {
  return decided.about === "node" ? h(tag, { class: "sentence" }, decided.headline)
    : h(tag, {}, h("bdi", {}, decided.about), ` ${decided.headline}`);
}

export function why(decided) {
  return h("article", { class: "why" }, outcome(decided, "h3"),
    h("p", { class: "note" }, h("span", { class: "strategy" }, decided.strategy), ` bound by ${decided.boundBy}, since `, ago(decided.since)),
    sum(decided));
}
