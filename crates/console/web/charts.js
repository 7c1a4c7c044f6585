// Charts as SVG. Colours are classes of the stylesheet; every chart has its numbers as text.
import { svg, h } from "/elements.js";
import { clock, cores } from "/format.js";

const WIDTH = 900;
const LEFT = 44;
const BOTTOM = 22;
const TOP = 14;

// From the bottom: best-effort lies on the axis, where its limit can be compared with it.
export const CLASSES = [
  ["be", "BE"], ["system", "SYSTEM"], ["lse", "LSE"], ["lsr", "LSR"], ["ls", "LS"],
];

function frame(height, label, children) {
  return svg("svg", { viewBox: `0 0 ${WIDTH} ${height}`, class: "chart", role: "img", "aria-label": label },
    svg("title", {}, label), children);
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
    x: (at) => LEFT + ((at - from) / length) * (WIDTH - LEFT - 8),
    y: (value) => TOP + (1 - Math.min(value, top) / top) * (height - TOP - BOTTOM),
  };
}

function grid(scale, from, to, top, height, unit) {
  const lines = [0, 0.25, 0.5, 0.75, 1].map((part) => {
    const y = scale.y(part * top);
    return [
      svg("line", { x1: LEFT, x2: WIDTH - 8, y1: y, y2: y, class: "grid" }),
      svg("text", { x: LEFT - 6, y: y + 4, class: "axis end" }, unit(part * top)),
    ];
  });
  const times = [0, 1 / 3, 2 / 3, 1].map((part) => {
    const at = from + part * (to - from);
    const anchor = part === 0 ? "start" : part === 1 ? "end" : "middle";
    return svg("text", { x: scale.x(at), y: height - 6, class: `axis ${anchor}` }, clock(at));
  });
  return [lines, times];
}

const points = (list) => list.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ");

// Usage by class over time, with the best-effort limit and what happened.
export function stacked({ samples, limits, marks, capacity, threshold }) {
  const height = 280;
  if (samples.length < 2) return null;
  const times = samples.map((sample) => Date.parse(sample.at));
  const [from, to] = [times[0], times[times.length - 1]];
  const sums = samples.map((sample) => CLASSES.reduce((sum, [key]) => sum + sample.used[key], 0));
  const top = Math.max(capacity, ...sums, 1);
  const scale = scales(from, to, top, height);
  let below = samples.map(() => 0);
  const areas = CLASSES.map(([key, name]) => {
    const above = below.map((value, index) => value + samples[index].used[key]);
    const upper = above.map((value, index) => [scale.x(times[index]), scale.y(value)]);
    const lower = below.map((value, index) => [scale.x(times[index]), scale.y(value)]).reverse();
    below = above;
    const label = `${name}: ${cores(samples[samples.length - 1].used[key])} CPUs now`;
    return svg("polygon", { points: points([...upper, ...lower]), class: `area ${key}` }, svg("title", {}, label));
  });
  const line = limitLine(limits, from, to, scale);
  const flags = marks
    .map((mark) => [mark, Date.parse(mark.at)])
    .filter(([, at]) => at >= from && at <= to)
    .map(([mark, at]) => {
      const x = scale.x(at);
      const shape = mark.kind === "evicted"
        ? svg("path", { d: `M${x - 5},2 l10,10 m0,-10 l-10,10`, class: "mark evicted" })
        : svg("path", { d: `M${x - 5},2 h10 l-5,9 z`, class: "mark suppressed" });
      const text = `${clock(at)} ${mark.kind}: ${mark.headline} (${mark.boundBy})`;
      return svg("g", {}, shape, svg("title", {}, text));
    });
  const held = threshold > 0 && svg("line", {
    x1: LEFT, x2: WIDTH - 8, y1: scale.y(threshold), y2: scale.y(threshold), class: "threshold",
  }, svg("title", {}, `best-effort is held back above ${cores(threshold)} CPUs`));
  const label = `CPU by QoS class, ${cores(sums[sums.length - 1])} of ${cores(capacity)} CPUs now`;
  return frame(height, label, [
    grid(scale, from, to, top, height, cores), areas, held, line, flags,
  ]);
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
  const height = 200;
  if (samples.length < 2) return null;
  const times = samples.map((sample) => sample.at);
  const [from, to] = [times[0], times[times.length - 1]];
  const top = ceiling(Math.max(...samples.map((sample) => sample.upper), 10));
  const scale = scales(from, to, top, height);
  const above = samples.map((sample) => [scale.x(sample.at), scale.y(sample.upper)]);
  const below = samples.map((sample) => [scale.x(sample.at), scale.y(sample.lower)]);
  return frame(height, label, [
    grid(scale, from, to, top, height, (value) => `${Math.round(value)}%`),
    svg("polygon", { points: points([...above, ...[...below].reverse()]), class: "area be" }, svg("title", {}, upper)),
    svg("polyline", { points: points(below), class: "line ls" }, svg("title", {}, lower)),
    svg("polyline", { points: points(above), class: "line be" }, svg("title", {}, upper)),
  ]);
}

// One bar for each value.
export function bars({ values, labels, label, unit }) {
  const height = 160;
  const top = ceiling(Math.max(...values, 1));
  const width = (WIDTH - LEFT - 8) / values.length;
  const scale = scales(0, 1, top, height);
  const marks = values.map((value, index) => {
    const x = LEFT + index * width;
    const y = scale.y(value);
    return svg("g", {},
      svg("rect", { x: x + 2, y, width: Math.max(1, width - 4), height: Math.max(0, height - BOTTOM - y), class: "bar" }),
      value > 0 && svg("text", { x: x + width / 2, y: Math.max(10, y - 3), class: "axis middle" }, unit(value)),
      svg("text", { x: x + width / 2, y: height - 6, class: "axis middle" }, labels[index]),
      svg("title", {}, `${labels[index]}: ${unit(value)}`));
  });
  return frame(height, label, [marks]);
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
