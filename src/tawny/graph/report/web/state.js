// -------------------------------------------------------- links between the views
const R = D.rewrites, P = D.time;
const written = (run) => backTwins.get(run) || [];
const backTwins = new Map();
(D.twins || []).forEach((twin, k) => { if (twin !== NONE) { const run = twin < 0 ? ~twin : twin; if (!backTwins.has(run)) backTwins.set(run, []); backTwins.get(run).push(k); } });
// Drawings: 0 as written, 1 as run, then as run by the other plan, or between passes.
const isOther = (g) => g === 2 && Boolean(D.others), isPass = (g) => g >= 2 && !D.others;
const linkOf = (g, side, k) => D.links[g - 2][side][drawings[g].outermost(k)];
const fromRun = new Map();
(D.others || []).forEach((run, k) => { if (run >= 0) fromRun.set(run, k); });
const twinOf = (k) => (D.twins && D.twins[k] !== NONE ? (D.twins[k] < 0 ? ~D.twins[k] : D.twins[k]) : -1);
// The step that computes a node: for what is inside a loop, the loop.
const runOf = (g, k) => (g === 0 ? twinOf(k) : isOther(g) ? D.others[drawings[2].outermost(k)] : isPass(g) ? linkOf(g, 1, k) : drawings[g].outermost(k));
const isInside = (g, k) => drawings[g].owner[k] !== undefined || (g === 0 && D.twins && D.twins[k] < 0);
const maps = (D.memories || []).map((data, number) => new MemoryMap(data, number + 1, number));
const M = maps[0];
// A node of one drawing in another.
function inGraph(to, g, k) {
  if (to === g) return k;
  const run = runOf(g, k), source = g === 0 ? k : isPass(g) ? linkOf(g, 0, k) : -1;
  if (to === 1) return run;
  if (isOther(to)) return fromRun.get(run) ?? -1;
  if (to === 0) return source >= 0 ? source : (written(run)[0] ?? -1);
  const same = (side, wanted) => (wanted >= 0 ? D.links[to - 2][side].indexOf(wanted) : -1);
  return same(0, source) >= 0 ? same(0, source) : same(1, run);
}
const rowsOf = new Map(), timesOf = new Map(), lastRun = new Set(D.last ? D.last.executed : []);
if (P) P.rows.forEach((row, k) => { const node = row[1]; if (node < 0) return; if (!rowsOf.has(node)) rowsOf.set(node, []); rowsOf.get(node).push(k); timesOf.set(node, (timesOf.get(node) || 0) + row[2]); });
const timeMost = [...timesOf.values()].reduce((a, b) => Math.max(a, b), 1e-12);
const byPlace = new Map();
if (R) R.records.forEach((record, k) => { for (const p of record[4]) { if (!byPlace.has(p)) byPlace.set(p, []); byPlace.get(p).push(k); } });
const rewritesAt = (g, k) => { const out = new Set(); for (const p of drawings[g].places[k]) for (const r of byPlace.get(p) || []) if (R.records[r][3].includes(drawings[g].name[k])) out.add(r); return [...out]; };
function nodesOf(record) {
  const d = drawings[0], places = new Set(record[4]), names = new Set(record[3]), out = [];
  for (let k = 0; k < d.count && out.length < 30; k++) if (names.has(d.name[k]) && d.places[k].some((p) => places.has(p))) out.push(k);
  return out;
}

// ---------------------------------------------------------------------- state
const S = { view: D.first || "graph", g: 0, node: -1, box: -1, block: -1, map: 0, step: M ? M.peakStep : 0, axis: "step", row: -1, record: 0, pass: 0, rule: -1, colour: "class" };
const d = () => drawings[S.g];
const VIEWS = [["graph", "Graph"], ...(M ? [["memory", "Memory"]] : []), ...(R ? [["rewrites", "Rewrites"]] : []), ...(P ? [["time", "Time"]] : [])];
const COLOURS = [["class", "kind of operation"], ["bytes", "bytes"], ...(M ? [["block", "memory block"]] : []), ...(P ? [["time", "time"]] : []), ...(D.last ? [["last", "computed in the last run"]] : [])];

function choose(g, node, centre) {
  S.box = -1;
  if (S.view === "graph" && g !== S.g) { const other = inGraph(S.g, g, node); if (other >= 0) { g = S.g; node = other; } else setGraph(g); }
  S.g = g; S.node = node; $("which").value = String(g);
  const run = M ? runOf(g, node) : -1;
  if (M && S.view !== "memory") S.map = isOther(g) ? 1 : 0;
  const map = maps[S.map], own = map ? nodeIn(map, g, node) : -1, homes = own >= 0 ? map.blocksOf.get(own) : null;
  S.block = homes ? homes[0] : -1;
  if (own >= 0 && map.stepsOf.has(own) && S.view !== "memory") S.step = map.stepsOf.get(own)[0];
  if (P && run >= 0 && rowsOf.has(run) && !(S.row >= 0 && P.rows[S.row][1] === run)) S.row = rowsOf.get(run)[0];
  if (R && S.view !== "rewrites") { const found = rewritesAt(g, node); if (found.length) { S.record = found[0]; S.rule = -1; S.pass = Math.max(0, passOf(S.record)); } }
  if (S.view === "graph" && centre) { let shown = node; if (d().inline[node] && d().readers[node].length) shown = d().readers[node][0]; d().reveal(shown); centreOn(d().shown[shown]); }
  refresh();
}
function setGraph(g) { S.g = g; $("which").value = String(g); }
function setView(view) {
  S.view = view;
  $("tip").hidden = true;
  for (const tab of $("tabs").children) { tab.setAttribute("aria-selected", String(tab.dataset.view === view)); tab.tabIndex = tab.dataset.view === view ? 0 : -1; }
  $("ledger").hidden = $("passes").hidden = view !== "rewrites";
  canvas.hidden = view === "rewrites" && !isPassDrawn();
  $("times").hidden = view !== "time"; $("stage").dataset.view = view;
  for (const one of document.querySelectorAll(".for-memory")) one.hidden = view !== "memory" || !P;
  for (const one of document.querySelectorAll(".for-graph")) one.hidden = view !== "graph";
  if (drawings.length < 2) $("graph-choice").hidden = true;
  for (const one of document.querySelectorAll(".for-map")) one.hidden = canvas.hidden;
  $("keys").textContent = { graph: "drag or arrows: move · wheel, + −: zoom · 0: fit · n p: next, previous · Enter: open or close a box · /: search", memory: "← →: step · Enter: value written there · m: the peak · wheel, + −: zoom · drag: move · 0: fit", rewrites: "← →: previous, next rewrite · [ ]: previous, next pass · wheel, + −: zoom · drag: move", time: "← →: step before, after · ↑ ↓: in the table · Enter: in the graph · m: the slowest · wheel, + −: zoom · 0: fit" }[view];
  if (view === "graph" && S.node >= 0) { const k = seenFor(d(), S.node); if (!d().inline[k]) { d().reveal(k); if (d().view) centreOn(d().shown[k]); } }
  canvas.style.flex = view === "time" ? `0 0 ${timelineHeight()}px` : "";
  refresh(); resize();
  if (view === "rewrites") lookAtRecord();
  if (document.documentElement.dataset.ready) (canvas.hidden ? $("ledger") : canvas).focus({ preventScroll: true });
}

// -------------------------------------------------------------------- the views' frame
let width = 0, height = 0, dpr = 1, waiting = false;
function resize() {
  if (S.view === "time") canvas.style.flex = `0 0 ${timelineHeight()}px`;
  dpr = devicePixelRatio || 1;
  const box = (canvas.hidden ? $("stage") : canvas).getBoundingClientRect();
  width = box.width; height = box.height;
  const wide = Math.max(1, Math.round(width * dpr)), tall = Math.max(1, Math.round(height * dpr));
  if (canvas.width === wide && canvas.height === tall) { draw(); return; }
  canvas.width = wide; canvas.height = tall;
  paint();
}
function draw() { if (!waiting) { waiting = true; requestAnimationFrame(() => { waiting = false; paint(); }); } }
function paint() {
  if (!width || !height || canvas.hidden) return;
  ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
  ctx.fillStyle = back; ctx.fillRect(0, 0, width, height);
  ({ graph: () => paintGraph(), memory: paintMemory, rewrites: paintPass, time: paintTime })[S.view]();
}
function refresh() { fillPanel(); fillLegend(); if (S.view === "rewrites") fillLedger(); if (S.view === "time") fillTimes(); draw(); }

const LEAST_SCALE = 0.002;
function fit() {
  if (panes().length) for (const { g, area } of panes()) fitIn(g, area); else { Object.assign(near, { zx: 1, zy: 1, ox: 0, oy: 0 }); Object.assign(clock, { z: 1, o: 0 }); }
  draw();
}
// The drawings of graphs that are seen, and where.
function panes() {
  if (S.view === "graph") return [{ g: d(), area: wholeArea() }];
  if (S.view !== "rewrites" || !isPassDrawn()) return [];
  const half = width / 2;
  return passDrawings().map((g, n) => ({ g, area: { x: n * half, y: 0, w: half, h: height } }));
}
const paneAt = (px) => { const found = panes(); return found[found.length > 1 && px > width / 2 ? 1 : 0]; };
const wholeArea = () => ({ x: 0, y: 0, w: width, h: height });
// What is seen first: everything, or the beginning if that would be too small to read.
function fitIn(g, { w: wide, h: tall }) {
  const w = g.w[g.count], h = g.h[g.count], whole = Math.min((wide - 40) / w, (tall - 40) / h, 1.25);
  const s = Math.max(whole, Math.min(0.75, (wide - 40) / w));
  g.view = { s, x: (wide - w * s) / 2, y: h * s > tall - 40 ? 20 : (tall - h * s) / 2 };
}
function fitWhole() {
  if (!panes().length) return fit();
  for (const { g, area } of panes()) {
    const w = g.w[g.count], h = g.h[g.count], s = Math.max(LEAST_SCALE, Math.min((area.w - 40) / w, (area.h - 40) / h, 1.25));
    g.view = { s, x: (area.w - w * s) / 2, y: (area.h - h * s) / 2 };
  }
  draw();
}
function centreOn(id, g = d(), area = wholeArea(), least = 0.7) {
  if (id < 0) return;
  if (!g.view) fitIn(g, area);
  const s = Math.max(g.view.s, least);
  g.view = { s, x: area.w / 2 - (g.x[id] + g.w[id] / 2) * s, y: area.h / 2 - (g.y[id] + g.h[id] / 2) * s };
}
function zoom(factor, px = width / 2, py = height / 2) {
  const pane = paneAt(px);
  if (pane) {
    const v = pane.g.view, s = Math.min(6, Math.max(LEAST_SCALE, v.s * factor)), x = px - pane.area.x;
    v.x = x - ((x - v.x) * s) / v.s; v.y = py - ((py - v.y) * s) / v.s; v.s = s;
  } else if (S.view === "memory") {
    const a = mapAt(px).area, f = Math.max(1, near.zx * factor) / near.zx, e = Math.max(1, near.zy * factor) / near.zy;
    const u = (px - a.left) / (a.right - a.left), v = (py - a.top) / (a.bottom - a.top);
    near.ox = u - (u - near.ox) * f; near.oy = v - (v - near.oy) * e; near.zx *= f; near.zy *= e; clampNear();
  } else zoomTime(factor, px);
  draw();
}
function pan(dx, dy, px = 0) {
  const pane = paneAt(px);
  if (pane) { pane.g.view.x += dx; pane.g.view.y += dy; } else if (S.view === "memory") { const a = M.area; near.ox += dx / (a.right - a.left); near.oy += dy / (a.bottom - a.top); clampNear(); } else panTime(dx);
  draw();
}

