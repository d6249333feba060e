// Curves over iterations, as SVG in pixels of the page.
"use strict";

const MARGIN = { left: 52, right: 10, top: 8, bottom: 22 };

// At most `most` points, each the mean of its neighbours, so that long curves stay readable.
function thinned(points, most) {
  if (points.length <= most) return points;
  const step = Math.ceil(points.length / most);
  const result = [];
  for (let i = 0; i < points.length; i += step) {
    const part = points.slice(i, i + step);
    result.push({ x: part[part.length - 1].x, y: part.reduce((sum, p) => sum + p.y, 0) / part.length });
  }
  return result;
}

// Three to six round numbers from `low` to `high`.
function ticks(low, high) {
  const rough = (high - low) / 4 || Math.abs(high) / 4 || 1;
  const power = Math.pow(10, Math.floor(Math.log10(rough)));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const result = [];
  for (let i = Math.ceil(low / step); i * step <= high + step * 1e-9; i++) result.push(i * step);
  return result;
}

function short(n) {
  const size = Math.abs(n);
  if (size >= 1e6) return +(n / 1e6).toPrecision(3) + "M";
  if (size >= 1e4) return +(n / 1e3).toPrecision(3) + "k";
  return String(+n.toPrecision(4));
}

function scale(svg, curves, lowest) {
  const all = curves.flatMap((c) => c.points);
  const width = Math.max(200, svg.clientWidth);
  const height = Math.max(80, svg.clientHeight);
  const xs = all.map((p) => p.x);
  const ys = all.map((p) => p.y);
  const x0 = xs.reduce((a, b) => Math.min(a, b), Infinity);
  const x1 = Math.max(xs.reduce((a, b) => Math.max(a, b), -Infinity), x0 + 1);
  const y0 = lowest !== undefined ? lowest : ys.reduce((a, b) => Math.min(a, b), Infinity);
  const y1 = Math.max(ys.reduce((a, b) => Math.max(a, b), -Infinity), y0 + 1e-6);
  return {
    width, height, x0, x1, y0, y1,
    x: (v) => MARGIN.left + ((v - x0) / (x1 - x0)) * (width - MARGIN.left - MARGIN.right),
    y: (v) => height - MARGIN.bottom - ((v - y0) / (y1 - y0)) * (height - MARGIN.top - MARGIN.bottom),
  };
}

function label(text, x, y, anchor) {
  const t = drawn("text", { x, y, "text-anchor": anchor });
  t.textContent = text;
  return t;
}

function axes(s) {
  const parts = [];
  for (const v of ticks(s.y0, s.y1)) {
    parts.push(drawn("line", { class: "grid", x1: MARGIN.left, x2: s.width - MARGIN.right, y1: s.y(v), y2: s.y(v) }));
    parts.push(label(short(v), MARGIN.left - 6, s.y(v) + 4, "end"));
  }
  for (const v of ticks(s.x0, s.x1).filter(Number.isInteger)) parts.push(label(short(v), s.x(v), s.height - 6, "middle"));
  return parts;
}

// `curves`: {name: class, points: [{x, y}]}. `lowest`: of the vertical axis, else that of the points.
// Returns the scale, or null without points.
function drawCurves(svg, curves, lowest) {
  curves = curves.map((c) => ({ ...c, points: thinned(c.points, 600) })).filter((c) => c.points.length > 0);
  if (curves.length === 0) return null;
  const s = scale(svg, curves, lowest);
  const lines = curves.map((c) => drawn("polyline", { class: c.name, points: c.points.map((p) => s.x(p.x).toFixed(1) + "," + s.y(p.y).toFixed(1)).join(" ") }));
  const dots = curves.filter((c) => c.points.length <= 60).flatMap((c) => c.points.map((p) => drawn("circle", { class: c.name, cx: s.x(p.x), cy: s.y(p.y), r: 2.5 })));
  svg.setAttribute("viewBox", "0 0 " + s.width + " " + s.height);
  svg.replaceChildren(...axes(s), ...lines, ...dots);
  return s;
}
