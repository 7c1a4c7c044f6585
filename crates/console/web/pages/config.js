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
    command("kubectl get configmap -n koordinator-system slo-controller-config -o yaml | tidepool config check -"),
  ];
}

function finding(one) {
  const place = [one.key, one.path].filter(Boolean).join(": ");
  const where = one.line ? `, line ${one.line} column ${one.column}` : "";
  return h("article", { class: `finding ${one.severity}` },
    h("h3", {}, `${one.severity} ${one.code}`), h("p", {}, h("code", {}, `${place}${one.value === undefined ? "" : ` = ${one.value}`}`), where),
    h("p", {}, one.rule), h("p", {}, h("strong", {}, "Fix: "), one.fix));
}

function key(one) {
  const own = one.settings.filter(([, , source]) => source !== "built-in").length;
  const wrong = [one.errors > 0 && plural(one.errors, "error"), one.warnings > 0 && plural(one.warnings, "warning")].filter(Boolean);
  return h("details", { "data-key": one.name },
    h("summary", { "data-key": `${one.name}-summary` }, h("strong", {}, one.name), ` ${one.status}`,
      wrong.length > 0 ? h("span", { class: one.errors > 0 ? "wrong" : "doubtful" }, ` ${wrong.join(", ")}`) : "", own > 0 ? `; ${plural(own, "value")} set` : ""),
    table(["Field", "Value", "Source"], one.settings.map(([field, value, source]) =>
      [h("code", {}, field), h("code", {}, JSON.stringify(value)), source]), "Nothing is set."),
    one.text !== null && h("pre", {}, one.text));
}
