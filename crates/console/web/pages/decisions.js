// What did agents decide, and why?
import { command, h, headline, link } from "/elements.js";
import { ago, plural } from "/format.js";
import { outcome, sum } from "/sum.js";

export const title = () => "Decisions";

const STEP = 50;

export function controls(state, refresh) {
  state.shown = STEP;
  state.question = { strategy: "", text: "" };
  const change = (key) => (event) => {
    state.question[key] = event.target.value.trim();
    refresh();
  };
  state.strategies = h("select", { onchange: change("strategy") }, h("option", { value: "" }, "any"));
  return h("div", { class: "controls" },
    h("label", {}, "Words, node or pod ", h("input", { type: "search", oninput: change("text") })),
    h("label", {}, "Strategy ", state.strategies));
}

export const url = (state) => `/api/decisions?${new URLSearchParams(state.question)}`;

export function view(data, state, refresh) {
  const known = new Set([...state.strategies.options].map((option) => option.value));
  for (const strategy of data.strategies) if (!known.has(strategy)) state.strategies.append(h("option", { value: strategy }, strategy));
  const text = data.entries.length > 0 ? `The last ${plural(data.entries.length, "decision")}` : "No decisions";
  const note = data.agents === 0 ? "No agent tells of its decisions." : `Told by ${plural(data.agents, "agent")}, the newest first.`;
  const nodes = [...new Set(data.entries.map((entry) => entry.node))].slice(0, 8);
  return [
    headline("", text, note),
    nodes.length > 0 && h("p", { class: "replays" }, "Replay, moment by moment: ", nodes.map((node) => [link(node, "decisions", node), " "])),
    data.entries.length === 0
      ? h("p", { class: "state" }, data.agents === 0 ? "Agents serve their decisions where they serve metrics; none is reached from here." : "Nothing fits, or nothing had to be decided yet.")
      : h("div", { class: "log" }, data.entries.slice(0, state.shown).map(entry)),
    data.entries.length > state.shown && h("p", {}, h("button", { type: "button", "data-key": "more", onclick: () => {
      state.shown += STEP;
      refresh();
    } }, `Show older ones (${data.entries.length - state.shown})`)),
    command("tidepool explain node NODE cpu -o json"),
  ];
}

function entry(one) {
  const key = `${one.node} ${one.strategy} ${one.about} ${one.resource} ${one.since}`;
  const place = `${link("", "decisions", one.node).getAttribute("href")}?at=${encodeURIComponent(one.since)}`;
  return h("details", { "data-key": key },
    h("summary", { "data-key": `${key} summary` }, h("span", { class: "line" },
      ago(one.since), h("span", { class: "strategy" }, one.strategy), outcome(one, "strong"),
      h("span", { class: "note" }, one.node))),
    h("p", {}, "Bound by ", h("strong", {}, one.boundBy), ". ", link(`Node ${one.node}`, "nodes", one.node), " · ",
      h("a", { href: place, "data-key": `${key} replay` }, "Replay that moment")),
    sum(one));
}
