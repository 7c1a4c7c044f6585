// Why is this node holding best-effort back, or not?
import { badge, card, command, h, headline, link, number, qos, table } from "/elements.js";
import { CLASSES, cpuMap, legend, stacked } from "/charts.js";
import { ago, amount, bytes, cores, cpus, percent } from "/format.js";

export const title = (rest) => `Node ${rest[0]}`;
export const url = (state) => `/api/nodes/${encodeURIComponent(state.rest[0])}`;

export function view(data) {
  const limit = data.limits.length > 0 ? data.limits[data.limits.length - 1] : null;
  const used = data.used?.milliCpu ?? null;
  return [
    h("p", { class: "crumb" }, link("Nodes", "nodes"), " / ", data.name, " ", badge(data.state)),
    headline(data.state, sentence(data, limit), data.why),
    h("div", { class: "cards" },
      card("CPU in use", percent(used, data.capacity.milliCpu), `${cores(used)} of ${cpus(data.capacity.milliCpu)}`),
      card("Memory in use", percent(data.used?.bytes, data.capacity.bytes), `${bytes(data.used?.bytes)} of ${bytes(data.capacity.bytes)}`),
      card("Best-effort", data.classes ? cpus(data.classes.be) : "–", limit ? `may use ${cpus(limit.milliCpu)}` : "no limit is known"),
      card("Lent to batch", cpus(data.batchLent), `${cores(data.batchRequested)} requested`)),
    chart(data),
    decisions(data),
    h("h2", {}, "Who owns the CPUs?"),
    data.cpuMap.sockets.length > 0
      ? [cpuMap(data.cpuMap), legend([["lse", "LSE"], ["lsr", "LSR"], ["ls", "LS"], ["be", "BE"], ["system", "SYSTEM"], ["lends", "best-effort may run beside"]])]
      : h("p", { class: "state" }, "The agent of this node has not described its CPUs."),
    h("h2", {}, "Pods"), pods(data),
    settings(data),
    command(`tidepool explain node ${data.name} cpu`),
  ];
}

function sentence(data, limit) {
  if (data.state === "off") return "Co-location is off on this node";
  if (data.bestEffortPods === 0) return "No best-effort work runs here";
  if (!limit) return "Best-effort work runs here without a limit that is known";
  return `Best-effort may use ${cores(limit.milliCpu)} of ${cores(data.capacity.milliCpu)} CPUs`;
}

function chart(data) {
  const threshold = (data.capacity.milliCpu * data.thresholds.suppress) / 100;
  const drawn = stacked({
    samples: data.samples, limits: data.limits, marks: data.marks,
    capacity: data.capacity.milliCpu, threshold,
  });
  return [
    h("h2", {}, "CPU by QoS class"),
    drawn ?? h("p", { class: "state" }, "The chart begins with the second report of the agent."),
    drawn && legend([...[...CLASSES].reverse().map(([key, name]) => [key, name]),
      ["limit", "best-effort limit"], ["threshold", "held back above"], ["suppressed", "limit lowered"], ["evicted", "pod evicted"]]),
    data.marks.length > 0 && h("details", { "data-key": "marks" },
      h("summary", { "data-key": "marks-summary" }, `What happened to best-effort work (${data.marks.length})`),
      table(["When", "What", "About", "Outcome", "Bound by"], data.marks.map((mark) =>
        [ago(mark.at), mark.kind, mark.about, mark.headline, mark.boundBy]), "")),
  ];
}

export function why(decided) {
  return h("article", { class: "why" },
    h("h3", {}, decided.headline),
    h("p", { class: "note" }, `${decided.strategy}, bound by ${decided.boundBy}, since `, ago(decided.since),
      decided.about === "node" ? "" : `, about ${decided.about}`),
    decided.lines.length > 0 && h("table", { class: "sum" }, h("tbody", {}, decided.lines.map((line, index) =>
      h("tr", { class: index === decided.lines.length - 1 ? "result" : "" },
        h("td", { class: "number" }, amount(line.amount, decided.resource)),
        h("td", {}, line.label), h("td", { class: "note" }, line.note))))));
}

function decisions(data) {
  const about = data.decisions.filter((one) => one.about === "node");
  return [
    h("h2", {}, "Why?"),
    !data.hasAgent ? h("p", { class: "state" }, "The agent of this node tells nothing of its decisions.")
      : about.length === 0 ? h("p", { class: "state" }, data.switch.isOn ? "Nothing had to be decided." : "The agent is off and decides nothing.")
        : h("div", { class: "whys" }, about.map(why)),
    !data.switch.isOn && data.switch.dirty > 0 && h("p", { class: "state error" },
      `${data.switch.dirty} kernel files are not yet as they were found.`),
  ];
}

function pods(data) {
  return table(["Pod", "Class", "Priority", "Phase", number("CPU used"), number("requested"), number("batch"), number("memory"), "CPUs"],
    data.podRows.map((pod) => [
      podLink(pod.key), qos(pod.qos), pod.priority, pod.phase, number(cores(pod.used?.milliCpu)),
      number(cores(pod.requested.milliCpu)), number(cores(pod.batchRequested.milliCpu)), number(bytes(pod.used?.bytes)), pod.cpus || "–",
    ]), "No pods run here.");
}

export function podLink(key) {
  const cut = key.indexOf("/");
  return link(key, "pods", key.slice(0, cut), key.slice(cut + 1));
}

function settings(data) {
  const own = data.settings.filter((one) => one.source !== "built-in").length;
  return h("details", { "data-key": "settings" },
    h("summary", { "data-key": "settings-summary" }, `Configuration in force (${data.settings.length} values, ${own} not built in)`),
    table(["Key", "Field", "Value", "Source"], data.settings.map((one) =>
      [one.key, h("code", {}, one.field), h("code", {}, JSON.stringify(one.value)), one.source]), "The configuration cannot be read."));
}
