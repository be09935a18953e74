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

