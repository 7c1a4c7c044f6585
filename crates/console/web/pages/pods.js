// Who runs, and as what?
import { command, h, headline, link, number, pager, qos, table } from "/elements.js";
import { age, bytesFixed, fixed, plural, some } from "/format.js";
import { podLink } from "/pages/node.js";

export const title = () => "Pods";

export function controls(state, refresh) {
  state.question = { text: "", class: "", page: 0 };
  const change = (key) => (event) => {
    state.question[key] = event.target.value;
    state.question.page = 0;
    refresh();
  };
  return h("div", { class: "controls" },
    h("label", {}, "Pod or node ", h("input", { type: "search", oninput: change("text") })),
    h("label", {}, "Class ", h("select", { onchange: change("class") },
      ["", "LSE", "LSR", "LS", "BE", "SYSTEM"].map((value) => h("option", { value }, value || "any")))));
}

export const url = (state) => `/api/pods?${new URLSearchParams(state.question)}`;

export function view(data, state, refresh) {
  const turn = (page) => {
    state.question.page = page;
    refresh();
  };
  return [
    headline("", data.total === data.all ? plural(data.all, "pod") : `${data.total.toLocaleString("en")} of ${plural(data.all, "pod")}`, "The busiest first."),
    table(["Pod", "Class", "Priority", "Node", "Phase", number("CPUs used"), number("CPUs requested"), number("Batch CPUs requested"), number("Memory used"), number("Age")],
      data.rows.map((pod) => [
        podLink(pod.key), qos(pod.qos), pod.priority, link(pod.node, "nodes", pod.node), pod.phase,
        number(fixed(pod.used?.milliCpu)), number(some(pod.requested.milliCpu)),
        number(some(pod.batchRequested.milliCpu)), number(bytesFixed(pod.used?.bytes)), number(age(pod.created)),
      ]), data.all === 0 ? "No pods run yet." : "No pod fits the question."),
    pager(data, data.page, turn),
    command("tidepool top pods -o json"),
  ];
}
