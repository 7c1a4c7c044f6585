// What is configured, and what is wrong with it?
import { command, h, headline, table } from "/elements.js";
import { plural } from "/format.js";

export const title = () => "Configuration";
export const url = () => "/api/config";

export function view(data) {
  const errors = data.findings.filter((one) => one.severity === "error").length;
  return [
    headline(errors > 0 ? "unsafe" : data.findings.length > 0 ? "held" : "safe", data.headline, data.object),
    data.findings.length > 0 && [h("h2", {}, "Findings"), h("div", { class: "findings" }, data.findings.map(finding))],
    h("h2", {}, "Keys"),
    data.keys.map(key),
    command(`kubectl get configmap ${place(data.object)} -o yaml | tidepool config check -`),
  ];
}

// `ConfigMap NAMESPACE/NAME`, as kubectl wants it.
function place(object) {
  const [namespace, name] = object.replace("ConfigMap ", "").split("/");
  return name ? `-n ${namespace} ${name}` : namespace;
}

export function finding(one) {
  const field = [one.key, one.path].filter(Boolean).join(": ") || one.object;
  const where = one.line ? `, line ${one.line} column ${one.column}` : "";
  const word = one.severity === "error" ? "Error" : "Warning";
  return h("article", { class: `finding ${one.severity}` },
    h("h3", {}, `${word} ${one.code}`), h("p", {}, h("code", {}, `${field}${one.value === undefined ? "" : ` = ${one.value}`}`), where),
    h("p", {}, one.rule), h("p", {}, h("strong", {}, "Fix: "), one.fix));
}

function key(one) {
  const own = one.settings.filter(([, , source]) => source !== "built-in").length;
  const wrong = [one.errors > 0 && plural(one.errors, "error"), one.warnings > 0 && plural(one.warnings, "warning")].filter(Boolean);
  return h("details", { "data-key": one.name },
    h("summary", { "data-key": `${one.name}-summary` }, h("strong", {}, one.name), `: ${one.status}`,
      own > 0 ? `, ${plural(own, "value")} set` : "", wrong.length > 0 ? [", ", h("span", { class: one.errors > 0 ? "wrong" : "doubtful" }, wrong.join(", "))] : ""),
    table(["Field", "Value", "Source"], one.settings.map(([field, value, source]) =>
      [h("code", {}, field), h("code", {}, JSON.stringify(value)), source]), "Nothing is set."),
    one.text !== null && h("pre", {}, one.text));
}
