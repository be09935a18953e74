// ----------------------------------------------------------------------- memory
// What a plan says of memory, drawn in some part of the canvas.  Two plans have the same scale and zoom.
const EDGE = { left: 74, right: 16, top: 52 }, RIBBON = 18, AXIS = 30, STRIP = 56, STRIP_GAP = 22;
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

// Steps by the scopes they are in, at the first level at which there are several; by their ops where there are no scopes.
class Zones {
  constructor(drawing, nodes) {
    const scopes = nodes.map((k) => scopeOf(drawing, k)), most = Math.max(1, ...scopes.map((scope) => scope.split(".").length));
    let depth = 1;
    const at = (scope) => scope.split(".").slice(0, depth).join(".");
    while (depth < most && new Set(scopes.map(at).filter(Boolean)).size < 2) depth++;
    const isBare = scopes.every((scope) => !scope);
    this.nameOf = (k) => (isBare ? T[drawing.name[k]] : at(scopeOf(drawing, k)));
    this.names = [...new Set(nodes.map((k) => this.nameOf(k)))];
    this.numbers = new Map(this.names.map((name, n) => [name, n]));
    this.known = new Map();
  }
  of(k) { if (!this.known.has(k)) this.known.set(k, this.numbers.get(this.nameOf(k)) ?? -1); return this.known.get(k); }
  fill(zone, shade = 0) {
    if (!this.names[zone]) return fill(40, 0.12);
    const hue = (28 + zone * 137.5) % 360;
    return dark.matches ? `hsl(${hue} 36% ${25 + 3 * shade}%)` : `hsl(${hue} 62% ${85 - 3 * shade}%)`;
  }
  // Neighbours are told apart by their shade.
  fillOf(k) { return this.fill(this.of(k), k % 3); }
}
const scopeOf = (drawing, k) => { const place = drawing.places[k][0], at = place === undefined ? -1 : T[place].indexOf(" in "); return at < 0 ? "" : T[place].slice(at + 4); };
// As much of a name of parts joined by dots as there is room for: its last parts, where numbers do not stand alone.
function fitName(name, room) {
  const parts = name.replace(/\.(?=\d+(\.|$))/g, "\n").split(".").map((part) => part.replaceAll("\n", "."));
  for (let k = 0; k < parts.length; k++) { const text = parts.slice(k).join("."); if (ctx.measureText(text).width <= room) return text; }
  const last = parts[parts.length - 1], most = Math.floor((room / ctx.measureText(last).width) * last.length) - 1;
  return most >= 5 ? cut(last, most) : "";
}

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
    this.zones = new Zones(this.drawing, this.steps);
  }
  get drawing() { return drawings[this.g]; }
  get own() { return Math.max(1, this.peak, this.budget !== null && this.budget <= 1.5 * this.peak ? this.budget : 0, this.unshared <= 1.5 * this.peak ? this.unshared : 0) * 1.02; }
  get most() { return Math.max(...maps.map((m) => m.own)); }
  get area() {
    const each = width / maps.length, left = this.number * each, strip = height > 330 ? STRIP + STRIP_GAP : 0;
    return { left: left + EDGE.left, right: left + each - EDGE.right, top: EDGE.top, bottom: height - RIBBON - AXIS - strip, from: left, to: left + each, strip };
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
  blockAt(px, py) {
    if (py > this.area.bottom) return -1;
    const step = this.stepAt(px), at = this.bytesAt(py);
    return this.blocks.findIndex(([offset, bytes, first, last]) => step >= first && step <= last && at >= offset && at < offset + bytes);
  }
  tenantAt(block, step) { let found = block[5][0]; for (const one of block[5]) if (one[1] <= step) found = one; return found ? found[0] : -1; }
  scope(k) { return scopeOf(this.drawing, k); }
  title(k) { const name = T[this.drawing.name[k]], scope = this.scope(k); return scope ? `${scope} (${name})` : name; }
  inBand(block) { return this.isBand.has(block[2]) || this.isBand.has(block[3]); }

  paint() {
    const a = this.area, chosen = new Set();
    const run = S.node >= 0 ? nodeIn(this, S.g, S.node) : -1;
    if (run >= 0) for (const b of this.blocksOf.get(run) || []) chosen.add(b);
    if (S.block >= 0 && S.map === this.number) chosen.add(S.block);
    const step = S.map === this.number ? S.step : this.peakStep;
    ctx.fillStyle = card; ctx.fillRect(a.left, a.top, a.right - a.left, a.bottom - a.top);
    ctx.save();
    ctx.beginPath(); ctx.rect(a.left, a.top, a.right - a.left, a.bottom - a.top); ctx.clip();
    for (const block of this.blocks) this.paintBlock(block, a, block[2] <= step && step <= block[3]);
    for (const k of chosen) {
      const [offset, bytes, first, last] = this.blocks[k];
      ctx.strokeStyle = select; ctx.lineWidth = 3; ctx.strokeRect(this.x(first), this.y(offset + bytes), Math.max(2, this.x(last + 1) - this.x(first)), Math.max(2, this.y(offset) - this.y(offset + bytes)));
    }
    this.paintColumns(a);
    this.paintLimits(a);
    ctx.restore();
    this.paintRibbon(a);
    this.paintStrip(a);
    this.paintAxes(a);
  }
  // A value from its first write to its last use; `isAlive` says whether that is so at the step that is selected.
  paintBlock(block, a, isAlive) {
    const [offset, bytes, first, last, kind, tenants] = block;
    const x0 = this.x(first), x1 = this.x(last + 1), y0 = this.y(offset + bytes), y1 = this.y(offset);
    if (x1 < a.left || x0 > a.right || y1 < a.top || y0 > a.bottom) return;
    const w = Math.max(0.7, x1 - x0), h = Math.max(0.7, y1 - y0);
    const from = (n) => (n ? Math.max(x0, this.x(tenants[n][1])) : x0), to = (n) => (n + 1 < tenants.length ? this.x(tenants[n + 1][1]) : x1);
    ctx.globalAlpha = isAlive ? 1 : 0.5;
    ctx.fillStyle = kind === "scratch" ? fill(0, 0) : tenants.length ? this.zones.fillOf(tenants[0][0]) : card;
    if (tenants.length < 2 || w < 3) ctx.fillRect(x0, y0, w, h);
    else tenants.forEach(([node], n) => { ctx.fillStyle = this.zones.fillOf(node); ctx.fillRect(from(n), y0, Math.max(0.5, to(n) - from(n)), h); });
    const look = tenants.some(([, made]) => this.isAgain.has(made)) ? "again" : kind === "scratch" && this.inBand(block) ? "band" : kind;
    if (look !== "transient") { ctx.fillStyle = pattern(look); ctx.fillRect(x0, y0, w, h); }
    ctx.globalAlpha = 1;
    if (w > 3 && h > 2) { ctx.strokeStyle = isAlive ? ink : wire; ctx.lineWidth = isAlive ? 1.3 : 0.6; ctx.strokeRect(x0, y0, w, h); }
    tenants.forEach(([node], n) => {
      const own = to(n) - from(n), corner = Math.min(9, h, own / 2);
      if (n && corner > 2) { ctx.fillStyle = ink; ctx.beginPath(); ctx.moveTo(from(n), y0); ctx.lineTo(from(n) + corner, y0); ctx.lineTo(from(n), y0 + corner); ctx.fill(); }
      if (h > 12 && own > 30) label(this.scope(node) || T[this.drawing.name[node]], bytesText(bytes), from(n) + (n ? 11 : 4), (y0 + y1) / 2 + 4, own - (n ? 13 : 6), h, isAlive);
    });
    if (kind === "scratch" && h > 12 && w > 34) label(look === "band" ? "band" : "scratch", bytesText(bytes), x0 + 4, (y0 + y1) / 2 + 4, w - 6, h, isAlive);
  }
  paintColumns(a) {
    const chosen = S.map === this.number && S.step !== this.peakStep ? [[S.step, select, [5, 3]]] : [];
    for (const [step, colour, dash] of [[this.peakStep, accent, []], ...chosen]) {
      const x = this.x(step), w = Math.max(1.5, this.x(step + 1) - x);
      ctx.globalAlpha = 0.1; ctx.fillStyle = colour; ctx.fillRect(x, 0, w, height); ctx.globalAlpha = 1;
      ctx.strokeStyle = colour; ctx.lineWidth = 1.8; ctx.setLineDash(dash); ctx.strokeRect(x, -5, w, height + 10); ctx.setLineDash([]);
    }
  }
  paintLimits(a) {
    const lineAt = (bytes, name, dash, below) => {
      const y = this.y(bytes), text = `${name} ${bytesText(bytes)}`;
      ctx.strokeStyle = ink; ctx.lineWidth = 1.3; ctx.setLineDash(dash); ctx.beginPath(); ctx.moveTo(a.left, y); ctx.lineTo(a.right, y); ctx.stroke(); ctx.setLineDash([]);
      ctx.font = `600 11px ${FONT}`;
      const w = ctx.measureText(text).width, x = a.right - w - 8;
      ctx.fillStyle = back; ctx.globalAlpha = 0.9; ctx.fillRect(x - 3, below ? y + 2 : y - 15, w + 6, 14); ctx.globalAlpha = 1;
      ctx.fillStyle = ink; ctx.fillText(text, x, below ? y + 13 : y - 4);
    };
    if (this.bound === this.peak) lineAt(this.peak, "arena = lower bound", [], true);
    else { lineAt(this.peak, "arena", [], false); lineAt(this.bound, "lower bound", [6, 4], true); }
    if (this.budget !== null && this.budget <= 1.5 * this.peak) lineAt(this.budget, "budget", [2, 3], false);
    if (this.unshared <= 1.5 * this.peak && this.unshared !== this.peak) lineAt(this.unshared, "unshared sum", [10, 3, 2, 3], false);
  }
  // The scopes of the steps, below the map: what its colours mean.
  paintRibbon(a) {
    const top = a.bottom + 3, { zones } = this;
    ctx.save(); ctx.beginPath(); ctx.rect(a.left, top, a.right - a.left, RIBBON); ctx.clip();
    for (let k = 0; k < this.steps.length; ) {
      const zone = zones.of(this.steps[k]);
      let end = k + 1;
      while (end < this.steps.length && zones.of(this.steps[end]) === zone) end++;
      const x0 = this.x(k), x1 = this.x(end);
      if (x1 > a.left && x0 < a.right) {
        ctx.fillStyle = zones.fill(zone); ctx.fillRect(x0, top, Math.max(0.5, x1 - x0 - (x1 - x0 > 3 ? 1 : 0)), RIBBON - 3);
        const left = Math.max(x0, a.left), room = Math.min(x1, a.right) - left - 8;
        ctx.font = SMALL; ctx.fillStyle = ink;
        if (room > 14) ctx.fillText(fitName(zones.names[zone], room), left + 4, top + 11);
      }
      k = end;
    }
    ctx.restore();
  }
  // Bytes in use at each step.
  paintStrip(a) {
    if (!a.strip) return;
    const top = height - STRIP - 4, bottom = height - 6, most = Math.max(1, this.bound, ...maps.map((m) => m.bound)), y = (bytes) => bottom - (bytes / most) * (bottom - top - 2);
    ctx.save(); ctx.beginPath(); ctx.rect(a.left, top - 2, a.right - a.left, bottom - top + 4); ctx.clip();
    ctx.beginPath(); ctx.moveTo(this.x(0), bottom);
    this.live.forEach((bytes, k) => { ctx.lineTo(this.x(k), y(bytes)); ctx.lineTo(this.x(k + 1), y(bytes)); });
    ctx.lineTo(this.x(this.live.length), bottom); ctx.closePath();
    ctx.fillStyle = line; ctx.fill(); ctx.strokeStyle = faint; ctx.lineWidth = 1; ctx.stroke();
    for (const [step, colour] of [[this.peakStep, accent], ...(S.map === this.number && S.step !== this.peakStep ? [[S.step, select]] : [])]) {
      const w = Math.max(2, this.x(step + 1) - this.x(step));
      ctx.fillStyle = colour; ctx.fillRect(this.x(step), y(this.live[step]), w, bottom - y(this.live[step]));
    }
    ctx.restore();
    ctx.font = SMALL; ctx.fillStyle = faint; ctx.textAlign = "right";
    ctx.fillText("bytes", a.left - 6, top + 22); ctx.fillText("in use", a.left - 6, top + 34);
    ctx.textAlign = "left";
  }
  paintAxes(a) {
    const steps = this.steps.length, byTime = S.axis === "time" && P && !this.number, lowest = Math.max(0, this.bytesAt(a.bottom)), base = a.bottom + RIBBON + 14;
    ctx.font = MEDIUM; ctx.fillStyle = faint; ctx.textAlign = "right";
    const tick = niceStride(this.most / near.zy / Math.max(2, (a.bottom - a.top) / 70));
    for (let b = Math.ceil(lowest / tick) * tick; this.y(b) >= a.top - 1; b += tick) ctx.fillText(tickText(b, tick), a.left - 6, this.y(b) + 4);
    ctx.textAlign = "center";
    if (byTime) {
      const whole = timeWhole(), stride = niceTime(whole / near.zx / Math.max(2, (a.right - a.left) / 90));
      for (let t = 0; t <= whole; t += stride) { const x = a.left + (near.ox + (t / whole) * near.zx) * (a.right - a.left); if (x > a.left + 40 && x < a.right) ctx.fillText(secondsText(t), x, base); }
    } else {
      const stride = niceStride(steps / near.zx / Math.max(2, (a.right - a.left) / 90));
      for (let k = 0; k < steps; k += stride) { const x = (this.x(k) + this.x(k + 1)) / 2; if (x > a.left + 24 && x < a.right) ctx.fillText(String(k), x, base); }
    }
    ctx.textAlign = "right"; ctx.fillText(byTime ? "time" : "step", a.left - 6, base);
    ctx.save(); ctx.textAlign = "center"; ctx.translate(a.from + 11, (a.top + a.bottom) / 2); ctx.rotate(-Math.PI / 2); ctx.fillText("offset in the arena", 0, 0); ctx.restore();
    ctx.textAlign = "left"; ctx.font = `12px ${FONT}`; ctx.fillStyle = ink;
    const above = maps.length > 1 ? [T[this.label]] : [];
    if (this.unshared > 1.5 * this.peak) above.push(`↑ unshared sum ${bytesText(this.unshared)}, ${(this.unshared / Math.max(1, this.peak)).toFixed(1)} times the arena`);
    if (this.budget !== null && this.budget > 1.5 * this.peak) above.push(`↑ budget ${bytesText(this.budget)}`);
    ctx.fillText(fitText(above.join("   "), a.to - a.left), a.left, 18);
    if (!steps) { ctx.fillStyle = faint; ctx.fillText("The run has no steps: everything is an input or a constant.", a.left + 12, a.top + 24); return; }
    ctx.font = BOLD;
    const text = fitText(`▼ peak: ${bytesText(this.live[this.peakStep])} in use at step ${this.peakStep}, ${this.title(this.steps[this.peakStep])}`, a.right - a.from - 14), px = (this.x(this.peakStep) + this.x(this.peakStep + 1)) / 2;
    ctx.fillStyle = accent;
    const wide = ctx.measureText(text).width, tip = ctx.measureText("▼").width / 2;
    if (px - tip + wide > a.right) { ctx.textAlign = "right"; ctx.fillText(text.slice(2) + " ▼", Math.max(px + tip, Math.min(a.right, a.left + wide)), a.top - 6); ctx.textAlign = "left"; } else ctx.fillText(text, Math.max(px - tip, a.left), a.top - 6);
  }
}
const fitText = (text, room) => { while (text && ctx.measureText(text).width > room) text = text.slice(0, -2) + "…"; return text; };
// A name, and below or behind it how large it is.
function label(name, size, x, y, room, tall, isStrong) {
  ctx.font = MEDIUM; ctx.fillStyle = isStrong ? ink : faint;
  let shown = fitName(name, room);
  if (!shown) { ctx.font = SMALL; shown = fitName(name, room); }
  if (!shown) return;
  const isTwo = tall > 28 && ctx.measureText(size).width <= room, together = `${shown}  ${size}`;
  if (isTwo) { ctx.fillText(shown, x, y - 6.5); ctx.fillText(size, x, y + 6.5); } else ctx.fillText(tall <= 28 && ctx.measureText(together).width <= room ? together : shown, x, y);
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
