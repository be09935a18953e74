// ------------------------------------------------------------------ the graphs
const CLASS_HUES = { variable: 215, constant: 0, elementwise: 140, reduction: 40, cumulative: 40, linalg: 275, einsum: 275, convolution: 275, fusion: 95, movement: 195, indexing: 175, joining: 185, random: 55, pooling: 20, creation: 230, bands: 310, rows: 330, loops: 330, differentiation: 250 };
const hueOf = (word) => { if (word in CLASS_HUES) return CLASS_HUES[word]; let h = 7; for (const c of word) h = (h * 31 + c.codePointAt(0)) % 360; return h; };
const FIRST_ITEMS = 45, STRIP_NAMES = 3, STRIP_COLOURS = 6;

// A graph, of which some boxes are open: nodes are numbers from 0, boxes come behind them; box `b` is item `~b`.
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
    this.lists = [];
    for (const axis of ["x", "y", "w", "h"]) this[axis] = new Float64Array(total);
    this.join();
    this.openSome(FIRST_ITEMS);
    this.base = new Set(this.open);
    this.view = null;
    this.layout();
  }
  id(item) { return item < 0 ? this.count + ~item : item; }
  items(box) { return this.lists[box] || (this.lists[box] = [...this.boxes[box][4].flat(2), ...this.boxes[box][5].flat(2)]); }
  parent(id) { return id < this.count ? this.home[id] : this.boxes[id - this.count][2]; }
  // The item itself that is computed in a run: a loop for what is in it.
  outermost(k) { while (this.owner[k] !== undefined) k = this.owner[k]; return k; }
  // What the items of each box are joined with.
  join() {
    const depth = new Int32Array(this.boxes.length).fill(-1);
    const deep = (box) => { const path = []; for (; box >= 0 && depth[box] < 0; box = this.boxes[box][2]) path.push(box); let at = box < 0 ? -1 : depth[box]; for (const one of path.reverse()) depth[one] = ++at; };
    this.boxes.forEach((_, box) => deep(box));
    const joined = new Set();
    this.neighbours = [];
    this.inputs.forEach((sources, reader) => {
      if (this.home[reader] < 0) return;
      for (const source of sources) {
        let a = source, b = reader, left = this.home[a], right = this.home[b];
        if (left < 0) continue;
        while (left !== right) if (depth[left] >= depth[right]) { a = ~left; left = this.boxes[left][2]; } else { b = ~right; right = this.boxes[right][2]; }
        const i = this.id(a), j = this.id(b), key = Math.min(i, j) * (this.count + this.boxes.length) + Math.max(i, j);
        if (joined.has(key)) continue;
        joined.add(key);
        (this.neighbours[i] = this.neighbours[i] || []).push(b);
        (this.neighbours[j] = this.neighbours[j] || []).push(a);
      }
    });
  }
  // Open level after level as long as not too much is seen; folded repeats stay closed.
  openSome(most) {
    let level = [0], shown = this.items(0).length;
    while (level.length) {
      const inner = level.flatMap((box) => this.items(box)).filter((i) => i < 0 && !["repeats", "loop"].includes(this.boxes[~i][1])).map((i) => ~i);
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
  reveal(node) {
    let changed = false;
    for (let box = this.home[node]; box >= 0; box = this.boxes[box][2]) if (!this.open.has(box)) { this.open.add(box); changed = true; }
    if (changed) this.layout();
  }
  // ---- texts and sizes
  lines(k) {
    const out = [T[this.name[k]] + (T[this.role[k]] ? "  ▸ " + T[this.role[k]] : "")];
    if (T[this.detail[k]]) out.push(cut(T[this.detail[k]], 34));
    const inner = this.inputs[k].filter((s) => this.inline[s]);
    for (const s of inner.slice(0, 3)) out.push(cut("• " + (T[this.name[s]] === "constant" ? "" : T[this.name[s]].split(".").pop() + " ") + T[this.type[s]] + " " + T[this.detail[s]], 36));
    if (inner.length > 3) out.push(`• ${inner.length - 3} more`);
    return out;
  }
  boxLabel(box) { return cut(T[this.boxes[box][0]] || "part", 44); }
  // What is in a box: how many nodes of each class, and the first names.
  content(box) {
    this.contents = this.contents || new Map();
    if (!this.contents.has(box)) {
      const classes = new Map(), names = new Set(), stack = this.items(box).slice().reverse();
      while (stack.length) {
        const item = stack.pop();
        if (item < 0) { stack.push(...this.items(~item).slice().reverse()); continue; }
        classes.set(this.class[item], (classes.get(this.class[item]) || 0) + 1);
        if (names.size <= STRIP_NAMES) names.add(T[this.name[item]]);
      }
      const words = [...names], total = this.boxes[box][3] || 1;
      const strip = [...classes].sort((a, b) => b[1] - a[1]).slice(0, STRIP_COLOURS).map(([word, many]) => [T[word], many / total]);
      this.contents.set(box, { strip, text: cut(`${nodesText(this.boxes[box][3])}: ${words.slice(0, STRIP_NAMES).join(", ")}${words.length > STRIP_NAMES ? ", …" : ""}`, 44) });
    }
    return this.contents.get(box);
  }
  measure(k) {
    const lines = this.lines(k);
    this.w[k] = Math.max(64, textWidth(lines[0], BOLD) + 18, ...lines.slice(1).map((l) => textWidth(l, SMALL) + 18));
    this.h[k] = 24 + 13 * (lines.length - 1);
  }
  // ---- places
  layout() {
    this.rowEnds = [];
    const downward = [], stack = [0], width = (item) => this.w[this.id(item)], height = (item) => this.h[this.id(item)];
    const near = (item) => this.neighbours[this.id(item)] || [];
    while (stack.length) { const box = stack.pop(); downward.push(box); for (const item of this.items(box)) if (item < 0 && this.open.has(~item)) stack.push(~item); }
    const corners = new Map();
    for (const box of downward.slice().reverse()) {
      const id = this.count + box, [, , , , parts, back] = this.boxes[box], pad = box ? PADDING : 0, head = box ? HEAD : 0;
      for (const item of this.items(box)) this.measureItem(item);
      const sides = [parts, back].filter((side) => side.length).map((side) => pack(side, width, height, near));
      const tall = Math.max(0, ...sides.map((side) => side.tall)), placed = new Map();
      let left = pad;
      sides.forEach((side, n) => {
        const top = pad + head + (n ? tall - side.tall : 0);
        for (const [item, [x, y]] of side.corners) placed.set(item, [left + x, top + y]);
        left += side.wide + GAP;
      });
      corners.set(box, placed);
      this.w[id] = Math.max(left - GAP + pad, box ? this.nameWidth(box) + 28 : 0);
      this.h[id] = tall + 2 * pad + head;
    }
    this.x[this.count] = this.y[this.count] = 0;
    for (const box of downward) for (const [item, [x, y]] of corners.get(box)) { this.x[this.id(item)] = this.x[this.count + box] + x; this.y[this.id(item)] = this.y[this.count + box] + y; }
    this.findShown();
    this.findEdges();
  }
  measureItem(item) {
    const id = this.id(item);
    if (item >= 0) { if (!this.h[id]) this.measure(id); return; }
    if (this.open.has(~item)) return;
    this.w[id] = Math.max(96, textWidth("+ " + this.boxLabel(~item), BOLD) + 22, textWidth(this.content(~item).text, SMALL) + 22);
    this.h[id] = 46;
  }
  // For each item what is seen of it: itself, the closed box it is in, or nothing.
  findShown() {
    const shown = (this.shown = new Int32Array(this.count + this.boxes.length).fill(-1)), stack = [[0, -1]];
    while (stack.length) {
      const [box, around] = stack.pop(), id = this.count + box, isOpen = around < 0 && this.open.has(box);
      const rep = around >= 0 ? around : isOpen ? -1 : id;
      shown[id] = rep < 0 ? id : rep;
      for (const item of this.items(box)) if (item < 0) stack.push([~item, rep]); else shown[item] = rep < 0 ? item : rep;
    }
  }
  rect(id) { return [this.x[id], this.y[id], this.w[id], this.h[id]]; }
  findEdges() {
    const edges = new Map(), all = this.count + this.boxes.length, { shown } = this;
    for (let k = 0; k < this.count; k++) {
      const b = shown[k];
      if (b < 0) continue;
      for (const s of this.inputs[k]) {
        const a = shown[s];
        if (a < 0 || a === b) continue;
        const known = edges.get(a * all + b);
        if (known) { if (known.from !== s) known.many++; } else edges.set(a * all + b, { a, b, from: s, many: 1, points: null });
      }
    }
    this.edges = [...edges.values()];
    for (const edge of this.edges) edge.isDouble = edges.has(edge.b * all + edge.a);
    this.near = new Map();
    for (const e of this.edges) for (const end of [e.a, e.b]) { if (!this.near.has(end)) this.near.set(end, []); this.near.get(end).push(e); }
    this.findPorts();
  }
  // Where edges meet what is seen: nodes in the order of their operands, boxes from left to right.
  findPorts() {
    const sides = new Map(), centre = (id, way) => (isVertical(way) ? this.x[id] + this.w[id] / 2 : this.y[id] + this.h[id] / 2);
    const add = (id, way, isLeaving, edge, other) => { const key = `${id} ${way === DOWN || way === RIGHT ? isLeaving : !isLeaving} ${isVertical(way)}`; if (!sides.has(key)) sides.set(key, []); sides.get(key).push({ id, way, isLeaving, edge, other }); };
    for (const e of this.edges) {
      e.way = wayBetween(...this.rect(e.a), ...this.rect(e.b));
      add(e.a, e.way, true, e, centre(e.b, e.way)); add(e.b, e.way, false, e, centre(e.a, e.way));
    }
    for (const meets of sides.values()) {
      const isBox = meets[0].id >= this.count, back = (m) => (m.way === UP || m.way === LEFT ? 1 : 0);
      if (isBox) meets.sort((a, b) => back(a) - back(b) || a.other - b.other);
      const listed = isBox ? meets : meets.filter((m) => !m.isLeaving), positions = new Map(listed.map((m, k) => [m, k]));
      for (const m of meets) {
        const { id, way, edge } = m, position = positions.get(m) ?? 0, count = positions.has(m) ? listed.length : 1;
        const size = isVertical(way) ? this.w[id] : this.h[id], gap = Math.min(PORT, (size * (isBox ? 0.8 : 0.6)) / Math.max(1, count - 1));
        const [u, v] = turned(way, this.x[id] + this.w[id] / 2, this.y[id] + this.h[id] / 2), half = (isVertical(way) ? this.h[id] : this.w[id]) / 2;
        const across = u + (position - (count - 1) / 2) * gap;
        if (m.isLeaving) edge.start = turnedBack(way, across, v + half); else edge.end = turnedBack(way, across, v - half);
      }
    }
  }
  // The rows of a box with their upper and lower ends, part by part.
  rowsOf(box) {
    if (!this.rowEnds[box]) {
      this.rowEnds[box] = [...this.boxes[box][4], ...this.boxes[box][5]].map((rows) => rows.map((row) => {
        let bottom = -Infinity;
        for (const item of row) { const i = this.id(item); bottom = Math.max(bottom, this.y[i] + this.h[i]); }
        return { row, top: this.y[this.id(row[0])], bottom };
      }));
    }
    return this.rowEnds[box];
  }
  // What begins first of all nodes, closed boxes and names of boxes that reach into a rectangle, across and along.
  first(way, left, right, begin, end) {
    const vertical = isVertical(way), sign = signOf(way), stack = [0];
    let best = null;
    const look = (x, y, w, h, item) => {
      const l = vertical ? x : y, r = l + (vertical ? w : h), b = sign > 0 ? (vertical ? y : x) : vertical ? -y - h : -x - w, e = b + (vertical ? h : w);
      if (l >= right - TOUCH || r <= left + TOUCH || b >= end - TOUCH || e <= begin + TOUCH) return;
      if (item < 0 && this.open.has(~item)) stack.push(~item); else if (!best || b < best[2]) best = [l, r, b, e];
    };
    while (stack.length) {
      const box = stack.pop(), id = this.count + box;
      if (box) look(this.x[id] + 6, this.y[id] + 4, this.nameWidth(box), 16, 0);
      for (const rows of this.rowsOf(box)) {
        const lookAt = ({ row }) => { for (const item of row) { const i = this.id(item); look(this.x[i], this.y[i], this.w[i], this.h[i], item); } };
        const limit = () => (best ? Math.min(end, best[2]) : end);
        if (way === UP) for (let n = firstPlace(rows.length, (k) => rows[k].top >= -begin) - 1; n >= 0 && -rows[n].bottom < limit(); n--) lookAt(rows[n]);
        else {
          const from = vertical ? begin : left;
          for (let n = firstPlace(rows.length, (k) => rows[k].bottom > from); n < rows.length && rows[n].top < (vertical ? limit() : right); n++) lookAt(rows[n]);
        }
      }
    }
    return best;
  }
  nameWidth(box) {
    this.nameWidths = this.nameWidths || [];
    return this.nameWidths[box] || (this.nameWidths[box] = textWidth(this.boxLabel(box), BOLD) + 20);
  }
  bends(edge) {
    if (!edge.points) {
      edge.points = route((...given) => this.first(...given), edge.way, edge.start, edge.end);
      edge.curve = bendsOf(edge.points, edge.way);
      const xs = edge.points.map((p) => p[0]), ys = edge.points.map((p) => p[1]);
      edge.area = [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)];
    }
    return edge.curve;
  }
}
// The first number below a count for which something holds, which then holds for all behind it.
function firstPlace(count, holds) {
  let low = 0, high = count;
  while (low < high) { const middle = (low + high) >> 1; if (holds(middle)) high = middle; else low = middle + 1; }
  return low;
}
const drawings = D.graphs.map((data, index) => new Drawing(data, index));

