// ------------------------------------------------------------------------ graph
function nodeFill(g, k) {
  if (S.colour === "bytes") return heat(g.bytes[k] / g.byteMost);
  if (S.colour === "time") { const took = timeOf(g.index, k); return took === null ? card : heat(took / timeMost); }
  if (S.colour === "last") { const run = runOf(g.index, k); return run >= 0 && lastRun.has(run) ? fill(28, 1) : card; }
  if (S.colour === "block") { const map = g.index === 2 ? maps[1] : M, run = nodeIn(map, g.index, k), homes = run >= 0 && !(g.index === 0 && isInside(k)) ? map.blocksOf.get(run) : null; return homes ? fill((homes[0] * 137.5) % 360) : card; }
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
      ctx.fillStyle = isOpen ? (dark.matches ? "#ffffff0a" : "#0000000a") : S.colour === "bytes" ? heat(boxBytes(g, box) / g.byteMost) : S.colour === "time" ? heat(boxTime(g, box) / timeWhole()) : S.colour === "last" && boxRan(g, box) ? fill(28, 1) : card;
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

