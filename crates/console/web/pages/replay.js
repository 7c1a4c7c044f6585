// What held on this node at a moment of the past?
import { card, command, h, headline, link } from "/elements.js";
import { CLASSES, classLegend, legend, stacked } from "/charts.js";
import { ago, clock, cores, cpus, percent, plural } from "/format.js";
import { why } from "/sum.js";

const PACE = 700;

export const title = (rest) => `Replay of ${rest[0]}`;

export function controls(state, refresh) {
  const asked = new URLSearchParams(location.hash.split("?")[1] ?? "");
  state.at = asked.get("at");
  state.moments = [];
  const go = (index) => {
    const last = state.moments.length - 1;
    const next = Math.min(Math.max(index, 0), last);
    state.at = next >= last ? null : state.moments[next];
    refresh();
  };
  state.place = () => {
    const index = state.at === null ? -1 : state.moments.findLastIndex((one) => Date.parse(one) <= Date.parse(state.at));
    return state.at === null ? state.moments.length - 1 : Math.max(0, index);
  };
  state.slider = h("input", { type: "range", min: "0", max: "0", value: "0", id: "moment", oninput: (event) => {
    halt();
    go(Number(event.target.value));
  } });
  const halt = () => {
    clearInterval(state.timer);
    state.timer = null;
    state.play.textContent = "Play";
  };
  const play = () => {
    if (state.timer) return halt();
    if (state.at === null) go(0);
    state.play.textContent = "Pause";
    state.timer = setInterval(() => {
      if (!state.play.isConnected || state.at === null) return halt();
      go(state.place() + 1);
    }, PACE);
  };
  const step = (label, by) => h("button", { type: "button", onclick: () => {
    halt();
    go(by(state.place()));
  } }, label);
  state.play = h("button", { type: "button", onclick: play }, "Play");
  return h("div", { class: "controls replay" },
    step("First", () => 0), step("Back", (index) => index - 1), state.play,
    step("Forward", (index) => index + 1), step("Now", () => Infinity),
    h("label", { for: "moment", class: "grow" }, "Moment ", state.slider));
}

export const url = (state) =>
  `/api/replay/${encodeURIComponent(state.rest[0])}${state.at === null ? "" : `?${new URLSearchParams({ at: state.at })}`}`;

export function view(data, state) {
  state.moments = data.moments;
  state.slider.max = String(Math.max(0, data.moments.length - 1));
  state.slider.value = String(state.place());
  state.slider.setAttribute("aria-valuetext", clock(data.at));
  const used = data.used ? CLASSES.reduce((sum, [key]) => sum + data.used.used[key], 0) : null;
  const drawn = stacked({
    samples: data.samples, limits: data.limits, marks: data.marks, capacity: data.capacity,
    threshold: (data.capacity * data.thresholds.suppress) / 100, cursor: data.at,
  });
  const said = data.limit === null ? "no limit was known" : `best-effort could use ${cores(data.limit)} of ${cpus(data.capacity)}`;
  return [
    h("p", { class: "crumb" }, link("Decisions", "decisions"), " / ", link(data.node, "nodes", data.node)),
    headline("", data.isNow ? `Now, ${said.replace("could", "may").replace("was", "is")}` : `At ${clock(data.at)}, ${said}`,
      [plural(data.moments.length, "moment"), " at which something was decided", data.moments.length > 0 ? [", the first ", ago(data.moments[0])] : "", "."]),
    h("div", { class: "cards" },
      card(data.isNow ? "CPU in use" : "CPU in use then", percent(used, data.capacity), used === null ? "not measured" : `${cores(used)} of ${cpus(data.capacity)}`),
      card("Best-effort used", data.used ? cpus(data.used.used.be) : "–", data.limit === null ? "no limit was known" : `${data.isNow ? "may" : "could"} use ${cpus(data.limit)}`),
      card("Decided at that moment", String(data.changed), "of what is shown below")),
    h("h2", {}, "CPU by QoS class"),
    drawn ?? h("p", { class: "state" }, "The chart begins with the second report of the agent."),
    drawn && legend([...classLegend(["ls", "lsr", "lse", "system", "be"]), ["limit", "best-effort limit"], ["cursor", "the moment"]]),
    h("h2", {}, "What held, and why"),
    data.decisions.length === 0 ? h("p", { class: "state" }, "Nothing was decided up to that moment.")
      : h("div", { class: "whys" }, data.decisions.map(why)),
    command(`curl -s 'localhost:6481/api/replay/${encodeURIComponent(data.node)}?at=${data.at}'`),
  ];
}
