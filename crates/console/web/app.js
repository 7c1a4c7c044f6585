// Chooses the page, asks for its data, shows it, and keeps it fresh.
import { h } from "/elements.js";
import { listen } from "/live.js";
import { offer } from "/switch.js";
import { ago, clock } from "/format.js";
import * as overview from "/pages/overview.js";
import * as nodes from "/pages/nodes.js";
import * as node from "/pages/node.js";
import * as pods from "/pages/pods.js";
import * as pod from "/pages/pod.js";
import * as decisions from "/pages/decisions.js";
import * as replay from "/pages/replay.js";
import * as config from "/pages/config.js";
import * as benefit from "/pages/benefit.js";

const PAGES = { "": overview, nodes, pods, decisions, config, benefit };
const DETAILS = { nodes: node, pods: pod, decisions: replay };
const STALE = 60000;

const element = (id) => document.getElementById(id);
let current = null;
let serial = 0;
let seen = null;

function route() {
  const parts = location.hash.replace(/^#\/?/, "").split("?")[0].split("/").map(decode);
  const name = parts[0] ?? "";
  const rest = parts.slice(1).filter((part) => part !== "");
  const page = rest.length > 0 ? DETAILS[name] : PAGES[name];
  return { name, page, rest };
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function go() {
  const { name, page, rest } = route();
  const main = element("main");
  for (const one of element("nav").children) {
    if (one.dataset.page === name) one.setAttribute("aria-current", "page");
    else one.removeAttribute("aria-current");
  }
  if (!page) {
    current = null;
    document.title = "Tidepool";
    main.replaceChildren(h("p", { class: "state" }, "There is no such page."));
    return;
  }
  const state = { rest, question: {} };
  const view = h("div", { id: "view" }, h("p", { class: "state", "aria-busy": "true" }, "Loading…"));
  current = { page, state, view };
  const refresh = () => show();
  const controls = page.controls ? page.controls(state, refresh) : null;
  document.title = `${page.title(rest)} · Tidepool`;
  main.replaceChildren(...[controls, view].filter(Boolean));
  show();
}

async function show() {
  if (!current) return;
  const mine = (serial += 1);
  const { page, state, view } = current;
  let answer;
  try {
    const response = await fetch(page.url(state), { headers: { accept: "application/json" } });
    answer = await response.json();
    if (mine !== serial) return;
    if (!response.ok) {
      view.replaceChildren(h("p", { class: "state error" }, answer.error ?? "This cannot be shown."));
      return;
    }
  } catch {
    if (mine === serial) connection("lost");
    return;
  }
  seen = answer.at;
  offer(answer.hasSwitch, state.rest.length > 0 && page === node ? answer.data : null, show);
  notice(answer);
  keepingPlace(view, () => {
    try {
      view.replaceChildren(...[page.view(answer.data, state, show)].flat(9).filter(Boolean));
    } catch (error) {
      view.replaceChildren(h("p", { class: "state error" }, `This page cannot be drawn: ${error.message}`));
    }
  });
}

// What has the focus and what is folded open stays so.
function keepingPlace(view, change) {
  const focus = view.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  const open = new Set([...view.querySelectorAll("details[open]")].map((one) => one.dataset.key));
  const scrolled = new Map([...view.querySelectorAll("[data-scroll]")].map((one) => [one.dataset.scroll, one.scrollTop]));
  change();
  for (const one of view.querySelectorAll("details")) if (open.has(one.dataset.key)) one.open = true;
  for (const one of view.querySelectorAll("[data-scroll]")) one.scrollTop = scrolled.get(one.dataset.scroll) ?? 0;
  if (focus) [...view.querySelectorAll("[data-key]")].find((one) => one.dataset.key === focus)?.focus();
}

const MISSING = {
  nodes: "nodes", pods: "pods", nodeMetrics: "measurements", topologies: "CPU maps", configuration: "the configuration",
};

function notice(answer) {
  const box = element("notice");
  const age = Date.now() - Date.parse(answer.at);
  const missing = answer.missing.map((kind) => MISSING[kind] ?? kind);
  const parts = [];
  if (missing.length > 0) parts.push(h("p", {}, `Still waiting for ${missing.join(", ")}; pages show what is known.`));
  if (answer.version > 0 && age > STALE) parts.push(h("p", {}, "This view is stale: computed ", ago(answer.at), "."));
  box.replaceChildren(...parts);
  box.hidden = parts.length === 0;
}

function connection(state) {
  const live = element("live");
  const since = seen ? `, shown as of ${clock(seen)}` : "";
  live.textContent = state === "live" ? "● live" : `○ connection lost${since}, trying again`;
  live.className = state;
  document.body.classList.toggle("stale", state !== "live");
}

for (const [name, page] of Object.entries(PAGES)) {
  element("nav").append(h("a", { href: `#/${name}`, "data-page": name }, page.title([])));
}
window.addEventListener("hashchange", () => {
  go();
  element("main").focus();
});
go();
listen(show, connection);
