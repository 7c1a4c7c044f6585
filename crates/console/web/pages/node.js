// Why is this node holding best-effort back, or not?
import { badge, card, command, h, headline, link, number, qos, table } from "/elements.js";
import { classLegend, cpuMap, legend, stacked } from "/charts.js";
import { ago, bytes, bytesFixed, cores, cpus, fixed, percent, some } from "/format.js";
import { why } from "/sum.js";

export const title = (rest) => `Node ${rest[0]}`;
export const url = (state) => `/api/nodes/${encodeURIComponent(state.rest[0])}`;

export function view(data) {
  const limit = data.limits.length > 0 ? data.limits[data.limits.length - 1] : null;
  const used = data.used?.milliCpu ?? null;
  return [
    h("p", { class: "crumb" }, link("Nodes", "nodes"), " / ", h("bdi", {}, data.name), " ", badge(data.state)),
    headline(data.state, sentence(data, limit), `${data.why[0].toUpperCase()}${data.why.slice(1)}.`),
    h("div", { class: "cards" },
      card("CPU in use", percent(used, data.capacity.milliCpu), `${cores(used)} of ${cpus(data.capacity.milliCpu)}`),
      card("Memory in use", percent(data.used?.bytes, data.capacity.bytes), `${bytes(data.used?.bytes)} of ${bytes(data.capacity.bytes)}`),
      card("Best-effort uses", data.classes ? cpus(data.classes.be) : "–", limit ? `may use ${cpus(limit.milliCpu)}` : "no limit is known"),
      card("Lent to batch", cpus(data.batchLent), `${cores(data.batchRequested)} requested`)),
    chart(data),
    decisions(data),
    h("h2", {}, "Does online work wait?"), waits(data),
    h("h2", {}, "Who owns the CPUs?"),
    data.cpuMap.sockets.length > 0
      ? [cpuMap(data.cpuMap), legend([...classLegend(["lse", "lsr", "ls", "be"]), ["lends", "best-effort may run beside its owner"]])]
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
    drawn && legend([...classLegend(["ls", "lsr", "lse", "system", "be"]), ["limit", "best-effort limit"], ["threshold", "held back above"], ["suppressed", "limit lowered"], ["evicted", "pod evicted"]]),
    data.marks.length > 0 && h("details", { "data-key": "marks" },
      h("summary", { "data-key": "marks-summary" }, `What happened to best-effort work (${data.marks.length})`),
      h("p", {}, link("Replay it, moment by moment", "decisions", data.name)),
      table(["When", "What", "About", "Outcome", "Bound by"], data.marks.map((mark) =>
        [ago(mark.at), mark.kind, mark.about, mark.headline, mark.boundBy]), "")),
  ];
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

// Hints of interference: online pods whose tasks stood still.
function waits(data) {
  if (data.waits === null) {
    return h("p", { class: "state" }, "Not measured: the agent needs control groups v2 and ",
      h("code", {}, "--feature-gates=PSICollector=true"), ".");
  }
  const beside = data.classes ? `Best-effort work uses ${cpus(data.classes.be)} beside them.` : "";
  return [
    table(["Pod", "Waited for", number("Share of the last minute")],
      data.waits.map((wait) => [podLink(wait.pod), waitedFor(wait), number(hundredths(wait.share))]),
      "No online pod waited for more than 1% of the last minute."),
    data.waits.length > 0 && h("p", { class: "note" }, `${beside} A wait is a hint: somebody interferes, or the pod has too little of its own.`),
  ];
}

export const waitedFor = (wait) => ({ cpu: "CPU", memory: "memory", io: "disks" })[wait.resource] ?? wait.resource;
export const hundredths = (share) => `${(share / 100).toFixed(1)}%`;

function pods(data) {
  return table(["Pod", "Class", "Priority", "Phase", number("CPUs used"), number("CPUs requested"), number("Batch CPUs requested"), number("Memory used"), "Its own CPUs"],
    data.podRows.map((pod) => [
      podLink(pod.key), qos(pod.qos), pod.priority, pod.phase, number(fixed(pod.used?.milliCpu)),
      number(some(pod.requested.milliCpu)), number(some(pod.batchRequested.milliCpu)), number(bytesFixed(pod.used?.bytes)), pod.cpus || "–",
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
