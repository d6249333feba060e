// The stream of /events: the state and the history of a run. A stream that is quiet or broken is
// opened again, and goes on behind the last event. (EventSource cannot send a key.)
"use strict";

const QUIET_MS = 8000; // the server sends at least every 3 s
const RETRY_MS = [500, 1000, 2000, 4000];

let lastEvent = "";
let attempts = 0;
let chosen = false; // the view was chosen by the kind of server
let restarts = false; // startOver ended the stream
let stream = null; // AbortController

function view(name) {
  for (const v of ["chat", "status", "run"]) $(v).hidden = v !== name;
  for (const v of ["chat", "status"]) $("show-" + v).setAttribute("aria-pressed", v === name ? "true" : "false");
}

function onState(doc) {
  if (!chosen) {
    chosen = true;
    $("views").hidden = !!doc.run;
    view(doc.run ? "run" : "chat");
    if (!doc.run) $("question").focus();
  }
  if (doc.run) showRun(doc.run);
  else showService(doc);
}

// One event: lines of "field: value" (HTML standard, section 9.2.6).
function take(event) {
  let name = "message";
  let data = "";
  for (const line of event.split("\n")) {
    const colon = line.indexOf(": ");
    const field = line.slice(0, colon);
    if (field === "event") name = line.slice(colon + 2);
    if (field === "id") lastEvent = line.slice(colon + 2);
    if (field === "data") data += line.slice(colon + 2);
  }
  if (name === "state") onState(JSON.parse(data));
  if (name === "history") addHistory(JSON.parse(data));
}

// Reads until the stream ends, or nothing has come for QUIET_MS.
async function readStream(response, controller) {
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const limit = setTimeout(() => controller.abort(), QUIET_MS);
    const { done, value } = await reader.read().finally(() => clearTimeout(limit));
    if (done) return;
    attempts = 0;
    const events = (rest + decoder.decode(value, { stream: true })).split("\n\n");
    rest = events.pop();
    events.forEach(take);
  }
}

async function openStream(controller) {
  const limit = setTimeout(() => controller.abort(), QUIET_MS);
  const fields = lastEvent ? { ...headers(), "Last-Event-ID": lastEvent } : headers();
  const response = await fetch("/events", { headers: fields, signal: controller.signal }).finally(() => clearTimeout(limit));
  if (response.ok) return readStream(response, controller);
  if (response.status === 401) $("key-field").hidden = false;
  showState(response.status === 401 ? "needs a key" : await failure(response), "bad");
}

// Asks for the whole history.
function startOver() {
  lastEvent = "";
  restarts = true;
  if (stream) stream.abort();
}

async function follow() {
  stream = new AbortController();
  try {
    await openStream(stream);
  } catch (e) {
    if (!restarts) showState("the server does not answer", "bad");
  }
  restarts = false;
  setTimeout(follow, RETRY_MS[Math.min(attempts++, RETRY_MS.length - 1)]);
}

$("show-chat").addEventListener("click", () => view("chat"));
$("show-status").addEventListener("click", () => view("status"));
$("key").value = sessionStorage.getItem("key") || "";
$("key-field").hidden = !$("key").value;
$("key").addEventListener("change", () => {
  sessionStorage.setItem("key", $("key").value.trim());
  attempts = 0;
  if (stream) stream.abort();
});
follow();
