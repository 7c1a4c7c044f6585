// Is the cluster safe, and what is it used for?
import { badge, card, command, h, headline, href, link, table } from "/elements.js";
import { bars, gap, legend } from "/charts.js";
import { bytes, cores, cpus, percent, plural } from "/format.js";

export const title = () => "Overview";
export const url = () => "/api/overview";

export function view(data) {
  const { counts, cpu, batch, memory } = data;
  if (counts.nodes === 0) {
    return [headline("unknown", data.headline, "Nodes appear here as soon as they join."), command("kubectl get nodes")];
  }
  const gained = cpu.capacity > 0 ? Math.round((100 * (cpu.used - cpu.withoutBatch)) / cpu.capacity) : 0;
  const note = cpu.capacity > 0
    ? `${percent(cpu.used, cpu.capacity)} of CPU is in use; ${percent(cpu.withoutBatch, cpu.capacity)} would be without batch work.`
    : "Nothing was measured yet; agents report once a minute.";
  return [
    headline(data.state, data.headline, note),
    h("div", { class: "cards" },
      card("CPU in use", percent(cpu.used, cpu.capacity), `${cores(cpu.used)} of ${cpus(cpu.capacity)}; ${gained} points by batch`),
      card("Memory in use", percent(memory.used, memory.capacity), `${bytes(memory.used)} of ${bytes(memory.capacity)}`),
      card("Lent to batch", cpus(batch.lent), `${cores(batch.requested)} requested, ${cores(batch.used)} used`),
      card("Best-effort pods", batch.pods.toLocaleString("en"), "run in what others leave")),
    h("div", { class: "states" }, ["safe", "held", "unsafe", "unknown", "off"].map((state) =>
      h("a", { class: "tile", href: href("nodes") + `?state=${state}`, "data-key": `tile-${state}` },
        badge(state), h("strong", {}, counts[state].toLocaleString("en"))))),
    chart(data),
    h("h2", {}, "Who needs attention"),
    table(["Node", "State", "Why"],
      data.attention.map((row) => [link(row.name, "nodes", row.name), badge(row.state), row.why]),
      "Nobody: every node is measured and has room."),
    h("h2", {}, "How busy are nodes?"),
    bars({
      values: data.distribution,
      labels: data.distribution.map((_, index) => `${index * 10}–${index * 10 + 10}%`),
      label: "Nodes by share of CPU in use",
      unit: (value) => value.toLocaleString("en"),
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
