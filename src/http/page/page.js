// The page of a server: a chat through /v1/chat/completions, and the state from /v1/swarm. Texts of
// the model are set as text, never as HTML.
"use strict";

const $ = (id) => document.getElementById(id);
const POLL_MS = 1000;
const SPEEDS = 120;

let messages = []; // {role, content}
let running = null; // AbortController of the answer under way
let modelName = "";
const speeds = [];

function headers() {
  const key = $("key").value.trim();
  return key ? { "Content-Type": "application/json", Authorization: "Bearer " + key } : { "Content-Type": "application/json" };
}

function element(name, text, className) {
  const e = document.createElement(name);
  if (text !== undefined) e.textContent = text;
  if (className) e.className = className;
  return e;
}

// ---- the conversation

function showMistake(text) {
  $("mistake").textContent = text;
  $("mistake").hidden = !text;
}

function button(label, action) {
  const b = element("button", label);
  b.type = "button";
  b.addEventListener("click", action);
  return b;
}

function messageItem(message, index) {
  const item = element("li", undefined, message.role);
  item.append(element("div", message.role === "user" ? "You" : "Model", "role"), element("div", message.content, "text"));
  const foot = element("div", message.note || "", "foot");
  if (message.role === "user") foot.append(button("Edit", () => edit(index)));
  if (message.role === "assistant" && index === messages.length - 1) foot.append(button("Again", again));
  item.append(foot);
  return item;
}

function showMessages() {
  $("messages").replaceChildren(...messages.map(messageItem));
  $("messages").scrollTop = $("messages").scrollHeight;
}

function showLast() {
  const last = messages[messages.length - 1];
  const item = $("messages").lastElementChild;
  const atEnd = $("messages").scrollHeight - $("messages").scrollTop - $("messages").clientHeight < 80;
  item.querySelector(".text").textContent = last.content;
  if (atEnd) $("messages").scrollTop = $("messages").scrollHeight;
}

// The question returns to its field, and the conversation ends before it.
function edit(index) {
  if (running) running.abort();
  $("question").value = messages[index].content;
  messages = messages.slice(0, index);
  showMessages();
  $("question").focus();
}

function again() {
  if (running) return;
  messages.pop();
  answer();
}

function setRunning(controller) {
  running = controller;
  $("stop").hidden = !controller;
  $("send").hidden = !!controller;
  $("messages").setAttribute("aria-busy", controller ? "true" : "false");
}

function request() {
  const system = $("system").value.trim();
  const body = {
    model: modelName,
    messages: (system ? [{ role: "system", content: system }] : []).concat(messages.map(({ role, content }) => ({ role, content }))),
    stream: true,
    stream_options: { include_usage: true },
  };
  if ($("temperature").value !== "") body.temperature = Number($("temperature").value);
  if ($("most").value !== "") body.max_completion_tokens = Number($("most").value);
  return body;
}

async function failure(response) {
  try {
    return (await response.json()).error.message;
  } catch (e) {
    return "the server answered with status " + response.status;
  }
}

// Calls `each` with the data of every event.
async function readEvents(response, each) {
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const events = (rest + decoder.decode(value, { stream: true })).split("\n\n");
    rest = events.pop();
    for (const event of events) if (event.startsWith("data: ") && event !== "data: [DONE]") each(JSON.parse(event.slice(6)));
  }
}

async function receive(controller, reply) {
  const began = performance.now();
  const response = await fetch("/v1/chat/completions", {
    method: "POST",
    headers: headers(),
    body: JSON.stringify(request()),
    signal: controller.signal,
  });
  if (!response.ok) throw new Error(await failure(response));
  messages.push(reply);
  showMessages();
  await readEvents(response, (data) => {
    if (data.error) throw new Error(data.error.message);
    const choice = data.choices[0];
    if (choice && choice.delta.content) {
      if (!reply.first) reply.first = performance.now();
      reply.content += choice.delta.content;
      showLast();
    }
    if (choice && choice.finish_reason === "length") reply.cut = true;
    if (data.usage) reply.usage = data.usage;
  });
  note(reply, began);
}

function note(reply, began) {
  const seconds = (performance.now() - (reply.first || began)) / 1000;
  const parts = [];
  if (reply.usage) {
    parts.push(reply.usage.completion_tokens + " tokens");
    if (seconds > 0.05) parts.push((reply.usage.completion_tokens / seconds).toFixed(1) + " a second");
  }
  if (reply.first) parts.push("first after " + ((reply.first - began) / 1000).toFixed(2) + " s");
  if (reply.cut) parts.push("ended by a limit");
  reply.note = parts.join(", ");
}

async function answer() {
  const controller = new AbortController();
  const reply = { role: "assistant", content: "" };
  showMistake("");
  setRunning(controller);
  $("said").textContent = "The model writes.";
  try {
    await receive(controller, reply);
    $("said").textContent = "Model: " + reply.content;
  } catch (e) {
    if (e.name !== "AbortError") showMistake(e.message);
    else reply.note = "stopped";
    $("said").textContent = "";
  }
  if (running === controller) setRunning(null);
  showMessages();
}

function ask(event) {
  event.preventDefault();
  const text = $("question").value.trim();
  if (!text || running) return;
  messages.push({ role: "user", content: text });
  $("question").value = "";
  showMessages();
  answer();
}

// ---- the state

function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  for (; n >= 1024 && i < units.length - 1; i++) n /= 1024;
  return (i ? n.toFixed(1) : n) + " " + units[i];
}

function figure(name, value) {
  const d = element("div");
  d.append(element("dt", name), element("dd", value));
  return d;
}

function showFigures(s) {
  const hit = s.prompt_tokens ? Math.round((100 * s.cached_tokens) / s.prompt_tokens) + " %" : "–";
  $("figures").replaceChildren(
    figure("Running", s.running),
    figure("Waiting", s.queued),
    figure("Texts", s.texts),
    figure("Failed", s.failed),
    figure("Tokens read", s.prompt_tokens),
    figure("Of them cached", hit),
    figure("Tokens written", s.drawn_tokens),
    figure("Memory limit", s.memory_limit ? bytes(s.memory_limit) : "none"),
  );
  $("cache").value = s.cache_limit ? s.cache_bytes / s.cache_limit : 0;
  $("cache-text").textContent = bytes(s.cache_bytes) + (s.cache_limit ? " of " + bytes(s.cache_limit) : "");
  $("queue").value = s.queue_limit ? s.queued / s.queue_limit : 0;
  $("queue-text").textContent = s.queued + " of " + s.queue_limit;
}

function showSpeed(now) {
  speeds.push(now);
  if (speeds.length > SPEEDS) speeds.shift();
  const top = Math.max(1, ...speeds);
  const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
  line.setAttribute("points", speeds.map((v, i) => (240 * (SPEEDS - speeds.length + i)) / (SPEEDS - 1) + "," + (57 - (54 * v) / top)).join(" "));
  $("speed").replaceChildren(line);
  $("speed-now").textContent = "Now " + now.toFixed(1) + ", highest " + top.toFixed(1);
}

function row(cells) {
  const tr = element("tr");
  tr.append(...cells.map((c) => element("td", c === undefined || c === null || c === "" ? "–" : String(c))));
  return tr;
}

// The state of the whole: what it waits for, for how long, and what follows.
function waiting(swarm) {
  if (!swarm || swarm.ready) return "";
  const parts = [swarm.blocker, swarm.waiting_for && "waiting for " + swarm.waiting_for, swarm.since_s && "since " + swarm.since_s.toFixed(0) + " s", swarm.next_step && "next: " + swarm.next_step];
  return parts.filter(Boolean).join("; ");
}

function repairs(swarm) {
  if (!swarm || !swarm.repairs) return "";
  return swarm.repairs + " repairs, " + swarm.mean_repair_ms.toFixed(0) + " ms on average, " + swarm.longest_repair_ms.toFixed(0) + " ms at most";
}

function layers(p) {
  return p.last_layer === undefined ? "" : p.first_layer === p.last_layer ? String(p.first_layer) : p.first_layer + "–" + p.last_layer;
}

function label(p) {
  return p.id.slice(0, 8) + (p.api ? " (this API)" : "");
}

// A bar of the model's layers with those of one peer marked.
function map(p, all) {
  const bar = element("span");
  bar.className = "map";
  if (p.last_layer !== undefined && all > 0) {
    const part = element("span");
    part.style.marginLeft = (100 * p.first_layer) / all + "%";
    part.style.width = (100 * (p.last_layer - p.first_layer + 1)) / all + "%";
    bar.append(part);
  }
  const cell = element("td");
  cell.append(bar);
  return cell;
}

function peerRow(p, all) {
  const ms = (us) => (us === undefined ? "" : (us / 1000).toFixed(2) + " ms");
  const room = p.cache_tokens ? p.free_tokens + " of " + p.cache_tokens : "";
  const tr = row([label(p), layers(p), p.state, ms(p.hop_us), ms(p.layer_us), room]);
  tr.insertBefore(map(p, all), tr.children[2]);
  return tr;
}

function byLayers(a, b) {
  return (a.first_layer === undefined ? -1 : a.first_layer) - (b.first_layer === undefined ? -1 : b.first_layer);
}

function showSwarm(swarm) {
  const peers = ((swarm && swarm.peers) || []).slice().sort(byLayers);
  $("alone").hidden = peers.length > 0;
  $("peers").hidden = peers.length === 0;
  $("peers").tBodies[0].replaceChildren(...peers.map((p) => peerRow(p, swarm.layers)));
  $("waiting").textContent = waiting(swarm);
  $("repairs").textContent = repairs(swarm);
}

function showState(text, kind) {
  if ($("state").textContent !== text) $("state").textContent = text;
  $("state").className = kind;
}

async function poll() {
  try {
    const response = await fetch("/v1/swarm", { headers: headers() });
    if (!response.ok) {
      showState(response.status === 401 ? "needs a key (Settings)" : await failure(response), "bad");
    } else {
      const s = await response.json();
      modelName = s.model.id;
      $("model").textContent = modelName;
      document.title = modelName + " – braid";
      showState(s.service.ready ? "ready" : s.service.blocker || "not ready yet", s.service.ready ? "good" : "bad");
      showFigures(s.service);
      showSpeed(s.service.tokens_per_second);
      showSwarm(s.swarm);
    }
  } catch (e) {
    showState("the server does not answer", "bad");
  }
  setTimeout(poll, POLL_MS);
}

// ---- the start

function view(name) {
  for (const v of ["chat", "status"]) {
    $(v).hidden = v !== name;
    $("show-" + v).setAttribute("aria-pressed", v === name ? "true" : "false");
  }
}

$("ask").addEventListener("submit", ask);
$("question").addEventListener("keydown", (e) => {
  if (e.key === "Enter" && !e.shiftKey && !e.isComposing) ask(e);
});
document.addEventListener("keydown", (e) => {
  if (e.key === "Escape" && running) running.abort();
});
$("stop").addEventListener("click", () => running && running.abort());
$("clear").addEventListener("click", () => {
  if (running) running.abort();
  messages = [];
  showMistake("");
  showMessages();
  $("question").focus();
});
$("show-chat").addEventListener("click", () => view("chat"));
$("show-status").addEventListener("click", () => view("status"));
$("key").value = sessionStorage.getItem("key") || "";
$("key").addEventListener("change", () => sessionStorage.setItem("key", $("key").value.trim()));
poll();
