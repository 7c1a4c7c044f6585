// Where is the slack?
import { badge, command, h, headline, link, number, pager, table, wide } from "/elements.js";
import { ago, bytes, cores, fixed, percent, plural } from "/format.js";

export const title = () => "Nodes";

export function controls(state, refresh) {
  const asked = new URLSearchParams(location.hash.split("?")[1] ?? "");
  state.question = { sort: "state", state: asked.get("state") ?? "", text: "", page: 0 };
  const change = (key) => (event) => {
    state.question[key] = event.target.value;
    state.question.page = 0;
    refresh();
  };
  const option = (value, text, chosen) => h("option", { value, selected: value === chosen }, text);
  return h("div", { class: "controls" },
    h("label", {}, "Name ", h("input", { type: "search", oninput: change("text") })),
    h("label", {}, "State ", h("select", { onchange: change("state") },
      [["", "any"], ["safe", "safe"], ["held", "held"], ["unsafe", "unsafe"], ["unknown", "unknown"], ["off", "off"]]
        .map(([value, text]) => option(value, text, state.question.state)))),
    h("label", {}, "Order ", h("select", { onchange: change("sort") },
      [["state", "worst first"], ["name", "name"], ["cpu", "CPU in use"], ["memory", "memory in use"], ["batch", "batch in use"]]
        .map(([value, text]) => option(value, text, "state")))));
}

export function url(state) {
  const { sort, state: wanted, text, page } = state.question;
  const question = new URLSearchParams({ sort, text, page });
  if (wanted) question.set("state", wanted);
  return `/api/nodes?${question}`;
}

export function view(data, state, refresh) {
  // The numbers of a safe node say it all.
  const rows = data.rows.map((row) => [
    link(row.name, "nodes", row.name), badge(row.state),
    number(percent(row.used?.milliCpu, row.capacity.milliCpu)), number(cores(row.capacity.milliCpu)),
    number(row.classes ? fixed(row.classes.be) : "–"), number(fixed(row.bestEffortLimit)), number(fixed(row.batchLent)),
    number(percent(row.used?.bytes, row.capacity.bytes)), number(bytes(row.capacity.bytes)),
    number(`${row.bestEffortPods} of ${row.pods}`),
    row.measured ? ago(row.measured) : "never", wide(row.state === "safe" ? "" : row.why),
  ]);
  const turn = (page) => {
    state.question.page = page;
    refresh();
  };
  const whole = data.total === data.all ? plural(data.all, "node") : `${data.total.toLocaleString("en")} of ${plural(data.all, "node")}`;
  return [
    headline("", whole, "How much of each is in use, what best-effort (BE) work uses and may use, and what is lent to batch pods. In CPUs where nothing else is said."),
    table(["Node", "State", number("CPU used"), number("CPUs"), number("BE used"), number("BE limit"), number("Lent"),
      number("Memory used"), number("Memory"), number("BE pods"), "Measured", wide("Why")], rows,
      data.all === 0 ? "There are no nodes yet." : "No node fits the question."),
    pager(data, data.page, turn),
    command("tidepool top -o json"),
  ];
}
