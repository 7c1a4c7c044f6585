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
// As a page shows it: letters that turn the order of others around are written out.
const SHOWN = "<img src=x onerror=alert(1)>\"'&\\u{202e}/../#?%2f";

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

// A dialog covers what is seen of a page, so its picture shows no more than that.
async function picture(page, name, fullPage = true) {
  await page.screenshot({ path: join(pictures, `${name}.png`), fullPage });
}

const small = await serve("small");

await test("every page answers its question at the top", async () => {
  const page = await open(small.url);
  const pages = [
    ["", "overview", /need attention|needs attention|safe/i],
    ["nodes", "nodes", /6 nodes/],
    ["nodes/atlas", "node", /Best-effort may use/],
    ["pods", "pods", /10 pods/],
    ["pods/default/etl", "pod", /uses what others leave/],
    ["decisions", "decisions", /The last \d+ decisions/],
    ["decisions/atlas", "replay", /best-effort may use/],
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
  for (const path of ["benefit", "config", "decisions/atlas"]) {
    await page.goto(`${small.url}/#/${path}`);
    await page.locator("main h1").waitFor({ timeout: 15000 });
    await picture(page, `${path.split("/")[0]}-dark`);
  }
  check(page.wrong.length === 0, page.wrong.join("; "));
});

await test("a narrow screen scrolls nothing but tables", async () => {
  const page = await open(`${small.url}/#/nodes`, { viewport: { width: 390, height: 800 } });
  await says(page, "atlas");
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  check(wide <= 1, `the page is ${wide} px too wide`);
  await picture(page, "nodes-narrow");
  for (const path of ["", "nodes/atlas", "decisions", "decisions/atlas", "config", "benefit"]) {
    await page.goto(`${small.url}/#/${path}`);
    await page.locator("main h1").waitFor({ timeout: 15000 });
    const over = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    check(over <= 1, `${path} is ${over} px too wide`);
  }
  await picture(page, "benefit-narrow");
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

await test("the picture of the README is taken", async () => {
  const page = await open(`${small.url}/#/nodes/atlas`, { viewport: { width: 1180, height: 762 } });
  await says(page, "CPU by QoS class");
  await picture(page, "console-node", false);
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
  check(!(await page.locator("main").textContent()).includes("\u202e"), "a letter turns the order of others around");
  await page.getByRole("link", { name: SHOWN }).click();
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
  await page.getByLabel("Words, node or pod").fill("evicted");
  await page.waitForFunction(() => ![...document.querySelectorAll(".log summary")].some((one) => one.textContent.includes("may use")));
  await says(page, "was evicted");
  await page.getByLabel("Words, node or pod").fill("no such word");
  await says(page, "Nothing fits");
  check(await page.evaluate(() => document.activeElement.tagName) === "INPUT", "the focus stays in the search");
});

await test("the past is replayed, moment by moment", async () => {
  const page = await open(`${small.url}/#/decisions`);
  await page.locator("summary").filter({ hasText: "evicted" }).first().click();
  await page.getByRole("link", { name: "Replay that moment" }).first().click();
  await page.locator("main h1").filter({ hasText: /^At .*best-effort could use/ }).waitFor();
  await says(page, "default/report was evicted", ".whys");
  check(await page.locator(".cursor").count() > 0, "the moment is on the chart");
  await picture(page, "replay-past");
  const headline = () => page.locator("main h1").textContent();
  const before = await headline();
  await page.getByRole("button", { name: "Back" }).click();
  await page.waitForFunction((old) => document.querySelector("main h1").textContent !== old, before);
  const then = await headline();
  await page.waitForTimeout(2500);
  check(await headline() === then, "the past stays while the present goes on");
  await page.getByRole("button", { name: "First" }).click();
  await page.locator("#moment").focus();
  await page.keyboard.press("ArrowRight");
  await page.waitForFunction(() => document.querySelector("#moment").value === "1");
  await page.getByRole("button", { name: "Play" }).click();
  await page.waitForFunction(() => Number(document.querySelector("#moment").value) >= 3);
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByRole("button", { name: "Now" }).click();
  await page.locator("main h1").filter({ hasText: /^Now,/ }).waitFor();
  check(page.wrong.length === 0, page.wrong.join("; "));
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
  await picture(page, "switch-refused", false);
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
  await picture(page, "switch", false);
  await page.getByRole("button", { name: "Switch off", exact: true }).dblclick();
  await page.locator(".said.done").filter({ hasText: "1 node switched off." }).waitFor();
  check(presses === 1, `a double click sent ${presses} requests`);
  await page.getByRole("button", { name: "Close" }).click();
  await page.locator(".badge.off").first().waitFor({ timeout: 15000 });
  await picture(page, "node-off");
  await page.goto(`${small.url}/#/`);
  await says(page, "Lent to batch");
  await ask(page, "showcase");
  await page.getByRole("button", { name: "Switch off", exact: true }).click();
  await page.locator(".said").filter({ hasText: "1 node was off already" }).waitFor({ timeout: 15000 });
  await picture(page, "switch-done", false);
  await page.getByRole("button", { name: /Close|Cancel/ }).click();
  await page.goto(`${small.url}/#/nodes/boreas`);
  await page.locator("#switch").filter({ hasText: "Switch co-location on" }).click();
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
  await picture(page, "nodes-large", false);
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
