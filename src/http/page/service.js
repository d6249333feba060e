// The state of a model that is served, and of its swarm.
"use strict";

const SPEED_MS = 120000;

const speeds = []; // {at, value}

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

function showSpeed(value) {
  const now = performance.now();
  speeds.push({ at: now, value });
  while (speeds[0].at < now - SPEED_MS) speeds.shift();
  const top = Math.max(1, ...speeds.map((s) => s.value));
  const points = speeds.map((s) => 240 - (240 * (now - s.at)) / SPEED_MS + "," + (57 - (54 * s.value) / top));
  $("speed").replaceChildren(drawn("polyline", { points: points.join(" ") }));
  $("speed-now").textContent = "Now " + value.toFixed(1) + ", highest " + top.toFixed(1);
}

function repairs(swarm) {
  if (!swarm || !swarm.repairs) return "";
  return swarm.repairs + " repairs, " + swarm.mean_repair_ms.toFixed(0) + " ms on average, " + swarm.longest_repair_ms.toFixed(0) + " ms at most";
}

function layers(p) {
  return p.last_layer === undefined ? "" : p.first_layer === p.last_layer ? String(p.first_layer) : p.first_layer + "–" + p.last_layer;
}

function peerName(p) {
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
  const state = p.state + (p.since_s >= 1 ? " for " + duration(p.since_s) : "");
  const tr = row([peerName(p), layers(p), state, ms(p.hop_us), ms(p.layer_us), room, reason(p)]);
  tr.lastElementChild.className = "wide";
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
  showGone("service-gone", (swarm && swarm.gone) || [], (g) => layers(g) && "layers " + layers(g));
  setText("waiting", swarm && !swarm.ready ? reason(swarm) : "");
  $("repairs").textContent = repairs(swarm);
}

function showService(s) {
  setText("model", s.model.id);
  document.title = s.model.id + " – braid";
  showState(s.service.ready ? "ready" : s.service.blocker || "not ready yet", s.service.ready ? "good" : "bad");
  showFigures(s.service);
  showSpeed(s.service.tokens_per_second);
  showSwarm(s.swarm);
}
