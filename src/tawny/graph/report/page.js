"use strict";
// Data is text: it reaches the page through textContent and fillText alone.
const D = JSON.parse(document.getElementById("data").textContent);
const T = D.texts, NONE = 1 << 30;
const $ = (id) => document.getElementById(id);
const canvas = $("map"), ctx = canvas.getContext("2d");

function el(tag, text, more, ...children) {
  const made = document.createElement(tag);
  if (text !== null && text !== undefined) made.textContent = text;
  Object.assign(made, more || {});
  for (const child of children) if (child) made.append(child);
  return made;
}
function bytesText(n) {
  for (const [unit, name] of [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]) if (Math.abs(n) >= unit) return (n / unit).toFixed(1) + " " + name;
  return n + " B";
}
function countText(n) {
  for (const [unit, name] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) if (Math.abs(n) >= unit) return (n / unit).toPrecision(3) + " " + name;
  return String(n);
}
const BOLD = "600 12px system-ui, sans-serif", MEDIUM = "11px system-ui, sans-serif", SMALL = "10px system-ui, sans-serif";
const textWidth = (text, font) => { ctx.font = font; return ctx.measureText(text).width; };
const cut = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);
const dark = matchMedia("(prefers-color-scheme: dark)");
let ink, faint, line, back, card, accent, select;
function readColours() {
  const style = getComputedStyle(document.documentElement);
  [ink, faint, line, back, card, accent, select] = ["ink", "faint", "line", "back", "card", "accent", "select"].map((n) => style.getPropertyValue("--" + n).trim());
}
const fill = (hue, strength = 1) => (dark.matches ? `hsl(${hue} ${38 * strength}% 27%)` : `hsl(${hue} ${70 * strength}% ${90 - 6 * strength}%)`);

// ------------------------------------------------------------------ the graphs
const CLASS_HUES = { variable: 215, constant: 0, elementwise: 140, reduction: 40, cumulative: 40, linalg: 275, einsum: 275, convolution: 275, fusion: 95, movement: 195, indexing: 175, joining: 185, random: 55, pooling: 20, creation: 230, bands: 310, rows: 330 };
const hueOf = (word) => { if (word in CLASS_HUES) return CLASS_HUES[word]; let h = 7; for (const c of word) h = (h * 31 + c.codePointAt(0)) % 360; return h; };

class Drawing {
  constructor(data, index) {
    Object.assign(this, data);
    this.index = index;
    this.count = this.name.length;
    this.readers = Array.from({ length: this.count }, () => []);
    this.inputs.forEach((sources, k) => { for (const s of sources) this.readers[s].push(k); });
    this.byteMost = this.bytes.reduce((a, b) => Math.max(a, b), 1);
    this.open = new Set([0]);
    const total = this.count + this.boxes.length;
    for (const axis of ["x", "y", "w", "h"]) this[axis] = new Float64Array(total);
    this.openSome(45);
    this.view = null;
    this.layout();
  }
  id(item) { return item < 0 ? this.count + ~item : item; }
  items(box) { return this.boxes[box][4].flat(2); }
  openSome(most) {
    let level = [0], shown = this.items(0).length;
    while (level.length) {
      const inner = level.flatMap((box) => this.items(box)).filter((i) => i < 0 && this.boxes[~i][1] !== "repeats").map((i) => ~i);
      shown += inner.reduce((sum, box) => sum + this.items(box).length - 1, 0);
      if (shown > most) return;
      for (const box of inner) this.open.add(box);
      level = inner;
    }
  }
  openMore() {
    for (const box of [...this.open]) for (const item of this.items(box)) if (item < 0 && this.isShown(~item)) this.open.add(~item);
    this.layout();
  }
  isShown(box) { for (let b = this.boxes[box][2]; b >= 0; b = this.boxes[b][2]) if (!this.open.has(b)) return false; return true; }
  closeAll() { this.open = new Set([0]); this.layout(); }
  lines(k) {
    const out = [T[this.name[k]] + (T[this.role[k]] ? "  ▸ " + T[this.role[k]] : "")];
    if (T[this.detail[k]]) out.push(cut(T[this.detail[k]], 34));
    const inner = this.inputs[k].filter((s) => this.inline[s]);
    for (const s of inner.slice(0, 3)) out.push(cut("• " + (T[this.name[s]] === "constant" ? "" : T[this.name[s]].split(".").pop() + " ") + T[this.type[s]] + " " + T[this.detail[s]], 36));
    if (inner.length > 3) out.push(`• ${inner.length - 3} more`);
    return out;
  }
  measure(k) {
    const lines = this.lines(k);
    this.w[k] = Math.max(64, textWidth(lines[0], BOLD) + 18, ...lines.slice(1).map((l) => textWidth(l, SMALL) + 18));
    this.h[k] = 24 + 13 * (lines.length - 1);
  }
  layout() {
    const place = (box) => {
      const id = this.count + box, [label, , , nodes, parts] = this.boxes[box];
      if (!this.open.has(box)) {
        this.w[id] = Math.max(90, textWidth("+ " + cut(T[label], 44), BOLD) + 20, textWidth(`${nodes} nodes`, MEDIUM) + 20);
        this.h[id] = 40;
        return;
      }
      const pad = box ? 14 : 0, head = box ? 24 : 0, gapX = 26, gapY = 46, groups = [];
      for (const rows of parts) {
        const placed = [];
        let top = 0, wide = 0;
        for (const row of rows) for (let k = 0; k < row.length; k += 12) {
          const items = row.slice(k, k + 12);
          let left = 0, tall = 0;
          for (const item of items) {
            const i = this.id(item);
            if (item < 0) place(~item); else if (!this.h[i]) this.measure(i);
            this.x[i] = left; this.y[i] = top;
            left += this.w[i] + gapX;
            tall = Math.max(tall, this.h[i]);
          }
          placed.push([items, left - gapX]);
          wide = Math.max(wide, left - gapX);
          top += tall + (k + 12 < row.length ? 16 : gapY);
        }
        for (const [items, own] of placed) for (const item of items) this.x[this.id(item)] += (wide - own) / 2;
        groups.push({ items: rows.flat(), wide, tall: top - gapY });
      }
      const area = groups.reduce((sum, g) => sum + (g.wide + gapX) * (g.tall + gapY), 0);
      const widest = Math.max(1.5 * Math.sqrt(area), ...groups.map((g) => g.wide));
      let left = 0, top = 0, tall = 0, right = 0;
      for (const g of groups) {
        if (left && left + g.wide > widest) { top += tall + gapY; left = tall = 0; }
        for (const item of g.items) { this.x[this.id(item)] += left + pad; this.y[this.id(item)] += top + pad + head; }
        left += g.wide + gapX; tall = Math.max(tall, g.tall); right = Math.max(right, left - gapX);
      }
      this.w[id] = Math.max(right + 2 * pad, T[label].length * 7 + 40);
      this.h[id] = top + tall + 2 * pad + head;
    };
    this.x[this.count] = this.y[this.count] = 0;
    place(0);
    const shown = (this.shown = new Int32Array(this.count + this.boxes.length).fill(-1));
    const stack = [[0, -1]];
    while (stack.length) {
      const [box, around] = stack.pop(), id = this.count + box, isOpen = around < 0 && this.open.has(box);
      const rep = around >= 0 ? around : isOpen ? -1 : id;
      shown[id] = rep < 0 ? id : rep;
      for (const rows of this.boxes[box][4]) for (const row of rows) for (const item of row) {
        const i = this.id(item);
        if (isOpen) { this.x[i] += this.x[id]; this.y[i] += this.y[id]; }
        if (item < 0) stack.push([~item, rep]); else shown[i] = rep < 0 ? i : rep;
      }
    }
    const edges = new Map(), all = this.count + this.boxes.length;
    for (let k = 0; k < this.count; k++) {
      const b = shown[k];
      if (b < 0) continue;
      for (const s of this.inputs[k]) {
        const a = shown[s];
        if (a < 0 || a === b) continue;
        const known = edges.get(a * all + b);
        if (known) { if (known.from !== s) known.many++; } else edges.set(a * all + b, { a, b, from: s, many: 1 });
      }
    }
    this.edges = [...edges.values()];
    this.near = new Map();
    for (const e of this.edges) for (const end of [e.a, e.b]) { if (!this.near.has(end)) this.near.set(end, []); this.near.get(end).push(e); }
  }
  reveal(node) {
    let changed = false;
    for (let box = this.home[node]; box >= 0; box = this.boxes[box][2]) if (!this.open.has(box)) { this.open.add(box); changed = true; }
    if (changed) this.layout();
  }
}
const drawings = D.graphs.map((data, index) => new Drawing(data, index));

// -------------------------------------------------------- links between the views
const M = D.memory, R = D.rewrites;
const written = (run) => backTwins.get(run) || [];
const backTwins = new Map();
(D.twins || []).forEach((twin, k) => { if (twin !== NONE) { const run = twin < 0 ? ~twin : twin; if (!backTwins.has(run)) backTwins.set(run, []); backTwins.get(run).push(k); } });
const runOf = (g, k) => (g === 1 ? k : D.twins && D.twins[k] !== NONE ? (D.twins[k] < 0 ? ~D.twins[k] : D.twins[k]) : -1);
const isInside = (k) => D.twins[k] < 0;
const blocksOf = new Map(), stepsOf = new Map(), again = new Set(M ? M.again : []), over = new Set(M ? M.over : []);
let peakStep = 0;
if (M) {
  M.blocks.forEach((block, k) => { for (const [node] of block[5]) { if (!blocksOf.has(node)) blocksOf.set(node, []); blocksOf.get(node).push(k); } });
  M.steps.forEach((node, k) => { if (!stepsOf.has(node)) stepsOf.set(node, []); stepsOf.get(node).push(k); });
  M.live.forEach((bytes, k) => { if (bytes > M.live[peakStep]) peakStep = k; });
}
const byPlace = new Map();
if (R) R.records.forEach((record, k) => { for (const p of record[4]) { if (!byPlace.has(p)) byPlace.set(p, []); byPlace.get(p).push(k); } });
const rewritesAt = (g, k) => { const out = new Set(); for (const p of drawings[g].places[k]) for (const r of byPlace.get(p) || []) if (R.records[r][3].includes(drawings[g].name[k])) out.add(r); return [...out]; };
function nodesOf(record) {
  const d = drawings[0], places = new Set(record[4]), names = new Set(record[3]), out = [];
  for (let k = 0; k < d.count && out.length < 30; k++) if (names.has(d.name[k]) && d.places[k].some((p) => places.has(p))) out.push(k);
  return out;
}

// ---------------------------------------------------------------------- state
const S = { view: "graph", g: 0, node: -1, box: -1, block: -1, step: peakStep, record: 0, rule: -1, colour: "class" };
const d = () => drawings[S.g];
const VIEWS = [["graph", "Graph"], ...(M ? [["memory", "Memory"]] : []), ...(R ? [["rewrites", "Rewrites"]] : [])];
const COLOURS = [["class", "kind of operation"], ["bytes", "bytes"], ...(M ? [["block", "memory block"]] : [])];

function choose(g, node, centre) {
  S.box = -1;
  if (S.view === "graph" && g !== S.g) { const run = runOf(g, node); const other = S.g === 1 ? run : (written(node)[0] ?? -1); if (other >= 0 && d().shown[other] !== -1) { g = S.g; node = other; } else setGraph(g); }
  S.g = g; S.node = node; $("which").value = String(g);
  const run = M ? runOf(g, node) : -1;
  const homes = run >= 0 ? blocksOf.get(run) : null;
  S.block = homes ? homes[0] : -1;
  if (M && run >= 0 && stepsOf.has(run) && S.view !== "memory") S.step = stepsOf.get(run)[0];
  if (R && S.view !== "rewrites") { const found = rewritesAt(g, node); if (found.length) { S.record = found[0]; S.rule = -1; } }
  if (S.view === "graph" && centre) { let shown = node; if (d().inline[node] && d().readers[node].length) shown = d().readers[node][0]; d().reveal(shown); centreOn(d().shown[shown]); }
  refresh();
}
function setGraph(g) { S.g = g; $("which").value = String(g); }
function setView(view) {
  S.view = view;
  for (const tab of $("tabs").children) { tab.setAttribute("aria-selected", String(tab.dataset.view === view)); tab.tabIndex = tab.dataset.view === view ? 0 : -1; }
  $("ledger").hidden = view !== "rewrites";
  canvas.hidden = view === "rewrites";
  for (const one of document.querySelectorAll(".for-graph")) one.hidden = view !== "graph";
  if (drawings.length < 2) $("graph-choice").hidden = true;
  for (const one of document.querySelectorAll(".for-map")) one.hidden = view === "rewrites";
  $("keys").textContent = { graph: "drag or arrows: move · wheel, + −: zoom · 0: fit · n p: next, previous · Enter: open or close a box · /: search", memory: "← →: step · Enter: value written there · m: the peak · wheel, + −: zoom · drag: move · 0: fit", rewrites: "← →: previous, next rewrite" }[view];
  if (view === "graph" && S.node >= 0) { const k = S.node; if (!d().inline[k]) { d().reveal(k); if (d().view) centreOn(d().shown[k]); } }
  refresh();
  if (document.documentElement.dataset.ready) (view === "rewrites" ? $("ledger") : canvas).focus({ preventScroll: true });
}

// -------------------------------------------------------------------- the views' frame
let width = 0, height = 0, dpr = 1, waiting = false;
function resize() {
  dpr = devicePixelRatio || 1;
  const box = $("stage").getBoundingClientRect();
  width = box.width; height = box.height;
  canvas.width = Math.max(1, width * dpr); canvas.height = Math.max(1, height * dpr);
  draw();
}
function draw() { if (!waiting) { waiting = true; requestAnimationFrame(() => { waiting = false; paint(); }); } }
function paint() {
  if (!width || !height || S.view === "rewrites") return;
  ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
  ctx.fillStyle = back; ctx.fillRect(0, 0, width, height);
  if (S.view === "graph") paintGraph(); else paintMemory();
}
function refresh() { fillPanel(); fillLegend(); if (S.view === "rewrites") fillLedger(); draw(); }

function fit() {
  if (S.view === "memory") { mem = null; draw(); return; }
  const g = d(), w = g.w[g.count], h = g.h[g.count];
  const whole = Math.min((width - 40) / w, (height - 40) / h, 1.4), s = Math.max(whole, Math.min(0.55, (width - 40) / w));
  g.view = { s, x: (width - w * s) / 2, y: h * s > height - 40 ? 20 : (height - h * s) / 2 };
  draw();
}
function fitWhole() {
  if (S.view === "memory") return fit();
  const g = d(), w = g.w[g.count], h = g.h[g.count], s = Math.min((width - 40) / w, (height - 40) / h, 1.4);
  g.view = { s, x: (width - w * s) / 2, y: (height - h * s) / 2 };
  draw();
}
function centreOn(id) {
  const g = d();
  if (id < 0) return;
  if (!g.view) fit();
  const s = Math.max(g.view.s, 0.7);
  g.view = { s, x: width / 2 - (g.x[id] + g.w[id] / 2) * s, y: height / 2 - (g.y[id] + g.h[id] / 2) * s };
}
function zoom(factor, px = width / 2, py = height / 2) {
  if (S.view === "graph") {
    const v = d().view, s = Math.min(6, Math.max(0.002, v.s * factor));
    v.x = px - ((px - v.x) * s) / v.s; v.y = py - ((py - v.y) * s) / v.s; v.s = s;
  } else if (mem) {
    const f = Math.max(1, mem.zx * factor) / mem.zx, e = Math.max(1, mem.zy * factor) / mem.zy;
    mem.ox = px - (px - mem.ox) * f; mem.oy = py - (py - mem.oy) * e; mem.zx *= f; mem.zy *= e; clampMemory();
  }
  draw();
}
function pan(dx, dy) {
  if (S.view === "graph") { const v = d().view; v.x += dx; v.y += dy; } else if (mem) { mem.ox += dx; mem.oy += dy; clampMemory(); }
  draw();
}

// ------------------------------------------------------------------------ graph
function nodeFill(g, k) {
  if (S.colour === "bytes") return heat(g.bytes[k] / g.byteMost);
  if (S.colour === "block") { const run = runOf(g.index, k), homes = run >= 0 && !(g.index === 0 && isInside(k)) ? blocksOf.get(run) : null; return homes ? fill((homes[0] * 137.5) % 360) : card; }
  const word = T[g.class[k]];
  return fill(hueOf(word), word === "constant" ? 0 : 1);
}
function heat(part) { const p = Math.max(0, 1 + Math.log10(Math.max(part, 1e-4)) / 4); return dark.matches ? `hsl(28 ${80 * p}% ${14 + 26 * p}%)` : `hsl(28 ${100 * p}% ${97 - 37 * p}%)`; }
function paintGraph() {
  const g = d();
  if (!g.view) fit();
  const { s, x, y } = g.view;
  const left = -x / s, top = -y / s, right = (width - x) / s, bottom = (height - y) / s;
  ctx.setTransform(dpr * s, 0, 0, dpr * s, dpr * x, dpr * y);
  const chosen = S.box >= 0 ? g.count + S.box : S.node >= 0 ? g.shown[g.inline[S.node] && g.readers[S.node].length ? g.readers[S.node][0] : S.node] : -1;
  const seen = (i) => g.x[i] < right && g.x[i] + g.w[i] > left && g.y[i] < bottom && g.y[i] + g.h[i] > top;
  const stack = [0], leaves = [], closed = [];
  while (stack.length) {
    const box = stack.pop(), id = g.count + box;
    if (box && !seen(id)) continue;
    if (box) {
      const isOpen = g.open.has(box);
      ctx.fillStyle = isOpen ? (dark.matches ? "#ffffff0a" : "#0000000a") : S.colour === "bytes" ? heat(boxBytes(g, box) / g.byteMost) : card;
      ctx.strokeStyle = id === chosen ? select : faint; ctx.lineWidth = (id === chosen ? 3 : 1) / Math.min(1, Math.max(s, 0.3));
      const kind = g.boxes[box][1];
      if (kind === "repeats" && !isOpen) for (const shift of [6, 3]) { rounded(g.x[id] + shift, g.y[id] - shift, g.w[id], g.h[id], 7); ctx.save(); ctx.fillStyle = card; ctx.fill(); ctx.restore(); ctx.stroke(); }
      rounded(g.x[id], g.y[id], g.w[id], g.h[id], 7); ctx.fill();
      ctx.setLineDash(kind === "part" ? [4, 3] : []); ctx.stroke(); ctx.setLineDash([]);
      if (s > 0.25 || g.w[id] * s > 60) {
        const size = isOpen ? Math.min(40, Math.max(12, 10 / s)) : 12;
        ctx.fillStyle = ink; ctx.font = `600 ${isOpen ? Math.min(size, 22) : 12}px system-ui, sans-serif`;
        const label = T[g.boxes[box][0]] || "part";
        ctx.fillText((isOpen ? "− " : "+ ") + cut(label, 44), g.x[id] + 10, g.y[id] + 17);
        if (!isOpen && s > 0.4) { ctx.font = MEDIUM; ctx.fillStyle = faint; ctx.fillText(`${g.boxes[box][3]} nodes`, g.x[id] + 10, g.y[id] + 32); }
      }
      if (!isOpen) closed.push(id);
      if (!isOpen || Math.max(g.w[id], g.h[id]) * s < 5) continue;
    }
    for (const rows of g.boxes[box][4]) for (const row of rows) for (const item of row) if (item < 0) stack.push(~item); else if (seen(item)) leaves.push(item);
  }
  paintEdges(g, s, left, top, right, bottom, chosen, [...closed, ...leaves]);
  const text = s > 0.3;
  for (const k of leaves) {
    ctx.fillStyle = nodeFill(g, k);
    if (s < 0.12) { ctx.fillRect(g.x[k], g.y[k], g.w[k], g.h[k]); if (k === chosen) { ctx.strokeStyle = select; ctx.lineWidth = 3 / s; ctx.strokeRect(g.x[k], g.y[k], g.w[k], g.h[k]); } continue; }
    const source = T[g.class[k]] === "variable";
    rounded(g.x[k], g.y[k], g.w[k], g.h[k], source ? 12 : 4); ctx.fill();
    ctx.strokeStyle = k === chosen ? select : T[g.role[k]] ? accent : faint; ctx.lineWidth = k === chosen ? 3 : T[g.role[k]] || source ? 1.8 : 0.8; ctx.stroke();
    if (!text) continue;
    const lines = g.lines(k);
    ctx.fillStyle = ink; ctx.font = BOLD; ctx.fillText(lines[0], g.x[k] + 9, g.y[k] + 16);
    ctx.font = SMALL;
    for (let n = 1; n < lines.length; n++) ctx.fillText(lines[n], g.x[k] + 9, g.y[k] + 16 + 13 * n);
  }
}
function boxBytes(g, box) {
  g.boxMost = g.boxMost || new Map();
  if (!g.boxMost.has(box)) { let most = 0; for (const item of g.items(box)) most = Math.max(most, item < 0 ? boxBytes(g, ~item) : g.bytes[item]); g.boxMost.set(box, most); }
  return g.boxMost.get(box);
}
function rounded(x, y, w, h, r) { ctx.beginPath(); ctx.roundRect(x, y, w, h, Math.min(r, w / 2, h / 2)); }
function curve(g, e) {
  const ax = g.x[e.a] + g.w[e.a] / 2, ay = g.y[e.a] + g.h[e.a], bx = g.x[e.b] + g.w[e.b] / 2, by = g.y[e.b];
  if (by >= ay) return [ax, ay, ax, (ay + by) / 2, bx, (ay + by) / 2, bx, by];
  const sx = g.x[e.a] + g.w[e.a], tx = g.x[e.b] + g.w[e.b], sy = g.y[e.a] + g.h[e.a] / 2, ty = g.y[e.b] + g.h[e.b] / 2;
  const out = Math.max(sx, tx) + 30 + Math.min(120, Math.abs(sy - ty) / 10);
  return [sx, sy, out, sy, out, ty, tx, ty];
}
function pointOn(c, t) { const u = 1 - t; return [0, 1].map((k) => u ** 3 * c[k] + 3 * u * u * t * c[k + 2] + 3 * u * t * t * c[k + 4] + t ** 3 * c[k + 6]); }
// Texts of edges and where they stand: on no node and no other text.  What finds no place is left out.
function placeLabels(g, edges, solid, chosen) {
  const taken = solid.map((i) => [g.x[i], g.y[i], g.x[i] + g.w[i], g.y[i] + g.h[i]]), out = [];
  const isChosen = ([e]) => e.a === chosen || e.b === chosen;
  for (const edge of [...edges.filter(isChosen), ...edges.filter((e) => !isChosen(e))]) {
    const [e, c] = edge, text = e.many > 1 ? `${e.many} values` : T[g.type[e.from]], half = ctx.measureText(text).width / 2 + 3;
    for (const t of [0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8]) {
      const [x, y] = pointOn(c, t), area = [x - half, y - 7, x + half, y + 6];
      if (taken.some((o) => o[0] < area[2] && o[2] > area[0] && o[1] < area[3] && o[3] > area[1])) continue;
      taken.push(area); out.push({ text, area, x, y, chosen: isChosen(edge) });
      break;
    }
  }
  return out;
}
function paintEdges(g, s, left, top, right, bottom, chosen, solid) {
  ctx.lineWidth = Math.min(1, 0.8 / s); ctx.strokeStyle = faint; ctx.globalAlpha = 0.65;
  const labels = [];
  let drawn = 0;
  ctx.beginPath();
  for (const e of g.edges) {
    const c = curve(g, e);
    if (Math.min(c[0], c[6]) > right || Math.max(c[0], c[2], c[6]) < left || Math.min(c[1], c[7]) > bottom || Math.max(c[1], c[7]) < top) continue;
    if ((Math.abs(c[0] - c[6]) + Math.abs(c[1] - c[7])) * s < 3 || ++drawn > 30000) continue;
    ctx.moveTo(c[0], c[1]); ctx.bezierCurveTo(c[2], c[3], c[4], c[5], c[6], c[7]);
    if (s > 0.35) { if (c[7] > c[1] || c[0] !== c[2]) { const up = c[1] !== c[3] || c[0] === c[2]; if (up) { ctx.moveTo(c[6] - 3.5, c[7] - 6); ctx.lineTo(c[6], c[7]); ctx.lineTo(c[6] + 3.5, c[7] - 6); } else { ctx.moveTo(c[6] + 6, c[7] - 3.5); ctx.lineTo(c[6], c[7]); ctx.lineTo(c[6] + 6, c[7] + 3.5); } } }
    if (s > 0.5 && labels.length < 400) labels.push([e, c]);
  }
  ctx.stroke(); ctx.globalAlpha = 1;
  for (const e of g.near.get(chosen) || []) {
    const c = curve(g, e);
    ctx.strokeStyle = e.b === chosen ? select : accent; ctx.lineWidth = 2.4 / Math.min(1, Math.max(s, 0.3));
    ctx.beginPath(); ctx.moveTo(c[0], c[1]); ctx.bezierCurveTo(c[2], c[3], c[4], c[5], c[6], c[7]); ctx.stroke();
  }
  ctx.font = SMALL; ctx.textAlign = "center";
  for (const { text, area: [x0, y0, x1, y1], x, y, chosen: strong } of placeLabels(g, labels, solid, chosen)) {
    ctx.fillStyle = back; ctx.globalAlpha = 0.85; ctx.fillRect(x0, y0, x1 - x0, y1 - y0); ctx.globalAlpha = 1;
    ctx.fillStyle = strong ? ink : faint; ctx.fillText(text, x, y + 3);
  }
  ctx.textAlign = "left";
}
function itemAt(px, py) {
  const g = d(), v = g.view, x = (px - v.x) / v.s, y = (py - v.y) / v.s;
  const holds = (i) => x >= g.x[i] && x <= g.x[i] + g.w[i] && y >= g.y[i] && y <= g.y[i] + g.h[i];
  let box = 0;
  for (;;) {
    let inner = null;
    for (const rows of g.boxes[box][4]) for (const row of rows) for (const item of row) if (holds(g.id(item))) inner = item;
    if (inner === null) return box ? ~box : null;
    if (inner >= 0) return inner;
    box = ~inner;
    if (!g.open.has(box)) return ~box;
  }
}
function toggle(box) {
  const g = d(), id = g.count + box, v = g.view, x = g.x[id] * v.s + v.x, y = g.y[id] * v.s + v.y;
  if (g.open.has(box)) g.open.delete(box); else { g.open.add(box); if (g.boxes[box][1] !== "scope") S.node = -1; }
  g.layout();
  v.x = x - g.x[id] * v.s; v.y = y - g.y[id] * v.s;
  S.box = box; S.node = -1;
  refresh();
}
function shownItems() { const g = d(), out = []; for (const box of g.open) if (g.isShown(box)) for (const item of g.items(box)) out.push(item); return out.sort((a, b) => g.y[g.id(a)] - g.y[g.id(b)] || g.x[g.id(a)] - g.x[g.id(b)]); }
function next(by) {
  const items = shownItems(), at = items.indexOf(S.box >= 0 ? ~S.box : S.node);
  const item = items[(at + by + items.length) % items.length];
  if (item < 0) { S.box = ~item; S.node = -1; centreOn(d().id(item)); refresh(); } else choose(S.g, item, true);
}

// ----------------------------------------------------------------------- memory
let mem = null;
const EDGE = { left: 74, right: 16, top: 52, bottom: 34 };
function clampMemory() {
  const w = width - EDGE.left - EDGE.right, h = height - EDGE.top - EDGE.bottom;
  mem.ox = Math.min(EDGE.left, Math.max(EDGE.left + w * (1 - mem.zx), mem.ox));
  mem.oy = Math.min(EDGE.top, Math.max(EDGE.top + h * (1 - mem.zy), mem.oy));
}
const most = () => Math.max(1, M.peak, M.budget !== null && M.budget <= 1.5 * M.peak ? M.budget : 0, M.unshared <= 1.5 * M.peak ? M.unshared : 0) * 1.02;
const toX = (step) => mem.ox + (step / Math.max(1, M.steps.length)) * (width - EDGE.left - EDGE.right) * mem.zx;
const toY = (bytes) => mem.oy + (1 - bytes / most()) * (height - EDGE.top - EDGE.bottom) * mem.zy;
const scopeOf = (k) => { const place = drawings[1].places[k][0], at = place === undefined ? -1 : T[place].indexOf(" in "); return at < 0 ? "" : T[place].slice(at + 4); };
const title = (k) => (scopeOf(k) ? `${scopeOf(k)} (${T[drawings[1].name[k]]})` : T[drawings[1].name[k]]);
const valueFill = (k) => fill((k * 137.5) % 360);
const patterns = {};
function pattern(kind) {
  const key = kind + dark.matches;
  if (patterns[key]) return patterns[key];
  const tile = document.createElement("canvas"); tile.width = tile.height = 8;
  const c = tile.getContext("2d"); c.strokeStyle = c.fillStyle = dark.matches ? "#ffffff88" : "#00000066"; c.lineWidth = 1.2;
  if (kind === "kept") for (const k of [-8, 0, 8]) { c.beginPath(); c.moveTo(k, 8); c.lineTo(k + 8, 0); c.stroke(); }
  if (kind === "again") { c.beginPath(); c.moveTo(0, 0); c.lineTo(8, 8); c.moveTo(0, 8); c.lineTo(8, 0); c.stroke(); }
  if (kind === "scratch") { c.beginPath(); c.arc(2, 2, 1.1, 0, 7); c.arc(6, 6, 1.1, 0, 7); c.fill(); }
  return (patterns[key] = ctx.createPattern(tile, "repeat"));
}
function paintMemory() {
  if (!mem) mem = { zx: 1, zy: 1, ox: EDGE.left, oy: EDGE.top };
  const g = drawings[1], run = S.node >= 0 ? runOf(S.g, S.node) : -1, steps = M.steps.length;
  const chosen = new Set(run >= 0 ? blocksOf.get(run) || [] : []); if (S.block >= 0) chosen.add(S.block);
  ctx.save();
  ctx.beginPath(); ctx.rect(EDGE.left, EDGE.top, width - EDGE.left - EDGE.right, height - EDGE.top - EDGE.bottom); ctx.clip();
  ctx.fillStyle = card; ctx.fillRect(0, 0, width, height);
  M.blocks.forEach(([offset, bytes, first, last, kind, tenants], k) => {
    const x0 = toX(first), x1 = toX(last + 1), y0 = toY(offset + bytes), y1 = toY(offset);
    if (x1 < EDGE.left || x0 > width || y1 < EDGE.top || y0 > height) return;
    const w = Math.max(0.7, x1 - x0), h = Math.max(0.7, y1 - y0);
    ctx.fillStyle = kind === "scratch" ? fill(0, 0) : tenants.length ? valueFill(tenants[0][0]) : card;
    if (tenants.length < 2 || w < 3) ctx.fillRect(x0, y0, w, h);
    else tenants.forEach(([node, made], n) => {
      const from = n ? toX(made) : x0, to = n + 1 < tenants.length ? toX(tenants[n + 1][1]) : x1;
      ctx.fillStyle = valueFill(node); ctx.fillRect(from, y0, Math.max(0.5, to - from), h);
    });
    const isAgain = tenants.some(([, made]) => again.has(made));
    if (kind !== "transient" || isAgain) { ctx.fillStyle = pattern(isAgain ? "again" : kind); ctx.fillRect(x0, y0, w, h); }
    if (w > 3 && h > 2) { ctx.strokeStyle = kind === "kept" ? ink : faint; ctx.lineWidth = kind === "kept" ? 1.4 : 0.6; ctx.strokeRect(x0, y0, w, h); }
    tenants.forEach(([node, made], n) => {
      const from = n ? Math.max(x0, toX(made)) : x0, to = n + 1 < tenants.length ? toX(tenants[n + 1][1]) : x1;
      if (n && h > 3) { ctx.fillStyle = ink; ctx.beginPath(); ctx.moveTo(from, y0); ctx.lineTo(from + Math.min(9, w), y0); ctx.lineTo(from, y0 + Math.min(9, h)); ctx.fill(); }
      if (h > 12 && to - from > 34) label([scopeOf(node) || T[g.name[node]], bytesText(bytes)], from + (n ? 11 : 4), (y0 + y1) / 2 + 4, to - from - (n ? 13 : 6), h);
    });
    if (kind === "scratch" && h > 12 && w > 34) label(["scratch", bytesText(bytes)], x0 + 4, (y0 + y1) / 2 + 4, w - 6, h);
  });
  ctx.strokeStyle = ink; ctx.lineWidth = 1.2; ctx.globalAlpha = 0.6; ctx.beginPath();
  M.live.forEach((bytes, k) => { if (!k) ctx.moveTo(toX(k), toY(bytes)); else ctx.lineTo(toX(k), toY(bytes)); ctx.lineTo(toX(k + 1), toY(bytes)); });
  ctx.stroke(); ctx.globalAlpha = 1;
  for (const k of chosen) {
    const [offset, bytes, first, last] = M.blocks[k];
    ctx.strokeStyle = select; ctx.lineWidth = 3; ctx.strokeRect(toX(first), toY(offset + bytes), Math.max(2, toX(last + 1) - toX(first)), Math.max(2, toY(offset) - toY(offset + bytes)));
  }
  for (const [step, colour, dash] of [[peakStep, accent, []], ...(S.step === peakStep ? [] : [[S.step, select, [5, 3]]])]) {
    const x = toX(step), w = Math.max(1.5, toX(step + 1) - x);
    ctx.globalAlpha = 0.16; ctx.fillStyle = colour; ctx.fillRect(x, 0, w, height); ctx.globalAlpha = 1;
    ctx.strokeStyle = colour; ctx.lineWidth = 1.5; ctx.setLineDash(dash); ctx.strokeRect(x, -5, w, height + 10); ctx.setLineDash([]);
  }
  const lineAt = (bytes, name, dash, below) => {
    const y = toY(bytes), text = `${name} ${bytesText(bytes)}`;
    ctx.strokeStyle = ink; ctx.lineWidth = 1.3; ctx.setLineDash(dash); ctx.beginPath(); ctx.moveTo(0, y); ctx.lineTo(width, y); ctx.stroke(); ctx.setLineDash([]);
    ctx.font = "600 11px system-ui, sans-serif";
    const w = ctx.measureText(text).width, x = width - EDGE.right - w - 8;
    ctx.fillStyle = back; ctx.globalAlpha = 0.85; ctx.fillRect(x - 3, below ? y + 2 : y - 15, w + 6, 14); ctx.globalAlpha = 1;
    ctx.fillStyle = ink; ctx.fillText(text, x, below ? y + 13 : y - 4);
  };
  if (M.bound === M.peak) lineAt(M.peak, "arena = lower bound", [], true);
  else { lineAt(M.peak, "arena", [], false); lineAt(M.bound, "lower bound", [6, 4], true); }
  if (M.budget !== null && M.budget <= 1.5 * M.peak) lineAt(M.budget, "budget", [2, 3], false);
  if (M.unshared <= 1.5 * M.peak && M.unshared !== M.peak) lineAt(M.unshared, "unshared sum", [10, 3, 2, 3], false);
  ctx.restore();
  ctx.font = MEDIUM; ctx.fillStyle = faint; ctx.textAlign = "right";
  for (let k = 0; k <= 5; k++) { const b = (most() / 5) * k / mem.zy + (toBytes(height - EDGE.bottom) > 0 ? toBytes(height - EDGE.bottom) : 0), y = toY(b); if (y >= EDGE.top - 1) ctx.fillText(bytesText(Math.round(b)), EDGE.left - 6, y + 4); }
  ctx.textAlign = "center";
  const stride = niceStride(steps / mem.zx / Math.max(2, width / 90));
  for (let k = 0; k < steps; k += stride) { const x = (toX(k) + toX(k + 1)) / 2; if (x > EDGE.left && x < width - EDGE.right) ctx.fillText(String(k), x, height - EDGE.bottom + 14); }
  ctx.fillText("step of the run", width / 2, height - 5);
  ctx.save(); ctx.translate(11, height / 2); ctx.rotate(-Math.PI / 2); ctx.fillText("offset in the arena", 0, 0); ctx.restore();
  if (steps) {
    const text = `▼ peak: ${bytesText(M.live[peakStep])} in use at step ${peakStep}, ${cut(title(M.steps[peakStep]), 60)}`, px = (toX(peakStep) + toX(peakStep + 1)) / 2;
    ctx.font = BOLD; ctx.fillStyle = accent;
    const half = ctx.measureText(text).width / 2;
    ctx.textAlign = "left";
    const tip = ctx.measureText("▼").width / 2, right = px - tip + 2 * half > width - EDGE.right;
    if (right) { ctx.textAlign = "right"; ctx.fillText(text.slice(2) + " ▼", px + tip, EDGE.top - 6); } else ctx.fillText(text, Math.max(px - tip, EDGE.left), EDGE.top - 6);
  }
  ctx.textAlign = "left"; ctx.font = "12px system-ui, sans-serif"; ctx.fillStyle = ink;
  const above = [];
  if (M.unshared > 1.5 * M.peak) above.push(`↑ unshared sum ${bytesText(M.unshared)}, ${(M.unshared / Math.max(1, M.peak)).toFixed(1)} times the arena`);
  if (M.budget !== null && M.budget > 1.5 * M.peak) above.push(`↑ budget ${bytesText(M.budget)}`);
  ctx.fillText(above.join("   "), EDGE.left, 18);
}
const toBytes = (py) => (1 - (py - mem.oy) / ((height - EDGE.top - EDGE.bottom) * mem.zy)) * most();
const niceStride = (raw) => { const unit = 10 ** Math.floor(Math.log10(Math.max(1, raw))); return Math.max(1, [1, 2, 5, 10].map((k) => k * unit).find((k) => k >= raw) || 1); };
function label(lines, x, y, room, tall) {
  ctx.font = MEDIUM; ctx.fillStyle = ink;
  const shown = tall > 28 ? lines : room > 110 ? [lines.join("  ")] : lines.slice(0, 1);
  shown.forEach((text, n) => {
    if (ctx.measureText(text).width > room) {
      const most = Math.floor((room / ctx.measureText(text).width) * text.length) - 1;
      if (n || most < 2) return;
      text = text.length - most > most ? "…" + text.slice(-most) : cut(text, most);
    }
    ctx.fillText(text, x, y + (n - (shown.length - 1) / 2) * 13);
  });
}
function blockAt(px, py) {
  const step = stepAt(px), at = toBytes(py);
  return M.blocks.findIndex(([offset, bytes, first, last]) => step >= first && step <= last && at >= offset && at < offset + bytes);
}
const stepAt = (px) => Math.floor(((px - mem.ox) / ((width - EDGE.left - EDGE.right) * mem.zx)) * M.steps.length);
function tenantAt(block, step) { let found = block[5][0]; for (const one of block[5]) if (one[1] <= step) found = one; return found ? found[0] : -1; }
function setStep(step) { S.step = Math.min(M.steps.length - 1, Math.max(0, step)); S.node = -1; S.block = -1; refresh(); }

// -------------------------------------------------------------------- rewrites
const listed = () => R.records.map((_, k) => k).filter((k) => S.rule < 0 || R.records[k][0] === S.rule);
function stepRecord(by) { const all = listed(); if (!all.length) return; const at = all.indexOf(S.record); S.record = all[Math.min(all.length - 1, Math.max(0, at + by))]; refresh(); }
function fillLedger() {
  const box = $("ledger"), kept = box.scrollTop;
  box.replaceChildren();
  box.append(el("h2", `${R.nodes[0]} nodes became ${R.nodes[1]}: ${countText(R.saved[0])} operations and ${bytesText(R.saved[1])} of traffic saved`));
  if (!R.count) { box.append(el("p", "No rule applied.")); return; }
  const all = listed(), at = Math.max(0, all.indexOf(S.record));
  S.record = all[at] ?? 0;
  const record = R.records[S.record], rule = R.rules[record[0]];
  const bar = el("p", null, { className: "buttons" });
  bar.append(el("button", "◀ Previous", { id: "previous", disabled: at === 0, onclick: () => stepRecord(-1) }), el("button", "Next ▶", { id: "next", disabled: at + 1 >= all.length, onclick: () => stepRecord(1) }),
    el("span", ` rewrite ${at + 1} of ${all.length}${S.rule < 0 ? "" : " by this rule"}${R.count > R.records.length && S.rule < 0 ? `, the first of ${R.count}` : ""}`));
  if (S.rule >= 0) bar.append(el("button", "All rules", { onclick: () => { S.rule = -1; refresh(); } }));
  box.append(bar, el("p", null, {}, el("strong", T[rule[0]]), document.createTextNode(`  (${rule[1]})  `), el("code", T[rule[2]])));
  const side = (items, none) => el("div", null, {}, ...(items.length ? items.map((t) => el("p", T[t])) : [el("p", none, { className: "faint" })]));
  box.append(el("div", null, { className: "change" }, side(record[1], "nothing"), el("span", "→", { className: "arrow" }), side(record[2], "nothing new")));
  box.append(el("p", `saves ${countText(record[5])} operations, ${bytesText(record[6])} read and written`));
  for (const place of record[4]) { box.append(el("p", T[place], { className: "faint" })); if (T[D.lines[place]]) box.append(el("div", T[D.lines[place]], { className: "code" })); }
  const table = el("table");
  table.append(el("tr", null, {}, ...["rule", "class", "times", "operations", "bytes", "says"].map((t, k) => el("th", t, { className: k > 1 && k < 5 ? "number" : "" }))));
  R.rules.forEach(([name, kind, says, times, operations, bytes], k) => {
    const pick = el("button", T[name], { className: "link", onclick: () => { S.rule = k; S.record = R.records.findIndex((r) => r[0] === k); refresh(); } });
    table.append(el("tr", null, { className: k === record[0] ? "chosen" : "" }, el("td", null, {}, pick), el("td", kind), el("td", String(times), { className: "number" }), el("td", countText(operations), { className: "number" }), el("td", bytesText(bytes), { className: "number" }), el("td", null, {}, el("code", T[says]))));
  });
  box.append(table);
  box.scrollTop = kept;
}

// ----------------------------------------------------------------------- panel
function link(text, act) { return el("button", text, { className: "link", onclick: act }); }
function nodeLink(g, k) { const one = drawings[g]; return link(`${T[one.name[k]]}  ${T[one.type[k]]}`, () => choose(g, k, true)); }
function fillPanel() {
  const panel = $("panel");
  panel.replaceChildren();
  if (S.view === "rewrites" && R.count) { const nodes = nodesOf(R.records[S.record]); panel.append(el("h2", "Nodes at these lines")); for (const k of nodes) panel.append(nodeLink(0, k)); if (!nodes.length) panel.append(el("p", "None: it came from an earlier rewrite.", { className: "faint" })); }
  if (S.node >= 0) nodePanel(panel, S.g, S.node);
  else if (S.view === "memory" && S.block >= 0) scratchPanel(panel, M.blocks[S.block]);
  else if (S.view === "memory") stepPanel(panel);
  else if (S.box >= 0) boxPanel(panel);
  else if (S.view === "graph") overview(panel);
}
function overview(panel) {
  const g = d();
  panel.append(el("h2", `${D.title}, ${g.label}`), el("p", `${g.count} nodes, ${g.boxes.length - 1} scopes and repeats`));
  if (M) { panel.append(el("h3", "Memory"), el("p", `arena ${bytesText(M.peak)}, lower bound ${bytesText(M.bound)}, unshared ${bytesText(M.unshared)}${M.budget !== null ? `, budget ${bytesText(M.budget)}` : ""}`), link(`Who is alive at the peak, step ${peakStep}?`, () => { S.step = peakStep; S.node = -1; setView("memory"); })); }
  if (R) panel.append(el("h3", "Rewrites"), link(`${R.count} ${R.count === 1 ? "rewrite" : "rewrites"}: ${R.nodes[0]} nodes became ${R.nodes[1]}`, () => setView("rewrites")));
  panel.append(el("h3", "Largest values"));
  const order = g.bytes.map((_, k) => k).filter((k) => !g.inline[k]).sort((a, b) => g.bytes[b] - g.bytes[a]).slice(0, 12);
  for (const k of order) panel.append(link(`${bytesText(g.bytes[k])}  ${T[g.name[k]]} ${T[g.type[k]]}`, () => choose(S.g, k, true)));
}
function boxPanel(panel) {
  const g = d(), [name, kind, parent, nodes] = g.boxes[S.box];
  panel.append(el("h2", T[name]), el("p", `${nodes} nodes${kind === "repeats" ? ", in repeats of one structure" : ""}`));
  const path = []; for (let b = parent; b > 0; b = g.boxes[b][2]) path.unshift(T[g.boxes[b][0]]);
  if (path.length) panel.append(el("p", "in " + path.join(" › "), { className: "faint" }));
  panel.append(el("button", g.open.has(S.box) ? "Close" : "Open", { onclick: () => toggle(S.box) }));
}
function nodePanel(panel, g, k) {
  const one = drawings[g];
  panel.append(el("h2", T[one.name[k]]), el("p", T[one.type[k]]));
  if (T[one.role[k]]) panel.append(el("p", T[one.role[k]]));
  if (T[one.detail[k]]) panel.append(el("p", T[one.detail[k]], { className: "faint" }));
  panel.append(el("p", `${bytesText(one.bytes[k])} · ${T[one.class[k]]} · ${one.label}`, { className: "faint" }));
  if (one.places[k].length) panel.append(el("h3", "Written at"));
  for (const place of one.places[k]) { panel.append(el("p", T[place])); if (T[D.lines[place]]) panel.append(el("div", T[D.lines[place]], { className: "code" })); }
  if (M) memoryOf(panel, g, k);
  if (R) {
    const found = rewritesAt(g, k);
    if (found.length) panel.append(el("h3", "Rewrites here"));
    for (const r of found.slice(0, 8)) panel.append(link(`${T[R.rules[R.records[r][0]][0]]}: ${R.records[r][1].map((t) => T[t]).join(", ")}`, () => { S.record = r; S.rule = -1; setView("rewrites"); }));
    if (found.length > 8) panel.append(el("p", `and ${found.length - 8} more`, { className: "faint" }));
  }
  for (const [title, list] of [["Reads", one.inputs[k]], ["Read by", one.readers[k]]]) {
    if (list.length) panel.append(el("h3", title));
    for (const other of list.slice(0, 12)) panel.append(nodeLink(g, other));
    if (list.length > 12) panel.append(el("p", `and ${list.length - 12} more`, { className: "faint" }));
  }
  if (drawings.length > 1 && g === 1) { const from = written(k).filter((w) => w >= 0); if (from.length) panel.append(el("h3", "Computes, as written")); for (const w of from.slice(0, 12)) panel.append(link(`${T[drawings[0].name[w]]}  ${T[drawings[0].type[w]]}`, () => { setGraph(0); S.view === "graph" ? choose(0, w, true) : choose(0, w); })); if (from.length > 12) panel.append(el("p", `and ${from.length - 12} more`, { className: "faint" })); }
}
function memoryOf(panel, g, k) {
  const run = runOf(g, k);
  panel.append(el("h3", "Memory"));
  const inside = g === 0 && run >= 0 && isInside(k);
  if (inside) panel.append(el("p", `computed inside ${T[drawings[1].name[run]]}, without memory of its own`));
  else if (run < 0) { panel.append(el("p", "optimised away, or folded into a constant")); return; }
  if (run >= 0 && g === 0 && (inside || drawings[1].name[run] !== drawings[0].name[k])) panel.append(link(`runs as ${T[drawings[1].name[run]]}`, () => { setGraph(1); choose(1, run, true); }));
  if (inside) return;
  if (M.why[run] !== undefined) panel.append(el("p", T[M.why[run]]));
  for (const b of blocksOf.get(run) || []) { const [offset, bytes, first, last, kind] = M.blocks[b]; panel.append(link(`${bytesText(bytes)} at ${offset}, steps ${first} to ${last}, ${kind}`, () => { S.block = b; S.step = Math.max(first, 0); setView("memory"); })); }
  if (!blocksOf.has(run) && M.why[run] === undefined) panel.append(el("p", "outside the arena: an input, a constant, a view or a variable's own memory"));
  for (const s of (stepsOf.get(run) || []).slice(0, 6)) panel.append(el("p", `step ${s}${again.has(s) ? ", computed again" : ""}${over.has(s) ? ", in place" : ""}`, { className: "faint" }));
}
function scratchPanel(panel, block) {
  panel.append(el("h2", "Scratch memory"), el("p", `${bytesText(block[1])} at ${block[0]}, needed while step ${block[2]} runs`));
  if (M.steps[block[2]] !== undefined) panel.append(nodeLink(1, M.steps[block[2]]));
}
function stepPanel(panel) {
  const g = drawings[1], step = S.step, node = M.steps[step];
  if (node === undefined) { panel.append(el("p", "The run has no steps.")); return; }
  const alive = M.blocks.map((b, k) => [b, k]).filter(([b]) => b[2] <= step && step <= b[3]).sort((a, b) => b[0][1] - a[0][1]);
  const total = Math.max(1, M.live[step]);
  panel.append(el("h2", step === peakStep ? `The peak: step ${step} of ${M.steps.length}` : `Step ${step} of ${M.steps.length}`));
  panel.append(nodeLink(1, node));
  for (const place of g.places[node].slice(0, 1)) { panel.append(el("p", T[place], { className: "faint" })); if (T[D.lines[place]]) panel.append(el("div", T[D.lines[place]], { className: "code" })); }
  if (step !== peakStep) panel.append(link(`Go to the peak, step ${peakStep}`, () => setStep(peakStep)));
  panel.append(el("h3", `${alive.length} values in use: ${bytesText(M.live[step])}${M.peak > M.live[step] ? ` of an arena of ${bytesText(M.peak)}` : ""}`));
  const table = el("table");
  for (const [b, k] of alive.slice(0, 40)) {
    const who = b[4] === "scratch" ? -1 : tenantAt(b, step);
    const name = who < 0 ? "scratch" : title(who);
    const notes = [b[4] === "transient" ? "" : b[4] === "kept" ? "kept" : "", b[5].some(([, made]) => again.has(made)) ? "computed again" : "", who === node && over.has(step) ? "in place" : "", who === node ? "being written" : ""].filter(Boolean).join(", ");
    const first = el("td", null, {}, link(name, () => { if (who < 0) { S.block = k; S.node = -1; refresh(); } else choose(1, who, true); }), el("span", who < 0 ? "" : T[g.type[who]] + (notes ? " · " + notes : ""), { className: "faint" }));
    table.append(el("tr", null, {}, first, el("td", bytesText(b[1]), { className: "number" }), el("td", Math.round((100 * b[1]) / total) + " %", { className: "number" })));
  }
  panel.append(table);
  if (alive.length > 40) panel.append(el("p", `and ${alive.length - 40} smaller ones`, { className: "faint" }));
}
function swatch(colour, kind) {
  const c = el("canvas"); c.width = 36; c.height = 24;
  const p = c.getContext("2d"); p.fillStyle = colour; p.fillRect(0, 0, 36, 24);
  if (kind === "in place") { p.fillStyle = ink; p.beginPath(); p.moveTo(0, 0); p.lineTo(18, 0); p.lineTo(0, 18); p.fill(); } else if (kind) { p.fillStyle = pattern(kind); p.fillRect(0, 0, 36, 24); }
  return c;
}
function fillLegend() {
  const box = $("legend");
  box.replaceChildren();
  const add = (text, ...look) => box.append(el("span", null, {}, swatch(...look), document.createTextNode(text)));
  if (S.view === "memory") {
    if (M.blocks.some((b) => b[4] === "transient")) add("for a while", fill(140));
    if (M.blocks.some((b) => b[4] === "kept")) add("kept for the next run", fill(140), "kept");
    if (M.blocks.some((b) => b[5].length > 1)) add("written in place of the one before", fill(140), "in place");
    if (M.again.length) add("computed again", fill(140), "again");
    if (M.blocks.some((b) => b[4] === "scratch")) add("scratch", fill(0, 0), "scratch");
    box.append(el("span", "black line: bytes in use"));
  } else if (S.view === "graph") {
    const g = d();
    if (S.colour === "class") for (const t of new Set(g.class.filter((_, k) => !g.inline[k]))) add(T[t], fill(hueOf(T[t]), T[t] === "constant" ? 0 : 1));
    else if (S.colour === "bytes") for (const part of [1e-3, 1e-2, 0.1, 1]) add(bytesText(Math.round(g.byteMost * part)), heat(part));
    else add("one colour for each block of memory; none: no memory of its own", fill(140));
  }
}

// ---------------------------------------------------------------------- search
function search(words) {
  const box = $("found"), wanted = words.trim().toLowerCase();
  box.replaceChildren();
  if (!wanted) return;
  const g = d(), hit = T.map((t) => t.toLowerCase().includes(wanted));
  let count = 0;
  g.boxes.forEach(([name, kind, , nodes], b) => { if (b && kind !== "part" && hit[name] && count < 12) { count++; box.append(el("button", `▢ ${T[name]}  (${nodes} nodes)`, { onclick: () => { for (let p = g.boxes[b][2]; p >= 0; p = g.boxes[p][2]) g.open.add(p); g.layout(); S.box = b; S.node = -1; closeSearch(); if (S.view !== "graph") setView("graph"); centreOn(g.count + b); refresh(); } })); } });
  for (let k = 0; k < g.count && count < 60; k++) if (hit[g.name[k]] || hit[g.type[k]] || hit[g.role[k]] || g.places[k].some((p) => hit[p] || hit[D.lines[p]])) { count++; box.append(el("button", `${T[g.name[k]]}  ${T[g.type[k]]}  ${g.places[k].length ? T[g.places[k][0]] : ""}`, { onclick: () => { closeSearch(); choose(S.g, k, true); } })); }
  if (!count) box.append(el("button", "nothing found", { disabled: true }));
}
function closeSearch() { $("found").replaceChildren(); $("search").value = ""; canvas.focus({ preventScroll: true }); }

// ---------------------------------------------------------------------- events
const pointers = new Map();
let moved = 0, spread = 0;
const spot = (e) => { const box = canvas.getBoundingClientRect(); return [e.clientX - box.left, e.clientY - box.top]; };
canvas.addEventListener("pointerdown", (e) => { canvas.setPointerCapture(e.pointerId); pointers.set(e.pointerId, spot(e)); if (pointers.size === 1) moved = 0; spread = 0; canvas.focus({ preventScroll: true }); });
canvas.addEventListener("pointermove", (e) => {
  const [x, y] = spot(e), was = pointers.get(e.pointerId);
  if (!was) return hover(x, y);
  pointers.set(e.pointerId, [x, y]);
  moved += Math.abs(x - was[0]) + Math.abs(y - was[1]);
  if (moved < 4) return;
  $("tip").hidden = true;
  if (pointers.size === 1) return pan(x - was[0], y - was[1]);
  const [[ax, ay], [bx, by]] = [...pointers.values()], now = Math.hypot(ax - bx, ay - by);
  if (spread) zoom(now / spread, (ax + bx) / 2, (ay + by) / 2);
  spread = now;
  pan((x - was[0]) / 2, (y - was[1]) / 2);
});
canvas.addEventListener("pointerup", (e) => { const single = pointers.size === 1; pointers.delete(e.pointerId); spread = 0; if (single && moved < 4) click(...spot(e)); });
canvas.addEventListener("pointercancel", (e) => pointers.delete(e.pointerId));
canvas.addEventListener("pointerleave", () => { $("tip").hidden = true; });
canvas.addEventListener("wheel", (e) => { e.preventDefault(); if (e.shiftKey) return pan(-e.deltaY, 0); zoom(Math.exp(-Math.max(-60, Math.min(60, e.deltaY)) / 250), ...spot(e)); }, { passive: false });
function click(x, y) {
  if (S.view === "graph") {
    const item = itemAt(x, y);
    if (item === null) { S.node = S.box = -1; refresh(); } else if (item < 0) toggle(~item); else choose(S.g, item, false);
    return;
  }
  const k = blockAt(x, y), step = stepAt(x);
  if (step < 0 || step >= M.steps.length) return;
  S.step = step; S.node = -1; S.block = -1;
  if (k >= 0) { const who = tenantAt(M.blocks[k], step); if (who >= 0) choose(1, who, false); S.block = k; }
  refresh();
}
function hover(x, y) {
  const tip = $("tip");
  let text = "";
  if (S.view === "graph" && d().view) { const item = itemAt(x, y), g = d(); if (item !== null && item >= 0) text = `${T[g.name[item]]} ${T[g.type[item]]}\n${bytesText(g.bytes[item])}${g.places[item].length ? "\n" + T[g.places[item][0]] : ""}`; else if (item !== null) text = `${T[g.boxes[~item][0]]}: ${g.boxes[~item][3]} nodes, click to ${g.open.has(~item) ? "close" : "open"}`; }
  if (S.view === "memory" && mem) { const k = blockAt(x, y), step = stepAt(x); if (k >= 0) { const b = M.blocks[k], g = drawings[1], who = tenantAt(b, step); text = `${who < 0 ? "scratch" : T[g.name[who]] + " " + T[g.type[who]]}\n${bytesText(b[1])} at ${b[0]}, steps ${b[2]} to ${b[3]}, ${b[4]}${who >= 0 && g.places[who].length ? "\n" + T[g.places[who][0]] : ""}`; } else if (step >= 0 && step < M.steps.length && y > EDGE.top) text = `step ${step}: ${T[drawings[1].name[M.steps[step]]]}, ${bytesText(M.live[step])} in use`; }
  tip.hidden = !text;
  tip.textContent = text;
  tip.style.left = Math.max(0, Math.min(x + 14, width - 320)) + "px"; tip.style.top = Math.min(y + 14, height - 70) + "px";
}
document.addEventListener("keydown", (e) => {
  if (e.target === $("search")) { if (e.key === "Escape") closeSearch(); if (e.key === "Enter") { const first = $("found").querySelector("button:not([disabled])"); if (first) first.click(); } if (e.key === "ArrowDown") { const first = $("found").querySelector("button"); if (first) { first.focus(); e.preventDefault(); } } return; }
  if (e.ctrlKey || e.metaKey || e.altKey || e.target.tagName === "SELECT") return;
  if (e.key === "/") { e.preventDefault(); $("search").focus(); return; }
  if (e.target.getAttribute && e.target.getAttribute("role") === "tab" && (e.key === "ArrowLeft" || e.key === "ArrowRight")) { const at = VIEWS.findIndex(([v]) => v === S.view), to = VIEWS[(at + (e.key === "ArrowRight" ? 1 : VIEWS.length - 1)) % VIEWS.length][0]; setView(to); [...$("tabs").children].find((t) => t.dataset.view === to).focus(); e.preventDefault(); return; }
  if (/^[123]$/.test(e.key) && VIEWS[e.key - 1]) return setView(VIEWS[e.key - 1][0]);
  if (S.view === "rewrites") { if (e.key === "ArrowLeft" || e.key === "ArrowRight") { stepRecord(e.key === "ArrowRight" ? 1 : -1); e.preventDefault(); } return; }
  if (e.target !== canvas && e.target !== document.body) return;
  const act = { "+": () => zoom(1.25), "=": () => zoom(1.25), "-": () => zoom(0.8), 0: fitWhole, ArrowUp: () => pan(0, 60), ArrowDown: () => pan(0, -60), ArrowLeft: () => pan(60, 0), ArrowRight: () => pan(-60, 0) };
  if (S.view === "graph") Object.assign(act, { n: () => next(1), p: () => next(-1), o: () => { d().openMore(); refresh(); }, c: () => { d().closeAll(); fit(); refresh(); }, Enter: () => { if (S.box >= 0) toggle(S.box); }, Escape: () => { S.node = S.box = -1; refresh(); } });
  else Object.assign(act, { ArrowLeft: () => setStep(S.step - 1), ArrowRight: () => setStep(S.step + 1), m: () => setStep(peakStep), Home: () => setStep(0), End: () => setStep(M.steps.length - 1), Enter: () => choose(1, M.steps[S.step], false), Escape: () => setStep(S.step) });
  if (Object.hasOwn(act, e.key)) { act[e.key](); e.preventDefault(); }
});

// ----------------------------------------------------------------------- start
$("title").textContent = D.title; document.title = D.title + " – Tawny";
for (const [view, name] of VIEWS) { const tab = el("button", name, { onclick: () => setView(view) }); tab.dataset.view = view; tab.setAttribute("role", "tab"); $("tabs").append(tab); }
drawings.forEach((g, k) => $("which").append(el("option", g.label, { value: String(k) })));
for (const [value, name] of COLOURS) $("colour").append(el("option", name, { value }));
$("which").onchange = () => { const g = Number($("which").value), was = S.g, node = S.node; S.box = -1; setGraph(g); if (node >= 0) { S.g = g; const other = g === 1 ? runOf(was, node) : (written(node)[0] ?? -1); S.node = -1; if (other >= 0) choose(g, other, true); } refresh(); };
$("colour").onchange = () => { S.colour = $("colour").value; refresh(); };
$("zoom-in").onclick = () => zoom(1.25); $("zoom-out").onclick = () => zoom(0.8); $("fit").onclick = fitWhole;
$("open-all").onclick = () => { d().openMore(); refresh(); }; $("close-all").onclick = () => { d().closeAll(); fit(); refresh(); };
$("search").oninput = () => search($("search").value);
dark.onchange = () => { readColours(); refresh(); };
readColours();
new ResizeObserver(resize).observe($("stage"));
resize(); setView("graph");
document.documentElement.dataset.ready = "1";
