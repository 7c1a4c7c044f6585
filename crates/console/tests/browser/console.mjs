// The console in a browser: every page, the off switch, ten thousand nodes, hostile names.
//
// Run by `cargo xtask browser`, which says where things are:
//   TIDEPOOL_SHOWCASE      the server with a made-up cluster
//   TIDEPOOL_PLAYWRIGHT    the folder in which playwright-core is installed
//   TIDEPOOL_CHROMIUM      the browser
//   TIDEPOOL_SCREENSHOTS   where pictures go
// Prints one line for each test, `ok NAME` or `failed NAME: why`.
import { spawn } from "node:child_process";
import { mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";

const env = (name) => {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set`);
  return value;
};
const { chromium } = createRequire(join(env("TIDEPOOL_PLAYWRIGHT"), "here.js"))("playwright-core");
const pictures = env("TIDEPOOL_SCREENSHOTS");
mkdirSync(pictures, { recursive: true });
const HOSTILE = "<img src=x onerror=alert(1)>\"'&\u202e/../#?%2f";

async function serve(what, port = "0") {
  const child = spawn(env("TIDEPOOL_SHOWCASE"), [String(port), what], { stdio: ["pipe", "pipe", "inherit"] });
  const lines = createInterface({ input: child.stdout });
  const url = await new Promise((resolve, reject) => {
    lines.once("line", resolve);
    child.once("exit", (code) => reject(new Error(`showcase ended with ${code}`)));
  });
  const stop = () => new Promise((resolve) => {
    child.once("exit", resolve);
    child.stdin.end();
    setTimeout(() => child.kill("SIGKILL"), 3000).unref();
  });
  return { url, port: new URL(url).port, stop };
}

const browser = await chromium.launch({
  executablePath: env("TIDEPOOL_CHROMIUM"),
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
});
let failures = 0;

async function open(url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  page.wrong = [];
  page.on("pageerror", (error) => page.wrong.push(`error: ${error.message}`));
  page.on("dialog", (dialog) => {
    page.wrong.push(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on("console", (message) => {
    const text = message.text();
    if (message.type() === "error" && !text.includes("Failed to load resource") && !text.includes("net::ERR")) page.wrong.push(`console: ${text}`);
  });
  page.sent = [];
  page.on("request", (request) => page.sent.push(request.url()));
  await page.goto(url);
  return page;
}

async function test(name, run) {
  try {
    await run();
    console.log(`ok ${name}`);
  } catch (error) {
    failures += 1;
    console.log(`failed ${name}: ${String(error.message).split("\n")[0]}`);
  }
}

function check(condition, text) {
  if (!condition) throw new Error(text);
}

async function says(page, text, selector = "main") {
  await page.locator(selector).getByText(text).first().waitFor({ timeout: 15000 });
}

async function picture(page, name) {
  await page.screenshot({ path: join(pictures, `${name}.png`), fullPage: true });
}

const small = await serve("small");

await test("every page answers its question at the top", async () => {
  const page = await open(small.url);
  const pages = [
    ["", "overview", /need attention|needs attention|safe/i],
    ["nodes", "nodes", /4 nodes/],
    ["nodes/atlas", "node", /Best-effort may use/],
    ["pods", "pods", /6 pods/],
    ["pods/default/etl", "pod", /uses what others leave/],
    ["decisions", "decisions", /The last \d+ decisions/],
    ["config", "config", /Part of the configuration is refused|in force/],
    ["benefit", "benefit", /core-hours of batch work done/],
  ];
  for (const [path, name, text] of pages) {
    await page.goto(`${small.url}/#/${path}`);
    await page.locator("main h1").filter({ hasText: text }).waitFor({ timeout: 15000 });
    await picture(page, name);
  }
  check(page.wrong.length === 0, page.wrong.join("; "));
});

await test("dark pages are as complete as light ones", async () => {
  const page = await open(`${small.url}/#/nodes/atlas`, { colorScheme: "dark" });
  await says(page, "CPU by QoS class");
  await picture(page, "node-dark");
  await page.goto(`${small.url}/#/`);
  await says(page, "Lent to batch");
  await picture(page, "overview-dark");
  check(page.wrong.length === 0, page.wrong.join("; "));
});

await test("a narrow screen scrolls nothing but tables", async () => {
  const page = await open(`${small.url}/#/nodes`, { viewport: { width: 390, height: 800 } });
  await says(page, "atlas");
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  check(wide <= 1, `the page is ${wide} px too wide`);
  await picture(page, "nodes-narrow");
});

await test("the chart has areas, a limit and marks with reasons", async () => {
  const page = await open(`${small.url}/#/nodes/atlas`);
  await says(page, "CPU by QoS class");
  for (const selector of [".area.be", ".area.ls", ".limit", ".mark.suppressed", ".cpu.lse", ".cpu.lends"]) {
    check(await page.locator(selector).count() > 0, `${selector} is missing`);
  }
  const why = await page.locator(".mark.suppressed + title").first().textContent();
  check(why.includes("threshold"), why);
  await page.getByText(/What happened to best-effort/).click();
  await says(page, "suppressed", "main td");
});

await test("pages are reached by keyboard alone", async () => {
  const page = await open(small.url);
  await says(page, "Lent to batch");
  await page.keyboard.press("Tab");
  check(await page.evaluate(() => document.activeElement.className) === "skip", "the first stop skips the head");
  for (let stop = 0; stop < 3; stop += 1) await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.locator("main h1").filter({ hasText: "nodes" }).waitFor();
  const outline = await page.evaluate(() => getComputedStyle(document.querySelector("nav a")).outlineStyle);
  check(outline !== undefined, "focus is drawn");
});

await test("views go on by themselves, and keep focus and folds", async () => {
  const page = await open(`${small.url}/#/nodes/atlas`);
  await says(page, "CPU by QoS class");
  await page.locator("summary").first().click();
  await page.locator("summary").first().focus();
  const before = await page.locator("#view svg").first().innerHTML();
  await page.waitForFunction((old) => document.querySelector("#view svg").innerHTML !== old, before, { timeout: 15000 });
  check(await page.locator("details").first().getAttribute("open") !== null, "the fold stays open");
  check(await page.evaluate(() => document.activeElement.tagName) === "SUMMARY", "the focus stays");
});

await test("hostile names are text and nothing else", async () => {
  const page = await open(`${small.url}/#/nodes`);
  await page.getByRole("link", { name: HOSTILE }).click();
  await page.locator(".crumb").filter({ hasText: "onerror" }).waitFor();
  check(await page.locator("img").count() === 0, "a name became an element");
  await picture(page, "hostile");
  await page.goto(`${small.url}/#/decisions`);
  await page.locator("summary").filter({ hasText: "evicted" }).first().click();
  await says(page, "onerror");
  check(page.wrong.length === 0, page.wrong.join("; "));
});

await test("decisions can be searched", async () => {
  const page = await open(`${small.url}/#/decisions`);
  await says(page, "best-effort may use");
  await page.getByLabel("Words").fill("evicted");
  await page.waitForFunction(() => ![...document.querySelectorAll(".log summary")].some((one) => one.textContent.includes("may use")));
  await says(page, "was evicted");
  await page.getByLabel("Words").fill("no such word");
  await says(page, "Nothing fits");
  check(await page.evaluate(() => document.activeElement.tagName) === "INPUT", "the focus stays in the search");
});

async function ask(page, token) {
  await page.locator("#switch").click();
  await page.getByLabel("Token").fill(token);
}

await test("a wrong token changes nothing and says so", async () => {
  const page = await open(`${small.url}/#/nodes/boreas`);
  await says(page, "No best-effort work runs here");
  await ask(page, "wrong-secret");
  await page.getByRole("button", { name: "Switch off", exact: true }).click();
  await page.locator(".said.error").filter({ hasText: "not accepted" }).waitFor();
  await picture(page, "switch-refused");
  await page.getByRole("button", { name: "Cancel" }).click();
  check(await page.locator(".badge.off").count() === 0, "the node went off");
  check(!page.sent.some((url) => url.includes("secret")), "the token was in an address");
  const kept = await page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }) + document.cookie);
  check(!kept.includes("secret"), "the token was kept");
});

await test("a lost connection while switching is told as it is", async () => {
  const page = await open(`${small.url}/#/nodes/boreas`);
  await says(page, "No best-effort work runs here");
  await page.route("**/api/switch", (route) => route.abort());
  await ask(page, "showcase");
  await page.getByRole("button", { name: "Switch off", exact: true }).click();
  await page.locator(".said.error").filter({ hasText: "not known" }).waitFor();
  check(await page.getByRole("button", { name: "Switch off", exact: true }).isEnabled(), "it can be tried again");
});

await test("the switch works, and twice is harmless", async () => {
  const page = await open(`${small.url}/#/nodes/boreas`);
  await says(page, "No best-effort work runs here");
  let presses = 0;
  page.on("request", (request) => { if (request.url().endsWith("/api/switch")) presses += 1; });
  await ask(page, "showcase");
  await picture(page, "switch");
  await page.getByRole("button", { name: "Switch off", exact: true }).dblclick();
  await page.locator(".said.done").filter({ hasText: "1 node switched off." }).waitFor();
  check(presses === 1, `a double click sent ${presses} requests`);
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.locator(".badge.off").first().waitFor({ timeout: 15000 });
  await picture(page, "node-off");
  await page.goto(`${small.url}/#/`);
  await says(page, "Lent to batch");
  await ask(page, "showcase");
  await page.getByRole("button", { name: "Switch off", exact: true }).click();
  await page.locator(".said").filter({ hasText: "1 node was off already" }).waitFor({ timeout: 15000 });
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.goto(`${small.url}/#/nodes/boreas`);
  await page.locator("#switch").filter({ hasText: "Switch on" }).click();
  await page.getByLabel("Token").fill("showcase");
  await page.getByRole("button", { name: "Switch on", exact: true }).click();
  await page.locator(".said.done").waitFor();
});

await test("a page that loses its server says so and comes back", async () => {
  const one = await serve("small");
  const page = await open(`${one.url}/#/nodes`);
  await says(page, "atlas");
  await one.stop();
  await page.locator("#live.lost").waitFor({ timeout: 20000 });
  await says(page, "atlas");
  await picture(page, "lost");
  const again = await serve("small", one.port);
  await page.locator("#live.live").waitFor({ timeout: 40000 });
  check(page.wrong.length === 0, page.wrong.join("; "));
  await again.stop();
});
await small.stop();

await test("an empty cluster is a page, too", async () => {
  const empty = await serve("empty");
  const page = await open(empty.url);
  await says(page, "There are no nodes yet");
  await says(page, /Still waiting for/, "body");
  await picture(page, "empty");
  for (const [path, text] of [["nodes", "There are no nodes yet"], ["pods", "No pods run yet"], ["decisions", "No decisions"], ["config", "Nothing is configured"], ["benefit", "Nothing is accounted yet"], ["nodes/none", "there is no such node"], ["nonsense", "There is no such page"]]) {
    await page.goto(`${empty.url}/#/${path}`);
    await says(page, text);
  }
  check(page.wrong.length === 0, page.wrong.join("; "));
  await empty.stop();
});

await test("ten thousand nodes do not choke a page", async () => {
  const large = await serve("large");
  const page = await open(large.url);
  await says(page, "Lent to batch");
  await picture(page, "overview-large");
  const start = Date.now();
  await page.goto(`${large.url}/#/nodes`);
  await says(page, "10,000 nodes");
  check(Date.now() - start < 10000, `it took ${Date.now() - start} ms`);
  check(await page.locator("tbody tr").count() === 100, "one page of rows");
  await picture(page, "nodes-large");
  await page.getByRole("button", { name: "Next" }).click();
  await says(page, "page 2 of 100");
  await page.getByRole("searchbox").fill("node-09999");
  await page.locator("tbody tr").nth(1).waitFor({ state: "detached" });
  await says(page, "node-09999");
  check(page.wrong.length === 0, page.wrong.join("; "));
  await large.stop();
});

await browser.close();
process.exit(failures === 0 ? 0 : 1);
