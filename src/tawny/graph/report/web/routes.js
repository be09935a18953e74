// ---------------------------------------------------------------------- routes
// Ways of edges around everything that stands between their ends, as in routes.py.
const ASIDE = 10, CLEAR = 5, TURN = ROW_GAP * 0.75, MAX_TURNS = 24, MAX_LOOKS = 6, TOUCH = 0.5, PORT = 22;
const DOWN = 0, UP = 1, RIGHT = 2, LEFT = 3;
const isVertical = (way) => way < RIGHT, signOf = (way) => (way === DOWN || way === RIGHT ? 1 : -1);
// Points in coordinates in which every edge runs down: across and along its direction.
const turned = (way, x, y) => (isVertical(way) ? [x, signOf(way) * y] : [y, signOf(way) * x]);
const turnedBack = (way, u, v) => (isVertical(way) ? [u, signOf(way) * v] : [signOf(way) * v, u]);
function wayBetween(ax, ay, aw, ah, bx, by, bw, bh) {
  if (by >= ay + ah) return DOWN;
  if (by + bh <= ay) return UP;
  return bx >= ax + aw ? RIGHT : LEFT;
}
// `first` gives what begins first of all that reaches into a rectangle, across and along: its left, right, begin and end.
function route(first, way, start, end) {
  let [u, v] = turned(way, ...start);
  const goal = turned(way, ...end), points = [[u, v]];
  const inLine = (across, begin, stop) => first(way, across - CLEAR, across + CLEAR, begin, stop);
  for (let turns = 0; turns < MAX_TURNS; turns++) {
    const turn = Math.min(TURN, goal[1] - v);
    if (!inLine(goal[0], v, goal[1])) {
      if (Math.abs(goal[0] - u) <= TOUCH) break;
      const low = clearFrom(first, inLine, way, u, v, goal, turn);
      if (low !== null) { points.push([u, low], [goal[0], low + turn]); break; }
    }
    const block = inLine(u, v, goal[1]);
    if (!block) { points.push([u, goal[1] - turn]); break; }
    const beside = besideOf(inLine, block, u, goal[0]), begin = clearUntil(first, way, u, beside, block[2], v);
    points.push([u, Math.max(v, begin - TURN)], [beside, begin], [beside, block[3]]);
    u = beside; v = block[3];
  }
  points.push(goal);
  return points.filter(([a, b], k) => !k || a !== points[k - 1][0] || b !== points[k - 1][1]).map(([a, b]) => turnedBack(way, a, b));
}
// A free line beside an obstacle, on the side that is nearer to the goal if there is one.
function besideOf(inLine, block, u, goal) {
  const lines = [block[0] - ASIDE, block[1] + ASIDE].sort((a, b) => Math.abs(a - goal) - Math.abs(b - goal) || Math.abs(a - u) - Math.abs(b - u));
  for (const line of lines) {
    let outer = line;
    for (let looks = 0; looks < MAX_LOOKS; looks++) {
      const other = inLine(outer, block[2], block[3]);
      if (!other) return outer;
      outer = line < block[0] ? other[0] - ASIDE : other[1] + ASIDE;
    }
  }
  return lines[0];
}
// From where on an edge can move aside to its goal; null where something is in its way.
function clearFrom(first, inLine, way, u, v, goal, turn) {
  let low = v;
  for (let looks = 0; looks < MAX_LOOKS; looks++) {
    const block = first(way, Math.min(u, goal[0]), Math.max(u, goal[0]), low, low + turn);
    if (!block) return inLine(u, v, low) ? null : low;
    low = block[3];
    if (low + turn > goal[1]) break;
  }
  return null;
}
// Until where an edge has to have moved aside, before what stands beside an obstacle.
function clearUntil(first, way, u, beside, begin, least) {
  for (let looks = 0; looks < MAX_LOOKS; looks++) {
    const block = first(way, Math.min(u, beside), Math.max(u, beside), Math.max(least, begin - TURN), begin);
    if (!block || block[2] <= least) break;
    begin = block[2];
  }
  return begin;
}
// For each point but the first the two that bend the curve to it, and it itself.
function bendsOf(points, way) {
  return points.slice(1).map(([bx, by], k) => {
    const [ax, ay] = points[k];
    return isVertical(way) ? [ax, (ay + by) / 2, bx, (ay + by) / 2, bx, by] : [(ax + bx) / 2, ay, (ax + bx) / 2, by, bx, by];
  });
}

