// Charts as SVG. Colours are classes of the stylesheet; every chart has its numbers as text.
import { svg, h } from "/elements.js";
import { clock, cores } from "/format.js";

const WIDTH = 900;
const LEFT = 58;
const RIGHT = 14;
const BOTTOM = 22;
const TOP = 18;

// From the bottom: best-effort lies on the axis, where its limit can be compared with it.
export const CLASSES = [
  ["be", "BE"], ["system", "SYSTEM"], ["lse", "LSE"], ["lsr", "LSR"], ["ls", "LS"],
];

// What the classes mean, for those who see them first.
export const MEANING = {
  lse: "LSE: CPUs of its own, for nobody else",
  lsr: "LSR: CPUs of its own, idle time is lent",
  ls: "LS: latency-sensitive, shares CPUs",
  be: "BE: best-effort, what others leave",
  system: "SYSTEM: daemons and the rest",
};

function frame(height, label, children) {
  return h("div", { class: "figure" },
    svg("svg", { viewBox: `0 0 ${WIDTH} ${height}`, class: "chart", role: "img", "aria-label": label },
      svg("title", {}, label), children));
}

// A round number at or above the largest value.
function ceiling(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 6, 8, 10].map((step) => step * power).find((step) => step >= value);
}

function scales(from, to, top, height) {
  const length = Math.max(1, to - from);
  return {
    x: (at) => LEFT + ((at - from) / length) * (WIDTH - LEFT - RIGHT),
    y: (value) => TOP + (1 - Math.min(value, top) / top) * (height - TOP - BOTTOM),
  };
}

// Lines across, each with its value; the topmost says in what.
function levels(scale, top, unit, name) {
  return [0, 0.25, 0.5, 0.75, 1].map((part) => {
    const y = scale.y(part * top);
    return [
      svg("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y, y2: y, class: "grid" }),
      svg("text", { x: LEFT - 6, y: y + 4, class: "axis end" }, `${unit(part * top)}${part === 1 ? name : ""}`),
    ];
  });
}

function times(scale, from, to, height) {
  return [0, 1 / 3, 2 / 3, 1].map((part) => {
    const at = from + part * (to - from);
    const anchor = part === 0 ? "start" : part === 1 ? "end" : "middle";
    return svg("text", { x: scale.x(at), y: height - 6, class: `axis ${anchor}` }, clock(at, to - from));
  });
}

const points = (list) => list.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ");

// Usage by class over time, with the best-effort limit and what happened; `cursor` is a moment.
export function stacked({ samples, limits, marks, capacity, threshold, cursor }) {
  const height = 280;
  if (samples.length < 2) return null;
  const moments = samples.map((sample) => Date.parse(sample.at));
  const [from, to] = [moments[0], moments[moments.length - 1]];
  const sums = samples.map((sample) => CLASSES.reduce((sum, [key]) => sum + sample.used[key], 0));
  const top = Math.max(capacity, ...sums, 1);
  const scale = scales(from, to, top, height);
  let below = samples.map(() => 0);
  const areas = CLASSES.map(([key, name]) => {
    const above = below.map((value, index) => value + samples[index].used[key]);
    const upper = above.map((value, index) => [scale.x(moments[index]), scale.y(value)]);
    const lower = below.map((value, index) => [scale.x(moments[index]), scale.y(value)]).reverse();
    below = above;
    const label = `${name}: ${cores(samples[samples.length - 1].used[key])} CPUs now`;
    return svg("polygon", { points: points([...upper, ...lower]), class: `area ${key}` }, svg("title", {}, label));
  });
  const across = (value, kind, text) => svg("line", {
    x1: LEFT, x2: WIDTH - RIGHT, y1: scale.y(value), y2: scale.y(value), class: kind,
  }, svg("title", {}, text));
  const at = cursor === undefined ? null : Math.min(Math.max(Date.parse(cursor), from), to);
  const label = `CPU by QoS class, ${cores(sums[sums.length - 1])} of ${cores(capacity)} CPUs now`;
  return frame(height, label, [
    levels(scale, top, cores, " CPUs"), times(scale, from, to, height), areas,
    threshold > 0 && across(threshold, "threshold", `best-effort is held back above ${cores(threshold)} CPUs`),
    limitLine(limits, from, to, scale), flags(marks, from, to, scale),
    at !== null && svg("line", { x1: scale.x(at), x2: scale.x(at), y1: TOP - 6, y2: height - BOTTOM, class: "cursor" }),
  ]);
}

// Marks of one kind that would lie on each other are drawn as one.
function flags(marks, from, to, scale) {
  const drawn = [];
  const last = {};
  const inside = marks.map((mark) => [mark, Date.parse(mark.at)]).filter(([, at]) => at >= from && at <= to);
  for (const [mark, at] of inside.sort((a, b) => a[1] - b[1])) {
    const x = scale.x(at);
    const text = `${clock(at)} ${mark.kind}: ${mark.headline} (${mark.boundBy})`;
    const before = last[mark.kind];
    if (before && x - before.x < 9) before.texts.push(text);
    else drawn.push((last[mark.kind] = { kind: mark.kind, x, texts: [text] }));
  }
  return drawn.map(({ kind, x, texts }) => {
    const shape = kind === "evicted" ? `M${x - 5},3 l10,10 m0,-10 l-10,10` : `M${x - 5},3 h10 l-5,9 z`;
    const more = texts.length > 4 ? [`and ${texts.length - 4} more`] : [];
    return svg("g", {}, svg("path", { d: shape, class: `mark ${kind}` }),
      svg("title", {}, [...texts.slice(0, 4), ...more].join("\n")));
  });
}

function limitLine(limits, from, to, scale) {
  if (limits.length === 0) return null;
  const steps = [];
  let value = null;
  for (const limit of limits) {
    const at = Math.min(Math.max(Date.parse(limit.at), from), to);
    if (value !== null) steps.push([scale.x(at), scale.y(value)]);
    value = limit.milliCpu;
    steps.push([scale.x(at), scale.y(value)]);
  }
  steps.push([scale.x(to), scale.y(value)]);
  const label = `best-effort may use ${cores(value)} CPUs`;
  return svg("polyline", { points: points(steps), class: "limit" }, svg("title", {}, label));
}

// Two lines in percent, and the gap between them.
export function gap({ samples, label, upper, lower }) {
  const height = 220;
  if (samples.length < 2) return null;
  const [from, to] = [samples[0].at, samples[samples.length - 1].at];
  const top = Math.min(100, ceiling(Math.max(...samples.map((sample) => sample.upper), 10)));
  const scale = scales(from, to, top, height);
  const above = samples.map((sample) => [scale.x(sample.at), scale.y(sample.upper)]);
  const below = samples.map((sample) => [scale.x(sample.at), scale.y(sample.lower)]);
  return frame(height, label, [
    levels(scale, top, (value) => `${Math.round(value)}%`, ""), times(scale, from, to, height),
    svg("polygon", { points: points([...above, ...[...below].reverse()]), class: "area be" }, svg("title", {}, upper)),
    svg("polyline", { points: points(below), class: "line ls" }, svg("title", {}, lower)),
    svg("polyline", { points: points(above), class: "line be" }, svg("title", {}, upper)),
  ]);
}

// The same for things that are counted: every line across is a whole number.
function count(value) {
  const power = 10 ** Math.max(0, Math.floor(Math.log10(value / 2 || 1)));
  return [4, 8, 12, 20].map((step) => step * power).find((step) => step >= value);
}

// One bar for each value; `kind` is its colour.
export function bars({ values, labels, label, unit, name = "", kind = "", isCount = false }) {
  const height = 180;
  const top = (isCount ? count : ceiling)(Math.max(...values));
  const width = (WIDTH - LEFT - RIGHT) / values.length;
  const scale = scales(0, 1, top, height);
  const marks = values.map((value, index) => {
    const x = LEFT + index * width;
    const y = scale.y(value);
    return svg("g", {},
      svg("rect", { x: x + 2, y, width: Math.max(1, width - 4), height: Math.max(0, height - BOTTOM - y), class: `bar ${kind}` }),
      value > 0 && svg("text", { x: x + width / 2, y: Math.max(12, y - 4), class: "axis middle count" }, unit(value)),
      svg("text", { x: x + width / 2, y: height - 6, class: "axis middle" }, labels[index]),
      svg("title", {}, `${labels[index]}: ${unit(value)}${name}`));
  });
  return frame(height, label, [levels(scale, top, unit, ""), marks]);
}

// Who owns each logical CPU.
export function cpuMap(map) {
  return h("div", { class: "sockets" }, map.sockets.map((socket) =>
    h("section", { class: "socket" }, h("h3", {}, `Socket ${socket.id}`), socket.numas.map((numa) =>
      h("div", { class: "numa" }, h("h4", {}, `NUMA node ${numa.id}`),
        h("div", { class: "cores" }, numa.cores.map((core) =>
          h("div", { class: "core", title: `core ${core.id}` }, core.cpus.map(cpu)))))))));
}

function cpu(one) {
  const beside = one.lends ? ", best-effort work may run beside" : "";
  const pod = one.pod ? `, bound to ${one.pod}` : "";
  const label = `CPU ${one.id}: ${one.owner}${pod}${beside}`;
  return h("span", { class: `cpu ${one.owner.toLowerCase()}${one.lends ? " lends" : ""}`, title: label, "aria-label": label, role: "img" }, one.id);
}

export function legend(entries) {
  return h("ul", { class: "legend" }, entries.map(([kind, text]) =>
    h("li", {}, h("span", { class: `key ${kind}`, "aria-hidden": "true" }), text)));
}

// The classes from the top of the stack to its bottom.
export const classLegend = (order) => order.map((key) => [key, MEANING[key]]);
