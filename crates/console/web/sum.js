// A decision and the sum behind it, wherever one is shown.
import { h } from "/elements.js";
import { ago, amount } from "/format.js";

export function sum(decided) {
  if (decided.lines.length === 0) return null;
  return h("table", { class: "sum" }, h("tbody", {}, decided.lines.map((line, index) =>
    h("tr", { class: index > 0 && index === decided.lines.length - 1 ? "result" : "" },
      h("td", { class: "number" }, amount(line.amount, decided.resource)),
      h("td", {}, line.label), h("td", { class: "note" }, line.note)))));
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
