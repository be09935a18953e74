// ------------------------------------------------------------------------- time
// The timeline of threads above, the roofline and the table of steps below.
const clock = { z: 1, o: 0 };
const LANES = { left: 74, right: 16, top: 40, bottom: 26 };
function secondsText(t) { if (!t) return "0"; for (const [unit, name] of [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]]) if (Math.abs(t) >= unit) return Number((t / unit).toPrecision(3)) + " " + name; return Math.round(t * 1e9) + " ns"; }
const niceTime = (raw) => { const unit = 10 ** Math.floor(Math.log10(raw)); return [1, 2, 5, 10].map((k) => k * unit).find((k) => k >= raw * 0.999999); };
const percent = (part) => (100 * part).toFixed(part < 0.1 ? 1 : 0) + " %";
const wholeOf = (rows) => rows.reduce((sum, row) => sum + row[2], 0) || 1e-12;
const timeWhole = () => (P.whole = P.whole || wholeOf(P.rows));
function timeStarts() {
  const took = new Float64Array(M.steps.length), out = new Float64Array(M.steps.length + 1);
  for (const row of P.rows) if (row[0] >= 0) took[row[0]] += row[2];
  for (let k = 0; k < took.length; k++) out[k + 1] = out[k] + took[k];
  const whole = out[took.length] || 1;
  return out.map((t) => t / whole);
}
const spanEnd = () => (P.end = P.end || P.spans.reduce((a, s) => Math.max(a, s[3]), 1e-9));
const sortedRows = () => (P.sorted = P.sorted || P.rows.map((_, k) => k).sort((a, b) => P.rows[b][2] - P.rows[a][2]));
const rowName = (row) => (row[1] >= 0 ? M.scope(row[1]) || T[drawings[1].name[row[1]]] : "updates");
const rowFill = (row) => (row[1] >= 0 ? M.zones.fillOf(row[1]) : fill(0, 0));

const timeX = (t) => { const w = width - LANES.left - LANES.right; return LANES.left + (clock.o + (t / spanEnd()) * clock.z) * w; };
const timeAt = (px) => (((px - LANES.left) / (width - LANES.left - LANES.right) - clock.o) / clock.z) * spanEnd();
const LANE = 44;
const laneHeight = () => Math.min(LANE, (height - LANES.top - LANES.bottom) / Math.max(1, P.lanes.length));
// As much room as the threads need, and no more than is left beside the table.
const timelineHeight = () => Math.min(LANES.top + LANES.bottom + LANE * Math.max(1, P.lanes.length), $("stage").clientHeight * 0.45);
function zoomTime(factor, px) { const u = (px - LANES.left) / (width - LANES.left - LANES.right), z = Math.min(1e6, Math.max(1, clock.z * factor)); clock.o = u - ((u - clock.o) * z) / clock.z; clock.z = z; panTime(0); }
function panTime(dx) { clock.o = Math.min(0, Math.max(1 - clock.z, clock.o + dx / (width - LANES.left - LANES.right))); }
function paintTime() {
  const tall = laneHeight(), whole = spanEnd(), right = width - LANES.right;
  ctx.font = BOLD; ctx.fillStyle = ink;
  ctx.fillText(fitText(`The fastest of ${P.runs} measured runs: ${secondsText(whole)}`, right - 10), 10, 18);
  ctx.font = MEDIUM; ctx.textAlign = "right"; ctx.fillStyle = faint;
  P.lanes.forEach((name, k) => ctx.fillText(name, LANES.left - 6, LANES.top + tall * (k + 0.5) + 4));
  ctx.textAlign = "center";
  const from = Math.max(0, timeAt(LANES.left)), to = Math.min(whole, timeAt(right)), stride = niceTime((to - from) / Math.max(2, width / 100));
  for (let t = Math.ceil(from / stride) * stride; t <= to; t += stride) {
    const x = timeX(t);
    ctx.fillText(secondsText(t), x, height - 8);
    ctx.strokeStyle = line; ctx.lineWidth = 1; ctx.beginPath(); ctx.moveTo(x, LANES.top); ctx.lineTo(x, height - LANES.bottom); ctx.stroke();
  }
  ctx.textAlign = "left";
  ctx.save(); ctx.beginPath(); ctx.rect(LANES.left, LANES.top - 2, right - LANES.left, height - LANES.top - LANES.bottom + 4); ctx.clip();
  for (const [r, lane, start, stop] of P.spans) {
    const x0 = timeX(start), x1 = timeX(stop);
    if (x1 < LANES.left || x0 > right) continue;
    const y = LANES.top + lane * tall, w = Math.max(0.5, x1 - x0);
    ctx.fillStyle = rowFill(P.rows[r]); ctx.fillRect(x0, y + 2, w, tall - 4);
    if (w > 3) { ctx.strokeStyle = faint; ctx.lineWidth = 0.6; ctx.strokeRect(x0, y + 2, w, tall - 4); }
    if (r === S.row) { ctx.strokeStyle = select; ctx.lineWidth = 3; ctx.strokeRect(x0, y + 2, Math.max(2, w), tall - 4); }
    if (w > 34 && tall > 14) label(rowName(P.rows[r]), secondsText(stop - start), Math.max(x0, LANES.left) + 4, y + tall / 2 + 4, Math.min(x1, right) - Math.max(x0, LANES.left) - 6, tall, true);
  }
  ctx.restore();
  paintRoof();
}
function spanAt(px, py) {
  const lane = Math.floor((py - LANES.top) / laneHeight()), t = timeAt(px), slack = (2 / ((width - LANES.left) * clock.z)) * spanEnd();
  let best = -1, gap = slack;
  P.spans.forEach(([, own, start, stop], k) => { const away = own !== lane ? Infinity : t < start ? start - t : t > stop ? t - stop : 0; if (away < gap || (away === 0 && gap > 0)) { best = k; gap = away; } });
  return best;
}
function chooseRow(k) {
  S.row = k;
  const row = P.rows[k];
  if (row && row[1] >= 0) choose(1, row[1], false); else { S.node = -1; refresh(); }
  S.row = k;
  const shown = document.querySelector("#time-table tr.chosen");
  if (shown) { shown.scrollIntoView({ block: "nearest" }); $("time-table").scrollLeft = 0; }
}
function moveRow(order, by) { const at = order.indexOf(S.row); chooseRow(order[at < 0 ? 0 : Math.min(order.length - 1, Math.max(0, at + by))]); }

// The roofline: what a step does for each byte, and how fast it does it.
const roof = $("roofline");
function roofScale() {
  const box = roof.getBoundingClientRect(), w = box.width, h = box.height, left = 58, right = 14, top = 30, bottom = 36;
  const points = P.rows.map((row, k) => [k, row[4] / Math.max(1, row[5]), row[4] / Math.max(row[2], 1e-12)]).filter(([, i, f]) => i > 0 && f > 0);
  const high = Math.max(P.roof.flops32, P.roof.flops64, ...points.map((p) => p[2])) * 2, low = Math.min(high / 1e3, ...points.map((p) => p[2])) / 2;
  const most = Math.max(64, ...points.map((p) => p[1])) * 2, least = Math.min(0.1, ...points.map((p) => p[1])) / 2;
  const x = (i) => left + (Math.log(i / least) / Math.log(most / least)) * (w - left - right), y = (f) => top + (1 - Math.log(f / low) / Math.log(high / low)) * (h - top - bottom);
  return { w, h, left, right, top, bottom, points, high, low, most, least, x, y };
}
function paintRoof() {
  const s = roofScale(), { w, h } = s;
  if (!w || !h) return;
  roof.width = w * dpr; roof.height = h * dpr;
  const c = roof.getContext("2d");
  c.setTransform(dpr, 0, 0, dpr, 0, 0);
  c.fillStyle = card; c.fillRect(0, 0, w, h);
  c.font = BOLD; c.fillStyle = ink; c.fillText("Roofline: what the machine allows, what steps reach", 10, 18);
  c.font = SMALL; c.fillStyle = faint; c.strokeStyle = line; c.lineWidth = 1;
  c.textAlign = "right";
  for (let e = Math.ceil(Math.log10(s.low)); 10 ** e <= s.high; e++) { const y = s.y(10 ** e); c.beginPath(); c.moveTo(s.left, y); c.lineTo(w - s.right, y); c.stroke(); c.fillText(countText(10 ** e), s.left - 5, y + 3); }
  c.textAlign = "center";
  for (let e = Math.ceil(Math.log10(s.least)); 10 ** e <= s.most; e++) { const x = s.x(10 ** e); c.beginPath(); c.moveTo(x, s.top); c.lineTo(x, h - s.bottom); c.stroke(); c.fillText(String(Number((10 ** e).toPrecision(1))), x, h - s.bottom + 13); }
  c.fillText("operations for each byte", (s.left + w - s.right) / 2, h - 6);
  c.save(); c.translate(11, (s.top + h - s.bottom) / 2); c.rotate(-Math.PI / 2); c.fillText("operations a second", 0, 0); c.restore();
  c.textAlign = "left";
  c.save(); c.beginPath(); c.rect(s.left, s.top - 4, w - s.left - s.right, h - s.top - s.bottom + 8); c.clip();
  c.strokeStyle = ink; c.fillStyle = ink; c.lineWidth = 1.2;
  const flat = Math.max(P.roof.flops32, P.roof.flops64), texts = [];
  for (const [flops, name, dash] of [[P.roof.flops32, "float32", []], [P.roof.flops64, "float64", [6, 4]]]) {
    const y = s.y(flops), x = s.x(flops / P.roof.bandwidths[0][1]);
    c.setLineDash(dash); c.beginPath(); c.moveTo(x, y); c.lineTo(w - s.right, y); c.stroke();
    texts.push([`${countText(flops)}FLOP/s ${name}`, x + 4, dash.length ? y + 12 : y - 5]);
  }
  P.roof.bandwidths.forEach(([bytes, rate], k) => {
    c.setLineDash([[2, 3], [5, 3], []][k] || []); c.beginPath(); c.moveTo(s.x(s.least), s.y(s.least * rate)); c.lineTo(s.x(flat / rate), s.y(flat)); c.stroke();
  });
  let lowest = -Infinity;
  for (const [bytes, rate] of [...P.roof.bandwidths].sort((a, b) => b[1] - a[1])) {
    lowest = Math.max(lowest + 13, s.y(s.least * rate) + 14);
    texts.push([`${bytesText(rate)}/s in ${bytesText(bytes)}`, s.left + 14, Math.min(lowest, h - s.bottom - 4)]);
  }
  c.setLineDash([]);
  for (const [k, i, f] of s.points) { const r = 3 + 14 * Math.sqrt(P.rows[k][3]); c.beginPath(); c.arc(s.x(i), s.y(f), r, 0, 7); c.fillStyle = rowFill(P.rows[k]); c.fill(); c.strokeStyle = k === S.row ? select : ink; c.lineWidth = k === S.row ? 3 : 0.8; c.stroke(); }
  for (const [text, x, y] of texts) { c.fillStyle = card; c.globalAlpha = 0.85; c.fillRect(x - 2, y - 9, c.measureText(text).width + 4, 12); c.globalAlpha = 1; c.fillStyle = ink; c.fillText(text, x, y); }
  c.restore();
}
function pointAt(px, py) {
  const s = roofScale();
  let best = -1, gap = 18;
  for (const [k, i, f] of s.points) { const away = Math.hypot(s.x(i) - px, s.y(f) - py); if (away < gap) { best = k; gap = away; } }
  return best;
}
roof.addEventListener("click", (e) => { const box = roof.getBoundingClientRect(), k = pointAt(e.clientX - box.left, e.clientY - box.top); if (k >= 0) chooseRow(k); });
const COLUMNS = ["what", "time", "share", "FLOP/s", "bytes/s", "roof", "bound", "predicted", "op", "line", "step"], WORDS = new Set(["what", "bound", "op", "line"]);
function fillTimes() {
  const box = $("time-table"), kept = box.scrollTop;
  const table = el("table", null, {}, el("tr", null, {}, ...COLUMNS.map((text) => el("th", text, { className: WORDS.has(text) ? "" : "number" }))));
  for (const k of sortedRows().slice(0, 400)) {
    const row = P.rows[k], [step, node, seconds, share, operations, bytes, bound, part, predicted] = row, took = Math.max(seconds, 1e-12);
    const number = (text) => el("td", text, { className: "number" }), place = node >= 0 ? drawings[1].places[node][0] : undefined;
    table.append(el("tr", null, { className: k === S.row ? "chosen" : "" },
      el("td", null, {}, link(rowName(row), () => chooseRow(k))), number(secondsText(seconds)), number(percent(share)),
      number(countText(Math.round(operations / took))), number(bytesText(Math.round(bytes / took))), number(percent(part)), el("td", bound), number(secondsText(predicted)),
      el("td", node < 0 ? "" : T[drawings[1].name[node]]), el("td", place === undefined ? "" : T[place].split(" in ")[0], { className: "faint" }), number(step < 0 ? "" : String(step))));
  }
  box.replaceChildren(table);
  if (P.rows.length > 400) box.append(el("p", `and ${P.rows.length - 400} more steps`, { className: "faint" }));
  box.scrollTop = kept;
}
// Times of nodes: what a node is computed in, and boxes of nodes.
function timeOf(g, k) { const run = P ? runOf(g, k) : -1; return run >= 0 && timesOf.has(run) ? timesOf.get(run) : null; }
const nodesIn = (g, box) => { const out = [], stack = [box]; while (stack.length) for (const item of g.items(stack.pop())) if (item < 0) stack.push(~item); else out.push(item); return out; };
function boxTime(g, box) {
  g.boxTimes = g.boxTimes || new Map();
  if (!g.boxTimes.has(box)) { const runs = new Set(nodesIn(g, box).map((k) => runOf(g.index, k))); let sum = 0; for (const run of runs) sum += timesOf.get(run) || 0; g.boxTimes.set(box, sum); }
  return g.boxTimes.get(box);
}
function boxRan(g, box) {
  g.boxRuns = g.boxRuns || new Map();
  if (!g.boxRuns.has(box)) g.boxRuns.set(box, nodesIn(g, box).some((k) => lastRun.has(runOf(g.index, k))));
  return g.boxRuns.get(box);
}
function timePanel(panel) {
  const row = P.rows[S.row];
  if (!row) {
    panel.append(el("h2", "Time"), ...P.heading.map((t) => el("p", t)));
    shareList(panel, "By scope", (r) => (r[1] >= 0 ? M.zones.nameOf(r[1]) || "no scope" : "updates"));
    shareList(panel, "By operation", (r) => (r[1] >= 0 ? T[drawings[1].name[r[1]]] : "updates"));
    return;
  }
  const [step, node, seconds, share, operations, bytes, bound, part, predicted] = row;
  panel.append(el("h2", step < 0 ? "Updates" : `Step ${step}: ${secondsText(seconds)}`), el("p", `${percent(share)} of the run, number ${sortedRows().indexOf(S.row) + 1} of ${P.rows.length}`));
  panel.append(el("p", `${countText(operations)} operations, ${bytesText(bytes)} read and written`));
  if (step >= 0) panel.append(el("p", { compute: "Bound by computing", memory: "Bound by memory", start: "Hardly any work: starting it takes the most" }[bound] + `; the machine allows ${secondsText(seconds * part)}, ${percent(part)} of the time it took.`), el("p", `Predicted ${secondsText(predicted)}.`, { className: "faint" }));
  if (node >= 0) nodePanel(panel, 1, node);
}
// What takes the most, by what steps have in common.
function shareList(panel, title, nameOf) {
  const times = new Map();
  for (const row of P.rows) times.set(nameOf(row), (times.get(nameOf(row)) || 0) + row[2]);
  if (times.size < 2) return;
  panel.append(el("h3", title));
  for (const [name, took] of [...times].sort((a, b) => b[1] - a[1]).slice(0, 10)) {
    const bar = el("div", null, { className: "bar" }, el("i"));
    bar.firstChild.style.width = `${(100 * took) / timeWhole()}%`;
    panel.append(el("div", null, { className: "alive" }, el("div", null, { className: "row" }, el("span", name, { className: "name" }), el("span", `${secondsText(took)} · ${percent(took / timeWhole())}`, { className: "number" })), bar));
  }
}

