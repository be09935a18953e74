// ------------------------------------------------------------------- placement
// Where the items of open boxes go, as in placement.py; rows and their order come with the data.
const GAP = 26, ROW_GAP = 46, PADDING = 14, HEAD = 24, SWEEPS = 8, LAST_SWEEPS = 2, LIGHT = 0.1, SHAPE = 1.5;

// The middle of each item: near to those it is joined with, without overlaps.
function relaxRows(rows, width, near) {
  const x = new Map(), level = new Map();
  rows.forEach((row, k) => { for (const item of row) level.set(item, k); });
  for (const row of rows) {
    let left = 0;
    for (const item of row) { x.set(item, left + width(item) / 2); left += width(item) + GAP; }
    for (const item of row) x.set(item, x.get(item) - (left - GAP) / 2);
  }
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const direction = sweep >= SWEEPS - LAST_SWEEPS ? 0 : 1 - 2 * (sweep % 2);
    for (let n = 0; n < rows.length; n++) {
      const row = rows[sweep % 2 ? rows.length - 1 - n : n];
      const wishes = row.map((item) => wishOf(item, near(item), level, x, direction));
      spreadRow(row.map(width), wishes).forEach((place, k) => x.set(row[k], place));
    }
  }
  return x;
}
// Where an item would be, and how much it matters.
function wishOf(item, near, level, x, direction) {
  let total = 0, weight = 0;
  for (const other of near) {
    if (!level.has(other)) continue;
    const away = level.get(item) - level.get(other);
    if (away * direction > 0 || (!direction && away)) { total += x.get(other) / Math.abs(away); weight += 1 / Math.abs(away); }
  }
  return weight ? [total / weight, 1] : [x.get(item), LIGHT];
}
// The places nearest to those wished for at which no two items overlap: isotonic regression.
function spreadRow(widths, wishes) {
  const room = [0], groups = [], out = [];
  for (let k = 1; k < widths.length; k++) room.push(room[k - 1] + (widths[k - 1] + widths[k]) / 2 + GAP);
  wishes.forEach(([wish, weight], k) => {
    let mean = wish - room[k], mass = weight, items = 1;
    while (groups.length && groups[groups.length - 1][0] > mean) {
      const [other, heavy, more] = groups.pop();
      mean = (other * heavy + mean * mass) / (heavy + mass);
      mass = heavy + mass; items = more + items;
    }
    groups.push([mean, mass, items]);
  });
  for (const [mean, , items] of groups) for (let n = 0; n < items; n++) out.push(mean + room[out.length]);
  return out;
}
// Parts beside and below each other: the left upper corners of their items, and the size of all.
function pack(parts, width, height, near) {
  const placed = parts.map((rows) => {
    const centre = relaxRows(rows, width, near), corners = new Map();
    let least = Infinity, most = -Infinity, top = 0;
    for (const [item, x] of centre) { least = Math.min(least, x - width(item) / 2); most = Math.max(most, x + width(item) / 2); }
    for (const row of rows) {
      let tall = 0;
      for (const item of row) { corners.set(item, [centre.get(item) - width(item) / 2 - least, top]); tall = Math.max(tall, height(item)); }
      top += tall + ROW_GAP;
    }
    return [corners, most - least, top - ROW_GAP];
  });
  const area = placed.reduce((sum, [, wide, tall]) => sum + (wide + GAP) * (tall + ROW_GAP), 0);
  const widest = Math.max(SHAPE * Math.sqrt(area), ...placed.map(([, wide]) => wide)), out = new Map();
  let left = 0, top = 0, lowest = 0, right = 0;
  for (const [corners, wide, tall] of placed) {
    if (left && left + wide > widest) { top += lowest + ROW_GAP; left = lowest = 0; }
    for (const [item, [x, y]] of corners) out.set(item, [left + x, top + y]);
    right = Math.max(right, left + wide); lowest = Math.max(lowest, tall);
    left += wide + GAP;
  }
  return { corners: out, wide: right, tall: top + lowest };
}

