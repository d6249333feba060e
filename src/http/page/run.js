// A training run: progress, curves, peers by stage, the timeline. Texts of peers are set as text,
// never as HTML.
"use strict";

const MOST_POINTS = 8192;
const MOST_MARKS = 1024;
const SHOWN_MARKS = 200;
// The words for a mark, and its sign below the loss; "": no sign.
const KINDS = {
  joined: ["joined", "+"], left: ["left", "−"], expelled: ["was lost", "×"], suspect: ["does not answer", ""],
  killed: ["was killed on purpose", "×"], repair: ["repaired work of", "•"], promoted: ["took over the stage", "+"],
  rolled_back: ["rolled back", "◄"], checkpoint: ["checkpoint", "◆"], leader: ["leads the run", ""],
  awaited: ["the run waits", ""], note: ["", ""], end: ["the run ended", "■"],
};

const losses = []; // {x, y, speed, peers}
const heldOut = []; // {x, y}
const marks = new Map(); // by id

// ---- the history

function dropAfter(points, iteration) {
  while (points.length > 0 && points[points.length - 1].x > iteration) points.pop();
}

function addHistory(h) {
  if (h.all) {
    losses.length = heldOut.length = 0;
    marks.clear();
  }
  for (const m of h.marks) {
    marks.set(m.id, m);
    if (m.kind === "rolled_back" && !h.all) [losses, heldOut].forEach((points) => dropAfter(points, m.iteration));
  }
  while (marks.size > MOST_MARKS) marks.delete(marks.keys().next().value);
  for (const [x, y, speed, peers] of h.losses) if (y !== null) losses.push({ x, y, speed, peers });
  for (const [x, y] of h.held_out) if (y !== null) heldOut.push({ x, y });
  if (losses.length > MOST_POINTS) startOver(); // the server's history is shorter
  draw();
  if (h.marks.length > 0) showTimeline();
}

// ---- the curves

function signs(s) {
  const y = s.height - MARGIN.bottom - 4;
  const shown = [...marks.values()].filter((m) => KINDS[m.kind] && KINDS[m.kind][1] && m.iteration >= s.x0 && m.iteration <= s.x1);
  return shown.slice(-SHOWN_MARKS).map((m) => {
    const sign = label(KINDS[m.kind][1], s.x(m.iteration), y, "middle");
    sign.setAttribute("class", "sign " + m.kind);
    const title = drawn("title", {});
    title.textContent = sentence(m);
    sign.append(title);
    return sign;
  });
}

function describe() {
  const last = losses[losses.length - 1];
  const test = heldOut[heldOut.length - 1];
  if (!last) return "No iteration has ended yet.";
  return "Iteration " + last.x + ": loss " + last.y.toFixed(4) + (test ? "; held-out " + test.y.toFixed(4) + " after " + test.x : "");
}

function draw() {
  if ($("run").hidden) return;
  const s = drawCurves($("loss"), [{ name: "train", points: losses }, { name: "test", points: heldOut }]);
  if (s) $("loss").append(...signs(s));
  $("loss-now").textContent = describe();
  drawCurves($("rate"), [{ name: "train", points: losses.map((p) => ({ x: p.x, y: p.speed || 0 })) }], 0);
  drawCurves($("count"), [{ name: "train", points: losses.map((p) => ({ x: p.x, y: p.peers })) }], 0);
}

// ---- the timeline

function clock(seconds) {
  return new Date(seconds * 1000).toLocaleTimeString();
}

function sentence(m) {
  const what = KINDS[m.kind] ? KINDS[m.kind][0] : m.kind;
  const who = m.peer && m.peer.replace(/0/g, "") ? m.peer.slice(0, 8) + " " : "";
  const stage = m.stage === undefined ? "" : " in stage " + m.stage;
  if (m.kind === "repair") return (m.count || 1) + " microbatches repaired after the loss of " + (who || "a peer") + stage;
  if (m.kind === "checkpoint") return "checkpoint of iteration " + m.iteration + (m.text ? ": " + m.text : "");
  if (m.kind === "rolled_back") return "rolled back to iteration " + m.iteration + (m.text ? ": " + m.text : "");
  const from = m.kind === "expelled" || m.kind === "left" ? stage.replace(" in ", " from ") : stage;
  return who + what + from + (m.text ? (what ? ": " : "") + m.text : "");
}

function showTimeline() {
  const newest = [...marks.values()].sort((a, b) => b.time - a.time || b.id - a.id).slice(0, SHOWN_MARKS);
  $("timeline").replaceChildren(
    ...newest.map((m) => {
      const item = element("li", undefined, m.kind);
      const time = element("time", clock(m.time));
      time.dateTime = new Date(m.time * 1000).toISOString();
      item.append(time, element("span", "iteration " + m.iteration, "at"), element("span", sentence(m)));
      return item;
    }),
  );
}

// ---- the state

function percent(share) {
  return share === undefined || share === null ? "–" : (100 * share).toFixed(1) + " %";
}

function number(n, digits) {
  return n === undefined || n === null ? "–" : n.toFixed(digits);
}

function showProgress(r) {
  const memory = r.memory_bytes ? bytes(r.memory_bytes) + (r.memory_limit ? " of " + bytes(r.memory_limit) : "") : "–";
  $("run-figures").replaceChildren(
    figure("Iteration", r.iteration + (r.of ? " of " + r.of : "")),
    figure("Loss", number(r.loss, 4)),
    figure("Held-out loss", number(r.held_out_loss, 4)),
    figure("Tokens a second", r.tokens_per_second === undefined ? "–" : short(Math.round(r.tokens_per_second))),
    figure("Peers lost", r.lost),
    figure("Repairs", r.repairs),
    figure("Work used", percent(r.goodput)),
    figure("Checkpoint", r.checkpoint === undefined ? "none yet" : "iteration " + r.checkpoint),
    figure("Memory", memory),
  );
  $("progress").max = r.of || 1;
  $("progress").value = r.iteration || 0;
}

// A peer on the map: what is not shown by its text is in the table.
function chip(p) {
  const busy = p.state === "working" || p.state === "training";
  const item = element("li", undefined, "peer " + (busy ? "good" : p.state === "unresponsive" ? "bad" : "other"));
  item.append(element("b", p.id.slice(0, 8)), element("span", (p.leader ? "leader, " : "") + p.state));
  return item;
}

function showStages(r) {
  const stages = r.stages.length > 0 ? r.stages : [{ peers: r.peers.length, standbys: 0 }];
  $("stages").replaceChildren(
    ...stages.map((s, i) => {
      const peers = r.peers.filter((p) => p.stage === i);
      const count = peers.length === 1 ? "1 peer" : peers.length + " peers";
      const box = element("li", undefined, peers.length === 0 ? "stage empty" : "stage");
      const list = element("ul");
      list.append(...peers.map(chip));
      box.append(element("h4", "Stage " + i + " · " + count), list);
      return box;
    }),
  );
}

function showPeers(r) {
  const peers = r.peers.slice().sort((a, b) => a.stage - b.stage || a.member - b.member);
  $("run-peers").tBodies[0].replaceChildren(
    ...peers.map((p) => {
      const tr = row([p.id, p.stage, p.role + (p.leader ? ", leader" : ""), p.state, duration(p.since_s || 0), p.blocker, p.waiting_for, p.next_step]);
      return tr;
    }),
  );
}

function showRun(r) {
  const name = r.name || "training run";
  const good = r.state === "training" || r.state === "complete";
  setText("model", name);
  document.title = name + " – braid";
  showState(r.state, good ? "good" : "bad");
  const why = reason(r);
  setText("run-waiting", why ? why + (r.since_s >= 1 && !good ? " (for " + duration(r.since_s) + ")" : "") : "");
  showProgress(r);
  showStages(r);
  showPeers(r);
  showGone("run-gone", r.gone, (g) => "stage " + g.stage);
  draw();
}

window.addEventListener("resize", draw);
