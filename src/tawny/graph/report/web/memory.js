// ----------------------------------------------------------------------- memory
// What a plan says of memory, drawn in some part of the canvas.  Two plans have the same scale and zoom.
const EDGE = { left: 74, right: 16, top: 52, bottom: 34 };
const near = { zx: 1, zy: 1, ox: 0, oy: 0 };
const clampNear = () => { near.ox = Math.min(0, Math.max(1 - near.zx, near.ox)); near.oy = Math.min(0, Math.max(1 - near.zy, near.oy)); };
const niceStride = (raw) => { const unit = 10 ** Math.floor(Math.log10(Math.max(1, raw))); return Math.max(1, [1, 2, 5, 10].map((k) => k * unit).find((k) => k >= raw) || 1); };
const patterns = {};
function pattern(kind) {
  const key = kind + dark.matches;
  if (patterns[key]) return patterns[key];
  const tile = document.createElement("canvas"); tile.width = tile.height = 8;
  const c = tile.getContext("2d"); c.strokeStyle = c.fillStyle = dark.matches ? "#ffffff88" : "#00000066"; c.lineWidth = 1.2;
  if (kind === "kept") for (const k of [-8, 0, 8]) { c.beginPath(); c.moveTo(k, 8); c.lineTo(k + 8, 0); c.stroke(); }
  if (kind === "again") { c.beginPath(); c.moveTo(0, 0); c.lineTo(8, 8); c.moveTo(0, 8); c.lineTo(8, 0); c.stroke(); }
  if (kind === "scratch") { c.beginPath(); c.arc(2, 2, 1.1, 0, 7); c.arc(6, 6, 1.1, 0, 7); c.fill(); }
  if (kind === "band") for (const k of [2, 6]) { c.beginPath(); c.moveTo(0, k); c.lineTo(8, k); c.stroke(); }
  return (patterns[key] = ctx.createPattern(tile, "repeat"));
}
const valueFill = (k) => fill((k * 137.5) % 360);

class MemoryMap {
  constructor(data, g, number) {
    Object.assign(this, data);
    this.g = g; this.number = number;
    this.blocksOf = new Map(); this.stepsOf = new Map();
    this.isAgain = new Set(this.again); this.isOver = new Set(this.over); this.isBand = new Set(this.bands);
    this.blocks.forEach((block, k) => { for (const [node] of block[5]) { if (!this.blocksOf.has(node)) this.blocksOf.set(node, []); this.blocksOf.get(node).push(k); } });
    this.steps.forEach((node, k) => { if (!this.stepsOf.has(node)) this.stepsOf.set(node, []); this.stepsOf.get(node).push(k); });
    this.peakStep = 0;
    this.live.forEach((bytes, k) => { if (bytes > this.live[this.peakStep]) this.peakStep = k; });
    this.starts = null;
  }
  get drawing() { return drawings[this.g]; }
  get own() { return Math.max(1, this.peak, this.budget !== null && this.budget <= 1.5 * this.peak ? this.budget : 0, this.unshared <= 1.5 * this.peak ? this.unshared : 0) * 1.02; }
  get most() { return Math.max(...maps.map((m) => m.own)); }
  get area() {
    const each = width / maps.length, left = this.number * each;
    return { left: left + EDGE.left, right: left + each - EDGE.right, top: EDGE.top, bottom: height - EDGE.bottom, from: left, to: left + each };
  }
  // Where along the run a step begins: by its number, or by the time that was measured.
  part(step) {
    if (S.axis === "time" && P && !this.number) { this.starts = this.starts || timeStarts(); return this.starts[Math.max(0, Math.min(this.steps.length, step))]; }
    return step / Math.max(1, this.steps.length);
  }
  x(step) { const a = this.area; return a.left + (near.ox + this.part(step) * near.zx) * (a.right - a.left); }
  y(bytes) { const a = this.area; return a.top + (near.oy + (1 - bytes / this.most) * near.zy) * (a.bottom - a.top); }
  bytesAt(py) { const a = this.area; return (1 - ((py - a.top) / (a.bottom - a.top) - near.oy) / near.zy) * this.most; }
  stepAt(px) {
    const a = this.area, part = ((px - a.left) / (a.right - a.left) - near.ox) / near.zx;
    if (part < 0 || part >= 1) return -1;
    let low = 0, high = this.steps.length;
    while (high - low > 1) { const middle = (low + high) >> 1; if (this.part(middle) <= part) low = middle; else high = middle; }
    return low;
  }
  blockAt(px, py) { const step = this.stepAt(px), at = this.bytesAt(py); return this.blocks.findIndex(([offset, bytes, first, last]) => step >= first && step <= last && at >= offset && at < offset + bytes); }
  tenantAt(block, step) { let found = block[5][0]; for (const one of block[5]) if (one[1] <= step) found = one; return found ? found[0] : -1; }
  scope(k) { const place = this.drawing.places[k][0], at = place === undefined ? -1 : T[place].indexOf(" in "); return at < 0 ? "" : T[place].slice(at + 4); }
  title(k) { const name = T[this.drawing.name[k]], scope = this.scope(k); return scope ? `${scope} (${name})` : name; }
  inBand(block) { return this.isBand.has(block[2]) || this.isBand.has(block[3]); }

  paint() {
    const a = this.area, chosen = new Set();
    const run = S.node >= 0 ? nodeIn(this, S.g, S.node) : -1;
    if (run >= 0) for (const b of this.blocksOf.get(run) || []) chosen.add(b);
    if (S.block >= 0 && S.map === this.number) chosen.add(S.block);
    ctx.save();
    ctx.beginPath(); ctx.rect(a.left, a.top, a.right - a.left, a.bottom - a.top); ctx.clip();
    ctx.fillStyle = card; ctx.fillRect(a.from, 0, a.to - a.from, height);
    this.blocks.forEach((block) => this.paintBlock(block, a));
    ctx.strokeStyle = ink; ctx.lineWidth = 1.2; ctx.globalAlpha = 0.6; ctx.beginPath();
    this.live.forEach((bytes, k) => { if (!k) ctx.moveTo(this.x(k), this.y(bytes)); else ctx.lineTo(this.x(k), this.y(bytes)); ctx.lineTo(this.x(k + 1), this.y(bytes)); });
    ctx.stroke(); ctx.globalAlpha = 1;
    for (const k of chosen) {
      const [offset, bytes, first, last] = this.blocks[k];
      ctx.strokeStyle = select; ctx.lineWidth = 3; ctx.strokeRect(this.x(first), this.y(offset + bytes), Math.max(2, this.x(last + 1) - this.x(first)), Math.max(2, this.y(offset) - this.y(offset + bytes)));
    }
    this.paintColumns(a);
    this.paintLimits(a);
    ctx.restore();
    this.paintAxes(a);
  }
  paintBlock(block, a) {
    const [offset, bytes, first, last, kind, tenants] = block;
    const x0 = this.x(first), x1 = this.x(last + 1), y0 = this.y(offset + bytes), y1 = this.y(offset);
    if (x1 < a.left || x0 > a.right || y1 < a.top || y0 > a.bottom) return;
    const w = Math.max(0.7, x1 - x0), h = Math.max(0.7, y1 - y0);
    ctx.fillStyle = kind === "scratch" ? fill(0, 0) : tenants.length ? valueFill(tenants[0][0]) : card;
    const from = (n) => (n ? Math.max(x0, this.x(tenants[n][1])) : x0), to = (n) => (n + 1 < tenants.length ? this.x(tenants[n + 1][1]) : x1);
    if (tenants.length < 2 || w < 3) ctx.fillRect(x0, y0, w, h);
    else tenants.forEach(([node], n) => { ctx.fillStyle = valueFill(node); ctx.fillRect(from(n), y0, Math.max(0.5, to(n) - from(n)), h); });
    const look = tenants.some(([, made]) => this.isAgain.has(made)) ? "again" : kind === "scratch" && this.inBand(block) ? "band" : kind;
    if (look !== "transient") { ctx.fillStyle = pattern(look); ctx.fillRect(x0, y0, w, h); }
    if (w > 3 && h > 2) { ctx.strokeStyle = kind === "kept" ? ink : faint; ctx.lineWidth = kind === "kept" ? 1.4 : 0.6; ctx.strokeRect(x0, y0, w, h); }
    tenants.forEach(([node], n) => {
      if (n && h > 3) { ctx.fillStyle = ink; ctx.beginPath(); ctx.moveTo(from(n), y0); ctx.lineTo(from(n) + Math.min(9, w), y0); ctx.lineTo(from(n), y0 + Math.min(9, h)); ctx.fill(); }
      if (h > 12 && to(n) - from(n) > 34) label([this.scope(node) || T[this.drawing.name[node]], bytesText(bytes)], from(n) + (n ? 11 : 4), (y0 + y1) / 2 + 4, to(n) - from(n) - (n ? 13 : 6), h);
    });
    if (kind === "scratch" && h > 12 && w > 34) label([look === "band" ? "band" : "scratch", bytesText(bytes)], x0 + 4, (y0 + y1) / 2 + 4, w - 6, h);
  }
  paintColumns(a) {
    const chosen = S.map === this.number && S.step !== this.peakStep ? [[S.step, select, [5, 3]]] : [];
    for (const [step, colour, dash] of [[this.peakStep, accent, []], ...chosen]) {
      const x = this.x(step), w = Math.max(1.5, this.x(step + 1) - x);
      ctx.globalAlpha = 0.16; ctx.fillStyle = colour; ctx.fillRect(x, 0, w, height); ctx.globalAlpha = 1;
      ctx.strokeStyle = colour; ctx.lineWidth = 1.5; ctx.setLineDash(dash); ctx.strokeRect(x, -5, w, height + 10); ctx.setLineDash([]);
    }
  }
  paintLimits(a) {
    const lineAt = (bytes, name, dash, below) => {
      const y = this.y(bytes), text = `${name} ${bytesText(bytes)}`;
      ctx.strokeStyle = ink; ctx.lineWidth = 1.3; ctx.setLineDash(dash); ctx.beginPath(); ctx.moveTo(a.left, y); ctx.lineTo(a.right, y); ctx.stroke(); ctx.setLineDash([]);
      ctx.font = "600 11px system-ui, sans-serif";
      const w = ctx.measureText(text).width, x = a.right - w - 8;
      ctx.fillStyle = back; ctx.globalAlpha = 0.85; ctx.fillRect(x - 3, below ? y + 2 : y - 15, w + 6, 14); ctx.globalAlpha = 1;
      ctx.fillStyle = ink; ctx.fillText(text, x, below ? y + 13 : y - 4);
    };
    if (this.bound === this.peak) lineAt(this.peak, "arena = lower bound", [], true);
    else { lineAt(this.peak, "arena", [], false); lineAt(this.bound, "lower bound", [6, 4], true); }
    if (this.budget !== null && this.budget <= 1.5 * this.peak) lineAt(this.budget, "budget", [2, 3], false);
    if (this.unshared <= 1.5 * this.peak && this.unshared !== this.peak) lineAt(this.unshared, "unshared sum", [10, 3, 2, 3], false);
  }
  paintAxes(a) {
    const steps = this.steps.length, byTime = S.axis === "time" && P && !this.number, lowest = Math.max(0, this.bytesAt(a.bottom));
    ctx.font = MEDIUM; ctx.fillStyle = faint; ctx.textAlign = "right";
    for (let k = 0; k <= 5; k++) { const b = lowest + (this.most / 5) * k / near.zy, y = this.y(b); if (y >= a.top - 1) ctx.fillText(bytesText(Math.round(b)), a.left - 6, y + 4); }
    ctx.textAlign = "center";
    const middle = (a.left + a.right) / 2;
    if (byTime) {
      const whole = timeWhole(), stride = niceTime(whole / near.zx / Math.max(2, (a.right - a.left) / 90));
      for (let t = 0; t <= whole; t += stride) { const x = a.left + (near.ox + (t / whole) * near.zx) * (a.right - a.left); if (x > a.left && x < a.right) ctx.fillText(secondsText(t), x, a.bottom + 14); }
    } else {
      const stride = niceStride(steps / near.zx / Math.max(2, (a.right - a.left) / 90));
      for (let k = 0; k < steps; k += stride) { const x = (this.x(k) + this.x(k + 1)) / 2; if (x > a.left && x < a.right) ctx.fillText(String(k), x, a.bottom + 14); }
    }
    ctx.fillText(byTime ? "time of the steps, as measured" : "step of the run", middle, height - 5);
    ctx.save(); ctx.translate(a.from + 11, height / 2); ctx.rotate(-Math.PI / 2); ctx.fillText("offset in the arena", 0, 0); ctx.restore();
    ctx.textAlign = "left"; ctx.font = "12px system-ui, sans-serif"; ctx.fillStyle = ink;
    const above = maps.length > 1 ? [T[this.label]] : [];
    if (this.unshared > 1.5 * this.peak) above.push(`↑ unshared sum ${bytesText(this.unshared)}, ${(this.unshared / Math.max(1, this.peak)).toFixed(1)} times the arena`);
    if (this.budget !== null && this.budget > 1.5 * this.peak) above.push(`↑ budget ${bytesText(this.budget)}`);
    ctx.fillText(fitText(above.join("   "), a.to - a.left), a.left, 18);
    if (!steps) return;
    const text = `▼ peak: ${bytesText(this.live[this.peakStep])} in use at step ${this.peakStep}, ${cut(this.title(this.steps[this.peakStep]), maps.length > 1 ? 24 : 60)}`, px = (this.x(this.peakStep) + this.x(this.peakStep + 1)) / 2;
    ctx.font = BOLD; ctx.fillStyle = accent;
    const wide = ctx.measureText(text).width, tip = ctx.measureText("▼").width / 2;
    if (px - tip + wide > a.right) { ctx.textAlign = "right"; ctx.fillText(text.slice(2) + " ▼", Math.max(px + tip, Math.min(a.right, a.left + wide)), a.top - 6); ctx.textAlign = "left"; } else ctx.fillText(text, Math.max(px - tip, a.left), a.top - 6);
  }
}
const fitText = (text, room) => { while (text && ctx.measureText(text).width > room) text = text.slice(0, -2) + "…"; return text; };
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
const mapAt = (px) => maps[Math.min(maps.length - 1, Math.max(0, Math.floor((px / width) * maps.length)))];
function paintMemory() {
  for (const map of maps) map.paint();
  if (maps.length > 1) { ctx.strokeStyle = line; ctx.lineWidth = 1; ctx.beginPath(); ctx.moveTo(width / 2, 0); ctx.lineTo(width / 2, height); ctx.stroke(); }
}
function setStep(step) { const map = maps[S.map]; S.step = Math.min(map.steps.length - 1, Math.max(0, step)); S.node = -1; S.block = -1; refresh(); }
// The place of a value in a map's drawing, given that in any drawing.
function nodeIn(map, g, k) {
  if (g === map.g) return isInside(g, k) ? -1 : k;
  const run = runOf(g, k);
  if (map.number) return run < 0 || isInside(g, k) ? -1 : (fromRun.get(run) ?? -1);
  return run;
}
