// The off switch: asks, takes the token, sends it once, forgets it.
import { h } from "/elements.js";
import { plural } from "/format.js";

const element = (id) => document.getElementById(id);
let scope = null;
let after = () => {};

// Shows the button; on a node's page it is about that node.
export function offer(exists, node, refresh) {
  scope = node;
  after = refresh;
  const button = element("switch");
  button.hidden = !exists;
  const isOff = node?.state === "off";
  button.textContent = `Switch co-location ${isOff ? "on" : "off"}…`;
  button.onclick = () => ask(node ? node.name : null, !isOff);
}

function ask(node, off) {
  const dialog = element("dialog");
  const what = node === null ? "on all nodes" : `on node ${node}`;
  const token = h("input", { type: "password", id: "token", autocomplete: "off", spellcheck: "false", required: true });
  const said = h("p", { role: "alert", class: "said" });
  const confirm = h("button", { type: "submit", class: off ? "danger" : "" }, off ? "Switch off" : "Switch on");
  const form = h("form", { method: "dialog", onsubmit: (event) => {
    event.preventDefault();
    press(node, off, token, confirm, said);
  } },
    h("h2", { id: "dialog-title" }, `Switch co-location ${off ? "off" : "on"} ${what}?`),
    h("p", {}, off
      ? "Agents take back every change and stop acting. Pods go on running; best-effort work is no longer held back. Nothing is deleted."
      : "Agents act again as the configuration says."),
    h("label", { for: "token" }, "Token"), token,
    h("p", { class: "note" }, "A token that may change nodes. It is sent once, and not kept. With tidepool up: ",
      h("code", {}, "kubectl config view --raw -o jsonpath='{.users[0].user.token}'")),
    said,
    h("div", { class: "buttons" },
      h("button", { type: "button", id: "close", onclick: () => dialog.close() }, "Cancel"), confirm));
  dialog.replaceChildren(form);
  dialog.showModal();
  token.focus();
}

async function press(node, off, token, confirm, said) {
  if (confirm.disabled) return;
  confirm.disabled = true;
  said.className = "said";
  said.textContent = "Working…";
  try {
    const response = await fetch("/api/switch", {
      method: "POST",
      headers: {
        authorization: `Bearer ${token.value.trim()}`,
        "content-type": "application/json",
        "x-tidepool-console": "switch",
      },
      body: JSON.stringify(node === null ? { off } : { node, off }),
    });
    const answer = await response.json().catch(() => ({}));
    if (response.ok) {
      token.value = "";
      result(answer, said);
      confirm.hidden = true;
      element("close").textContent = "Close";
      after();
      return;
    }
    said.className = "said error";
    said.textContent = response.status === 401 ? "The token is not accepted. Nothing was changed."
      : response.status === 403 ? "This token may not change nodes. Nothing was changed."
      : `${answer.error ?? "That did not work"} Nothing was changed.`;
  } catch {
    said.className = "said error";
    said.textContent = "The connection was lost. It is not known whether the switch was pressed; pressing it again is harmless.";
  }
  confirm.disabled = false;
}

function result(answer, said) {
  const word = answer.off ? "off" : "on";
  const parts = [`${plural(answer.changed, "node")} switched ${word}.`];
  if (answer.already > 0) parts.push(`${plural(answer.already, "node")} ${answer.already === 1 ? "was" : "were"} ${word} already.`);
  if (answer.failed > 0) {
    parts.push(`${plural(answer.failed, "node")} could not be told: ${answer.failures.map((one) => `${one.node}: ${one.error}`).join("; ")}`);
    said.className = "said error";
  } else {
    said.className = "said done";
  }
  said.replaceChildren(h("span", {}, parts.join(" ")));
}
