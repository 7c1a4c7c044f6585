// What did sharing bring?
import { card, command, h, headline } from "/elements.js";
import { bars } from "/charts.js";
import { ago, coreHours, cores, cpus, perMille, span } from "/format.js";
import { finding } from "/pages/config.js";

export const title = () => "Benefit";
export const url = () => "/api/benefit";

const HOUR = 3600000;

export function view(data) {
  const done = data.sharedMilliCoreSeconds + data.lentMilliCoreSeconds;
  const text = data.seconds > 0 ? `${coreHours(done)} core-hours of batch work done in ${span(data.seconds)}` : "Nothing is accounted yet";
  return [
    headline("", text, data.since ? ["Counted since ", ago(data.since), data.isKept ? "; the sums are kept over restarts." : ", in memory: it begins anew when this process does."]
      : "Accounting begins with the second report of an agent."),
    data.finding && h("div", { class: "findings spaced" }, finding(data.finding)),
    h("div", { class: "cards" },
      card("Lent to batch now", cpus(data.lentNow), `${cores(data.usedNow)} of them used`),
      card("Core-hours done", coreHours(done), `${coreHours(data.sharedMilliCoreSeconds)} beside online work, ${coreHours(data.lentMilliCoreSeconds)} on nodes that run nothing else`),
      card("Machines saved", cpus(data.coresSaved), "of dedicated machines that would be 70% busy"),
      card("CPU in use, last 24 h", perMille(data.utilizationPerMille), `${perMille(data.withoutBatchPerMille)} without batch work`)),
    h("h2", {}, "Core-hours done, by the hour"),
    data.hours.length > 0 ? day(data.hours) : h("p", { class: "state" }, "There is no full report yet."),
    h("h2", {}, "How is it counted?"),
    h("dl", {},
      h("dt", {}, "CPU in use, last 24 h"), h("dd", {}, "Busy core-seconds over capacity core-seconds of all measured nodes, for 24 hours or as long as was seen."),
      h("dt", {}, "Core-hours done"), h("dd", {}, "CPU time of best-effort pods. A report holds since the one before; silence of more than two minutes counts for nothing."),
      h("dt", {}, "Machines saved"), h("dd", {}, "Core-seconds done, over the time that was seen, over 0.70: cores of dedicated machines that would be 70% busy with the same work. Work lost by evictions is not taken off.")),
    command("curl -s localhost:6481/metrics | grep tidepool_"),
  ];
}

// The last 24 hours; those without a report are empty.
function day(hours) {
  const known = new Map(hours.filter((hour) => hour.start).map((hour) => [Date.parse(hour.start), hour.reclaimedMilliCoreSeconds]));
  const last = Math.max(...known.keys());
  const starts = Array.from({ length: 24 }, (_, index) => last - (23 - index) * HOUR);
  return bars({
    values: starts.map((start) => (known.get(start) ?? 0) / HOUR),
    labels: starts.map((start, index) => (index % 2 === 1 ? new Date(start).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" }) : "")),
    label: "Core-hours of batch work by the hour, last 24 hours",
    unit: (value) => value.toLocaleString("en", { maximumFractionDigits: value >= 10 ? 0 : value >= 1 ? 1 : value >= 0.1 ? 2 : 3 }),
    name: " core-hours", kind: "be",
  });
}
