// Shared by the scripts of the page.
"use strict";

const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";

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

function drawn(name, attributes) {
  const e = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  return e;
}

async function failure(response) {
  try {
    return (await response.json()).error.message;
  } catch (e) {
    return "the server answered with status " + response.status;
  }
}

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

function row(cells) {
  const tr = element("tr");
  tr.append(...cells.map((c) => element("td", c === undefined || c === null || c === "" ? "–" : String(c))));
  return tr;
}

// A change of a live region is read aloud, so the same text is not set again.
function setText(id, text) {
  if ($(id).textContent !== text) $(id).textContent = text;
}

function showState(text, kind) {
  setText("state", text);
  $("state").className = kind;
}

function duration(s) {
  if (s < 60) return s.toFixed(0) + " s";
  if (s < 3600) return Math.floor(s / 60) + " min";
  return Math.floor(s / 3600) + " h " + Math.floor((s % 3600) / 60) + " min";
}

// The rest of a state record behind its state: why, what is waited for, what follows.
function reason(r) {
  return [r.blocker, r.waiting_for && "waiting for " + r.waiting_for, r.next_step && "next: " + r.next_step].filter(Boolean).join("; ");
}

// Former peers, each with the reason of its end. `place` names what it held.
function showGone(id, gone, place) {
  const items = gone.map((g) => {
    const where = place(g);
    const ago = g.since_s === undefined ? "" : ", " + duration(g.since_s) + " ago";
    return element("li", g.id.slice(0, 8) + (where ? " (" + where + ")" : "") + " " + g.state + ": " + (g.blocker || "no reason is known") + ago);
  });
  $(id).replaceChildren(...items);
  $(id).parentElement.hidden = items.length === 0;
}
