// What did sharing bring?
import { card, command, h, headline } from "/elements.js";
import { bars } from "/charts.js";
import { ago, coreHours, cores, cpus, perMille, span } from "/format.js";

export const title = () => "Benefit";
export const url = () => "/api/benefit";

export function view(data) {
  const done = data.sharedMilliCoreSeconds + data.lentMilliCoreSeconds;
  const text = data.seconds > 0 ? `${coreHours(done)} core-hours of batch work done in ${span(data.seconds)}` : "Nothing is accounted yet";
  return [
    headline("", text, data.since ? ["Counted since ", ago(data.since), ", in memory: it begins anew when this process does."]
      : "Accounting begins with the second report of an agent."),
    h("div", { class: "cards" },
      card("Cores lent now", cpus(data.lentNow), `${cores(data.usedNow)} of them used`),
      card("Core-hours done", coreHours(done), `${coreHours(data.sharedMilliCoreSeconds)} beside online work, ${coreHours(data.lentMilliCoreSeconds)} on nodes without`),
      card("Cores saved", cpus(data.coresSaved), "of dedicated machines that run at 70%"),
      card("Utilisation, last 24 h", perMille(data.utilizationPerMille), `${perMille(data.withoutBatchPerMille)} without batch work`)),
    h("h2", {}, "Core-hours done, by the hour"),
    data.hours.length > 0 ? bars({
      values: data.hours.map((hour) => hour.reclaimedMilliCoreSeconds / 3600000),
      labels: data.hours.map((hour) => (hour.start ? new Date(hour.start).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" }) : "")),
      label: "Core-hours of batch work by the hour",
      unit: (value) => value.toLocaleString("en", { maximumFractionDigits: value >= 10 ? 0 : 2 }),
    }) : h("p", { class: "state" }, "There is no full report yet."),
    h("h2", {}, "How is it counted?"),
    h("dl", {},
      h("dt", {}, "Utilisation"), h("dd", {}, "Busy core-seconds over capacity core-seconds of all measured nodes, for 24 hours or as long as was seen."),
      h("dt", {}, "Core-hours done"), h("dd", {}, "CPU time of best-effort pods. A report holds since the one before; silence of more than two minutes counts for nothing."),
      h("dt", {}, "Cores saved"), h("dd", {}, "Core-seconds done, over the time, over 0.70: cores of dedicated machines that would be 70% busy with the same work. Work lost by evictions is not taken off.")),
    command("curl -s localhost:6481/metrics | grep tidepool_"),
  ];
}
