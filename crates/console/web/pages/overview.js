// Is the cluster safe, and what is it used for?
import { badge, card, command, h, headline, href, link, number, table } from "/elements.js";
import { bars, gap, legend } from "/charts.js";
import { hundredths, podLink, waitedFor } from "/pages/node.js";
import { bytes, cores, cpus, perMille, percent, plural, span } from "/format.js";

export const title = () => "Overview";
export const url = () => "/api/overview";

const STATES = [
  ["safe", "measured, with room"], ["held", "batch waits, as it should"], ["unsafe", "someone should look"],
  ["unknown", "no recent report"], ["off", "switched off"],
];

export function view(data) {
  const { counts, cpu, batch, memory, day } = data;
  if (counts.nodes === 0) {
    return [headline("unknown", data.headline, "Nodes appear here as soon as they join."), command("kubectl get nodes")];
  }
  const note = cpu.capacity > 0
    ? `${percent(cpu.used, cpu.capacity)} of CPU is in use; ${percent(cpu.withoutBatch, cpu.capacity)} would be without batch work.`
    : "Nothing was measured yet; agents report once a minute.";
  return [
    headline(data.state, data.headline, note),
    h("div", { class: "cards" },
      card("CPU in use now", percent(cpu.used, cpu.capacity), `${cores(cpu.used)} of ${cpus(cpu.capacity)}; ${percent(cpu.withoutBatch, cpu.capacity)} without batch`),
      card("CPU in use, last 24 h", perMille(day.utilizationPerMille), day.utilizationPerMille === null ? "counted from the second report on"
        : `${perMille(day.withoutBatchPerMille)} without batch${day.seconds < 86400 ? `; ${span(day.seconds)} seen` : ""}`),
      card("Lent to batch", cpus(batch.lent), `${cores(batch.requested)} requested by ${plural(batch.pods, "pod")}, ${cores(batch.used)} used`),
      card("Memory in use", percent(memory.used, memory.capacity), `${bytes(memory.used)} of ${bytes(memory.capacity)}`)),
    h("div", { class: "states" }, STATES.map(([state, meaning]) =>
      h("a", { class: "tile", href: href("nodes") + `?state=${state}`, "data-key": `tile-${state}` },
        badge(state), h("strong", {}, counts[state].toLocaleString("en")), h("span", { class: "note" }, meaning)))),
    chart(data),
    h("h2", {}, "Who needs attention"),
    table(["Node", "State", "Why"],
      data.attention.map((row) => [link(row.name, "nodes", row.name), badge(row.state), row.why]),
      "Nobody: every node is measured and safe."),
    data.hints.length > 0 && [h("h2", {}, "Online work that waits"),
      table(["Pod", "Node", "Waited for", number("Share of the last minute")], data.hints.map((hint) =>
        [podLink(hint.pod), link(hint.node, "nodes", hint.node), waitedFor(hint), number(hundredths(hint.share))]), "")],
    h("h2", {}, "How busy are nodes?"),
    counts.nodes > counts.unknown && bars({
      values: data.distribution,
      labels: data.distribution.map((_, index) => `${index * 10}–${index * 10 + 10}%`),
      label: "Nodes by share of CPU in use",
      unit: (value) => value.toLocaleString("en", { maximumFractionDigits: 0 }), name: " nodes", isCount: true,
    }),
    h("p", { class: "note" }, `${plural(counts.nodes - counts.unknown, "measured node")} by share of their CPU in use.`),
    command("tidepool top -o json"),
  ];
}

function chart(data) {
  const samples = data.history.filter((one) => one.capacity > 0).map((one) => ({
    at: Date.parse(one.at),
    upper: (100 * one.used) / one.capacity,
    lower: (100 * (one.used - one.bestEffort)) / one.capacity,
  }));
  const drawn = gap({
    samples,
    label: "CPU in use over time, with and without batch work, in percent of all CPUs",
    upper: "with batch work",
    lower: "without batch work",
  });
  return [
    h("h2", {}, "CPU in use, with and without batch"),
    drawn ?? h("p", { class: "state" }, "The chart begins with the second sample."),
    drawn && legend([["be", "added by batch work"], ["ls line", "without batch work"]]),
  ];
}
