// ------------------------------------------------------------------------ graph
const READABLE = 0.3, DETAILED = 0.5, COARSE = 0.12, TINY = 4, SPECK = 0.4;
function nodeFill(g, k) {
  const { colour } = S;
  if (colour === "bytes") return heat(g.bytes[k] / g.byteMost);
  if (colour === "time") { const took = timeOf(g.index, k); return took === null ? card : heat(took / timeMost); }
  if (colour === "last") { const run = runOf(g.index, k); return run >= 0 && lastRun.has(run) ? fill(28, 1) : card; }
  if (colour === "block") {
    const map = isOther(g.index) ? maps[1] : M, run = map ? nodeIn(map, g.index, k) : -1;
    const homes = run >= 0 && !isInside(g.index, k) ? map.blocksOf.get(run) : null;
    return homes ? fill((homes[0] * 137.5) % 360) : card;
  }
  const word = T[g.class[k]];
  return fill(hueOf(word), word === "constant" ? 0 : 1);
}
function boxFill(g, box) {
  if (S.colour === "bytes") return heat(boxBytes(g, box) / g.byteMost);
  if (S.colour === "time") return heat(boxTime(g, box) / timeWhole());
  return S.colour === "last" && boxRan(g, box) ? fill(28, 1) : card;
}
function heat(part) {
  const p = Math.max(0, 1 + Math.log10(Math.max(part, 1e-4)) / 4);
  return dark.matches ? `hsl(28 ${80 * p}% ${14 + 19 * p}%)` : `hsl(28 ${100 * p}% ${97 - 37 * p}%)`;
}
function boxBytes(g, box) {
  g.boxMost = g.boxMost || new Map();
  if (!g.boxMost.has(box)) g.boxMost.set(box, nodesIn(g, box).reduce((most, k) => Math.max(most, g.bytes[k]), 0));
  return g.boxMost.get(box);
}
function rounded(x, y, w, h, r) { ctx.beginPath(); ctx.roundRect(x, y, w, h, Math.min(r, w / 2, h / 2)); }
// The item that is drawn for what is selected.
function chosenIn(g) {
  if (g !== d()) return -1;
  if (S.box >= 0) return g.count + S.box;
  if (S.node < 0) return -1;
  return g.shown[g.inline[S.node] && g.readers[S.node].length ? g.readers[S.node][0] : S.node];
}
// A drawing in a part of the canvas; `marks` says of nodes in which colour they are framed.
function paintGraph(g = d(), area = wholeArea(), marks = null) {
  if (!g.view) fitIn(g, area);
  const { s } = g.view, x = g.view.x + area.x, y = g.view.y + area.y;
  const seenArea = [(area.x - x) / s, (area.y - y) / s, (area.x + area.w - x) / s, (area.y + area.h - y) / s];
  const seen = (i) => g.x[i] < seenArea[2] && g.x[i] + g.w[i] > seenArea[0] && g.y[i] < seenArea[3] && g.y[i] + g.h[i] > seenArea[1];
  const chosen = chosenIn(g), stack = [0], opened = [], closed = [], leaves = [], specks = [];
  ctx.save();
  ctx.beginPath(); ctx.rect(area.x, area.y, area.w, area.h); ctx.clip();
  ctx.setTransform(dpr * s, 0, 0, dpr * s, dpr * x, dpr * y);
  while (stack.length) {
    const box = stack.pop(), id = g.count + box;
    if (box && !seen(id)) continue;
    if (box && !g.open.has(box)) { closed.push(box); continue; }
    if (box && Math.min(g.w[id], g.h[id]) * s < TINY) { specks.push(id); if (Math.max(g.w[id], g.h[id]) * s < TINY) continue; } else if (box) { opened.push(box); paintOpen(g, box, s, chosen); }
    for (const item of g.items(box)) if (item < 0) stack.push(~item); else if (seen(item)) leaves.push(item);
  }
  paintSpecks(g, specks, s);
  paintEdges(g, s, seenArea, chosen);
  for (const box of closed) paintClosed(g, box, s, chosen, marks);
  if (s < COARSE) paintCoarse(g, leaves, s, chosen, marks); else for (const k of leaves) paintNode(g, k, s, chosen, marks);
  for (const box of opened) paintName(g, box, s);
  if (s > DETAILED) paintLabels(g, seenArea, chosen, [...closed.map((box) => g.rect(g.count + box)), ...leaves.map((k) => g.rect(k)), ...opened.map((box) => nameRect(g, box))]);
  ctx.restore();
}
const nameRect = (g, box) => { const id = g.count + box; return [g.x[id] + 6, g.y[id] + 4, g.nameWidth(box), 17]; };
function paintOpen(g, box, s, chosen) {
  const id = g.count + box;
  ctx.fillStyle = dark.matches ? "#ffffff0a" : "#0000000a";
  ctx.strokeStyle = id === chosen ? select : line; ctx.lineWidth = (id === chosen ? 3 : 1.2) / Math.min(1, Math.max(s, READABLE));
  rounded(g.x[id], g.y[id], g.w[id], g.h[id], 8); ctx.fill();
  ctx.setLineDash(g.boxes[box][1] === "part" ? [4, 3] : []); ctx.stroke(); ctx.setLineDash([]);
}
function paintName(g, box, s) {
  const id = g.count + box;
  if (s <= 0.25 && g.w[id] * s <= 60) return;
  ctx.fillStyle = faint; ctx.font = `600 ${Math.min(22, Math.max(12, 10 / s))}px ${FONT}`;
  ctx.fillText("− " + g.boxLabel(box), g.x[id] + 10, g.y[id] + 17);
}
function paintClosed(g, box, s, chosen, marks) {
  const id = g.count + box, x = g.x[id], y = g.y[id], w = g.w[id], h = g.h[id], { strip, text } = g.content(box);
  const mark = marks && marks.boxes.get(id);
  ctx.strokeStyle = id === chosen ? select : mark || faint; ctx.lineWidth = (id === chosen || mark ? 3 : 1) / Math.min(1, Math.max(s, READABLE));
  if (g.boxes[box][1] === "repeats") for (const shift of [6, 3]) { rounded(x + shift, y - shift, w, h, 7); ctx.fillStyle = card; ctx.fill(); ctx.stroke(); }
  rounded(x, y, w, h, 7); ctx.fillStyle = boxFill(g, box); ctx.fill();
  if (S.colour === "class") {
    ctx.save(); ctx.clip();
    let left = x;
    for (const [word, part] of strip) { ctx.fillStyle = fill(hueOf(word), word === "constant" ? 0 : 1); ctx.fillRect(left, y + h - 6, part * w, 6); left += part * w; }
    ctx.restore(); rounded(x, y, w, h, 7);
  }
  ctx.setLineDash(g.boxes[box][1] === "part" ? [4, 3] : []); ctx.stroke(); ctx.setLineDash([]);
  if (s <= 0.25 && w * s <= 60) return;
  ctx.fillStyle = ink; ctx.font = BOLD; ctx.fillText("+ " + g.boxLabel(box), x + 10, y + 17);
  if (s > READABLE) { ctx.font = SMALL; ctx.fillStyle = faint; ctx.fillText(text, x + 10, y + 32); }
}
function paintNode(g, k, s, chosen, marks) {
  const x = g.x[k], y = g.y[k], w = g.w[k], h = g.h[k], mark = marks && marks.nodes.get(k);
  ctx.fillStyle = nodeFill(g, k);
  const isSource = T[g.class[k]] === "variable", isNamed = T[g.role[k]] !== "";
  rounded(x, y, w, h, isSource ? 12 : 5); ctx.fill();
  ctx.strokeStyle = k === chosen ? select : mark || (isNamed ? accent : faint);
  ctx.lineWidth = k === chosen || mark ? 3 : isNamed || isSource ? 1.8 : 0.8; ctx.stroke();
  if (s <= READABLE) return;
  const lines = g.lines(k);
  ctx.fillStyle = ink; ctx.font = BOLD; ctx.fillText(lines[0], x + 9, y + 16);
  ctx.font = SMALL;
  for (let n = 1; n < lines.length; n++) ctx.fillText(lines[n], x + 9, y + 16 + 13 * n);
}

// Nodes that are too small for texts: rectangles, all of a colour at once.
function paintCoarse(g, leaves, s, chosen, marks) {
  const fills = new Map();
  for (const k of leaves) {
    if (g.h[k] * s < SPECK) continue;
    const own = nodeFill(g, k);
    if (!fills.has(own)) fills.set(own, []);
    fills.get(own).push(k);
  }
  for (const [own, nodes] of fills) { ctx.fillStyle = own; ctx.beginPath(); for (const k of nodes) ctx.rect(g.x[k], g.y[k], g.w[k], g.h[k]); ctx.fill(); }
  const framed = marks ? [...marks.nodes] : [];
  if (chosen >= 0 && chosen < g.count) framed.push([chosen, select]);
  for (const [k, colour] of framed) { ctx.strokeStyle = colour; ctx.lineWidth = 3 / s; ctx.strokeRect(g.x[k], g.y[k], g.w[k], g.h[k]); }
}
// Boxes that are hardly seen.
function paintSpecks(g, ids, s) {
  ctx.fillStyle = line; ctx.beginPath();
  for (const id of ids) ctx.rect(g.x[id], g.y[id], Math.max(g.w[id], 1 / s), Math.max(g.h[id], 0.5 / s));
  ctx.fill();
}

// ---- edges
const MAX_EDGES = 6000, MAX_LABELS = 400, ROUTE_MS = 8;
// Ways are found as they are seen, for some milliseconds of each picture; until then edges are drawn without.
let routeUntil = 0, isUnrouted = false;
function trace(g, edge) {
  ctx.moveTo(...edge.start);
  if (!edge.points && g.view.s >= COARSE && performance.now() > routeUntil) isUnrouted = true;
  const isRouted = edge.points || (g.view.s >= COARSE && !isUnrouted);
  if (isRouted) for (const bend of g.bends(edge)) ctx.bezierCurveTo(...bend);
  else if (g.view.s < COARSE) ctx.lineTo(...edge.end);
  else for (const bend of bendsOf([edge.start, edge.end], edge.way)) ctx.bezierCurveTo(...bend);
}
function arrow(edge) {
  const [x, y] = edge.end;
  for (const side of [-3.5, 3.5]) { const [u, v] = turned(edge.way, x, y); ctx.moveTo(...turnedBack(edge.way, u + side, v - 6)); ctx.lineTo(x, y); }
}
// Whether an edge may be seen; one that is routed knows what it covers.
function isSeen(edge, [left, top, right, bottom]) {
  const [ax, ay, bx, by] = edge.area || [Math.min(edge.start[0], edge.end[0]) - 60, Math.min(edge.start[1], edge.end[1]), Math.max(edge.start[0], edge.end[0]) + 60, Math.max(edge.start[1], edge.end[1])];
  return ax < right && bx > left && ay < bottom && by > top;
}
function paintEdges(g, s, area, chosen) {
  let drawn = 0;
  const shown = [];
  routeUntil = performance.now() + ROUTE_MS; isUnrouted = false;
  for (const edge of g.edges) {
    if (!isSeen(edge, area) || (Math.abs(edge.start[0] - edge.end[0]) + Math.abs(edge.start[1] - edge.end[1])) * s < 3) continue;
    if (++drawn > MAX_EDGES) break;
    shown.push(edge);
  }
  const stroke = (edges, colour, wide) => {
    ctx.strokeStyle = colour; ctx.lineWidth = wide; ctx.beginPath();
    for (const edge of edges) { trace(g, edge); if (s > 0.35) arrow(edge); }
    ctx.stroke();
  };
  const goesBack = (edge) => edge.way === UP;
  stroke(shown.filter((edge) => !goesBack(edge)), wire, Math.min(1.1, 0.8 / s));
  stroke(shown.filter(goesBack), returned, Math.min(1.1, 0.8 / s));
  const own = g.near.get(chosen) || [], strong = 2.4 / Math.min(1, Math.max(s, READABLE));
  stroke(own.filter((edge) => edge.b === chosen), select, strong);
  stroke(own.filter((edge) => edge.a === chosen), accent, strong);
  if (isUnrouted) draw();
}
function pointOn(from, c, t) { const u = 1 - t; return [0, 1].map((k) => u ** 3 * from[k] + 3 * u * u * t * c[k] + 3 * u * t * t * c[k + 2] + t ** 3 * c[k + 4]); }
// Points where the text of an edge may stand: beside its middle, on it, nearer to its ends.
function* textPoints(g, edge, half) {
  const bends = g.bends(edge), middle = (bends.length - 1) / 2, order = bends.map((_, k) => k).sort((a, b) => Math.abs(a - middle) - Math.abs(b - middle));
  const aside = isVertical(edge.way) ? (half + 2) * (edge.isDouble && edge.way === DOWN ? -1 : 1) : 0;
  for (const t of [0.5, 0.35, 0.65, 0.2, 0.8]) for (const k of order.slice(0, 5)) {
    const [x, y] = pointOn(edge.points[k], bends[k], t);
    for (const dx of aside ? [aside, -aside, 0] : [0]) yield [x + dx, y];
  }
}
const edgeText = (g, edge) => (edge.many > 1 ? `${edge.many} values` : T[g.type[edge.from]]);
// Texts of edges and where they stand: on no node and no other text.  What finds no place is left out.
function placeLabels(g, edges, solid, chosen) {
  const taken = solid.map(([x, y, w, h]) => [x, y, x + w, y + h]), out = [];
  const isChosen = (edge) => edge.a === chosen || edge.b === chosen;
  for (const edge of [...edges.filter(isChosen), ...edges.filter((e) => !isChosen(e))]) {
    const text = edgeText(g, edge), half = ctx.measureText(text).width / 2 + 3;
    for (const [x, y] of textPoints(g, edge, half)) {
      const area = [x - half, y - 7, x + half, y + 6];
      if (taken.some((o) => o[0] < area[2] && o[2] > area[0] && o[1] < area[3] && o[3] > area[1])) continue;
      taken.push(area); out.push({ text, area, x, y, chosen: isChosen(edge) });
      break;
    }
  }
  return out;
}
function paintLabels(g, area, chosen, solid) {
  ctx.font = SMALL; ctx.textAlign = "center";
  const edges = g.edges.filter((edge) => edge.points && isSeen(edge, area)).slice(0, MAX_LABELS);
  for (const { text, area: [x0, y0, x1, y1], x, y, chosen: strong } of placeLabels(g, edges, solid, chosen)) {
    ctx.fillStyle = back; ctx.globalAlpha = 0.9; ctx.fillRect(x0, y0, x1 - x0, y1 - y0); ctx.globalAlpha = 1;
    ctx.fillStyle = strong ? ink : faint; ctx.fillText(text, x, y + 3);
  }
  ctx.textAlign = "left";
}

// ---- what is where
function itemAt(px, py, g = d()) {
  const v = g.view, x = (px - v.x) / v.s, y = (py - v.y) / v.s;
  const holds = (i) => x >= g.x[i] && x <= g.x[i] + g.w[i] && y >= g.y[i] && y <= g.y[i] + g.h[i];
  let box = 0;
  for (;;) {
    const inner = g.items(box).find((item) => holds(g.id(item)));
    if (inner === undefined) return box ? ~box : null;
    if (inner >= 0) return inner;
    box = ~inner;
    if (!g.open.has(box)) return ~box;
  }
}
function toggle(box) {
  const g = d(), id = g.count + box, v = g.view, x = g.x[id] * v.s + v.x, y = g.y[id] * v.s + v.y;
  if (g.open.has(box)) g.open.delete(box); else g.open.add(box);
  g.layout();
  v.x = x - g.x[id] * v.s; v.y = y - g.y[id] * v.s;
  S.box = box; S.node = -1;
  refresh();
}
function shownItems() {
  const g = d(), out = [];
  for (const box of g.open) if (g.isShown(box)) out.push(...g.items(box));
  return out.sort((a, b) => g.y[g.id(a)] - g.y[g.id(b)] || g.x[g.id(a)] - g.x[g.id(b)]);
}
function next(by) {
  const items = shownItems(), at = items.indexOf(S.box >= 0 ? ~S.box : S.node);
  const item = items[(at + by + items.length) % items.length];
  if (item < 0) { S.box = ~item; S.node = -1; centreOn(d().id(item)); refresh(); } else choose(S.g, item, true);
}

