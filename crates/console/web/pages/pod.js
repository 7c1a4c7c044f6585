// How is this pod treated?
import { badge, card, command, h, headline, link, table } from "/elements.js";
import { ago, bytes, cpus } from "/format.js";
import { why } from "/sum.js";

export const title = (rest) => `Pod ${rest.join("/")}`;
export const url = (state) => `/api/pods/${state.rest.map(encodeURIComponent).join("/")}`;

export function view(data) {
  return [
    h("p", { class: "crumb" }, link("Pods", "pods"), " / ", data.key),
    headline("", data.headline, `${data.phase}, ${data.priority}`),
    h("p", {}, "On node ", link(data.node, "nodes", data.node), " ", data.nodeState && badge(data.nodeState), " ", data.nodeWhy && `${data.nodeWhy}.`),
    h("div", { class: "cards" },
      card("CPU used", cpus(data.used?.milliCpu), data.qos === "BE" ? `${cpus(data.batchRequested.milliCpu)} of batch requested` : `${cpus(data.requested.milliCpu)} requested`),
      card("Memory used", bytes(data.used?.bytes), data.qos === "BE" ? `${bytes(data.batchRequested.bytes)} of batch requested` : `${bytes(data.requested.bytes)} requested`),
      card("Class", data.qos, data.priority),
      card("CPUs of its own", data.cpus || "none", data.owner ?? "no owner")),
    h("h2", {}, "What was decided about it"),
    data.decisions.length > 0 ? h("div", { class: "whys" }, data.decisions.map(why))
      : h("p", { class: "state" }, "Nothing special: no strategy has something to say about this pod."),
    data.past.length > 0 && [h("h2", {}, "Before"),
      table(["When", "Strategy", "Outcome", "Bound by"], data.past.map((one) => [ago(one.since), one.strategy, one.headline, one.boundBy]), "")],
    command(`tidepool explain pod ${data.key}`),
  ];
}
