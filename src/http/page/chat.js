// A chat through /v1/chat/completions. Texts of the model are set as text, never as HTML.
"use strict";

let messages = []; // {role, content}
let running = null; // AbortController of the answer under way

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
    model: $("model").textContent,
    messages: (system ? [{ role: "system", content: system }] : []).concat(messages.map(({ role, content }) => ({ role, content }))),
    stream: true,
    stream_options: { include_usage: true },
  };
  if ($("temperature").value !== "") body.temperature = Number($("temperature").value);
  if ($("most").value !== "") body.max_completion_tokens = Number($("most").value);
  return body;
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
    // browsers report a lost connection as a TypeError with a text of their own
    if (e.name !== "AbortError") showMistake(e.name === "TypeError" ? "the connection to the server was lost" : e.message);
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
