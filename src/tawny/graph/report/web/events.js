// ---------------------------------------------------------------------- search
function search(words) {
  const box = $("found"), wanted = words.trim().toLowerCase();
  box.replaceChildren();
  if (!wanted) return;
  const g = d(), hit = T.map((t) => t.toLowerCase().includes(wanted));
  let count = 0;
  g.boxes.forEach(([name, kind, , nodes], b) => { if (b && kind !== "part" && hit[name] && count < 12) { count++; box.append(el("button", `▢ ${T[name]}  (${nodes} nodes)`, { onclick: () => { for (let p = g.boxes[b][2]; p >= 0; p = g.boxes[p][2]) g.open.add(p); g.layout(); S.box = b; S.node = -1; closeSearch(); if (S.view !== "graph") setView("graph"); centreOn(g.count + b); refresh(); } })); } });
  const order = [...g.inline.keys()].sort((a, b) => g.inline[a] - g.inline[b]);
  for (const k of order) if (count >= 60) break; else if (hit[g.name[k]] || hit[g.type[k]] || hit[g.role[k]] || g.places[k].some((p) => hit[p] || hit[D.lines[p]])) { count++; box.append(el("button", `${T[g.name[k]]}  ${T[g.type[k]]}  ${g.places[k].length ? T[g.places[k][0]] : ""}`, { onclick: () => { closeSearch(); choose(S.g, k, true); } })); }
  if (!count) box.append(el("button", "nothing found", { disabled: true }));
}
function closeSearch() { $("found").replaceChildren(); $("search").value = ""; canvas.focus({ preventScroll: true }); }

// ---------------------------------------------------------------------- events
const pointers = new Map();
let moved = 0, spread = 0;
const spot = (e) => { const box = canvas.getBoundingClientRect(); return [e.clientX - box.left, e.clientY - box.top]; };
canvas.addEventListener("pointerdown", (e) => { canvas.setPointerCapture(e.pointerId); pointers.set(e.pointerId, spot(e)); if (pointers.size === 1) moved = 0; spread = 0; canvas.focus({ preventScroll: true }); });
canvas.addEventListener("pointermove", (e) => {
  const [x, y] = spot(e), was = pointers.get(e.pointerId);
  if (!was) return hover(x, y);
  pointers.set(e.pointerId, [x, y]);
  moved += Math.abs(x - was[0]) + Math.abs(y - was[1]);
  if (moved < 4) return;
  $("tip").hidden = true;
  if (pointers.size === 1) return pan(x - was[0], y - was[1], x);
  const [[ax, ay], [bx, by]] = [...pointers.values()], now = Math.hypot(ax - bx, ay - by);
  if (spread) zoom(now / spread, (ax + bx) / 2, (ay + by) / 2);
  spread = now;
  pan((x - was[0]) / 2, (y - was[1]) / 2, x);
});
canvas.addEventListener("pointerup", (e) => { const single = pointers.size === 1; pointers.delete(e.pointerId); spread = 0; if (single && moved < 4) click(...spot(e)); });
canvas.addEventListener("pointercancel", (e) => pointers.delete(e.pointerId));
canvas.addEventListener("pointerleave", () => { $("tip").hidden = true; });
canvas.addEventListener("wheel", (e) => { e.preventDefault(); if (e.shiftKey) return pan(-e.deltaY, 0, spot(e)[0]); zoom(Math.exp(-Math.max(-60, Math.min(60, e.deltaY)) / 250), ...spot(e)); }, { passive: false });
function click(x, y) {
  if (S.view === "graph") {
    const item = itemAt(x, y);
    if (item === null) { S.node = S.box = -1; refresh(); } else if (item < 0) toggle(~item); else choose(S.g, item, false);
    return;
  }
  if (S.view === "rewrites") {
    const { g, area } = paneAt(x), item = itemAt(x - area.x, y, g);
    if (item === null) { S.node = -1; refresh(); } else if (item >= 0) choose(g.index, item, false); else { const box = ~item; if (g.open.has(box)) g.open.delete(box); else g.open.add(box); g.layout(); draw(); }
    return;
  }
  if (S.view === "time") { const k = spanAt(x, y); if (k >= 0) chooseRow(P.spans[k][0]); else { S.row = S.node = -1; refresh(); } return; }
  const map = mapAt(x), k = map.blockAt(x, y), step = map.stepAt(x);
  if (step < 0 || step >= map.steps.length) return;
  S.map = map.number; S.step = step; S.node = -1; S.block = -1;
  if (k >= 0) { const who = map.tenantAt(map.blocks[k], step); if (who >= 0) choose(map.g, who, false); S.block = k; }
  refresh();
}
function memoryTip(map, x, y) {
  const k = map.blockAt(x, y), step = map.stepAt(x), g = map.drawing;
  if (k >= 0) {
    const b = map.blocks[k], who = map.tenantAt(b, step);
    const why = who >= 0 && map.why[who] !== undefined ? "\n" + cut(T[map.why[who]], 240) : "";
    return `${who < 0 ? "scratch" : map.title(who) + " " + T[g.type[who]]}\n${bytesText(b[1])} at ${b[0]}, steps ${b[2]} to ${b[3]}, ${b[4]}${who >= 0 && g.places[who].length ? "\n" + T[g.places[who][0]] : ""}${why}`;
  }
  return step >= 0 && step < map.steps.length && y > EDGE.top ? `step ${step}: ${T[g.name[map.steps[step]]]}, ${bytesText(map.live[step])} in use` : "";
}
function hover(x, y) {
  const tip = $("tip");
  let text = "";
  const pane = paneAt(x);
  if (pane && pane.g.view) { const { g } = pane, item = itemAt(x - pane.area.x, y, g); if (item !== null && item >= 0) text = `${T[g.name[item]]} ${T[g.type[item]]}\n${bytesText(g.bytes[item])}${g.places[item].length ? "\n" + T[g.places[item][0]] : ""}`; else if (item !== null) text = `${T[g.boxes[~item][0]]}: ${g.boxes[~item][3]} nodes, click to ${g.open.has(~item) ? "close" : "open"}`; }
  if (S.view === "memory") text = memoryTip(mapAt(x), x, y);
  if (S.view === "time") { const k = spanAt(x, y); if (k >= 0) { const [r, lane, start, stop] = P.spans[k], row = P.rows[r]; text = `${rowName(row)}\n${P.lanes[lane]}: ${secondsText(stop - start)} from ${secondsText(start)}\nstep ${row[0]}, on average ${secondsText(row[2])}, ${percent(row[7])} of the roof`; } }
  tip.hidden = !text;
  tip.textContent = text;
  tip.style.left = Math.max(0, Math.min(x + 14, width - 320)) + "px"; tip.style.top = Math.min(y + 14, height - 70) + "px";
}
// Frames around the large areas are for those who come to them by the Tab key.
document.addEventListener("keydown", (e) => { if (e.key === "Tab") document.documentElement.classList.add("by-keyboard"); });
document.addEventListener("pointerdown", () => document.documentElement.classList.remove("by-keyboard"));
document.addEventListener("keydown", (e) => {
  if (e.target === $("search")) { if (e.key === "Escape") closeSearch(); if (e.key === "Enter") { const first = $("found").querySelector("button:not([disabled])"); if (first) first.click(); } if (e.key === "ArrowDown") { const first = $("found").querySelector("button"); if (first) { first.focus(); e.preventDefault(); } } return; }
  if (e.ctrlKey || e.metaKey || e.altKey || e.target.tagName === "SELECT") return;
  if (e.key === "/") { e.preventDefault(); $("search").focus(); return; }
  if (e.target.getAttribute && e.target.getAttribute("role") === "tab" && (e.key === "ArrowLeft" || e.key === "ArrowRight")) { const at = VIEWS.findIndex(([v]) => v === S.view), to = VIEWS[(at + (e.key === "ArrowRight" ? 1 : VIEWS.length - 1)) % VIEWS.length][0]; setView(to); [...$("tabs").children].find((t) => t.dataset.view === to).focus(); e.preventDefault(); return; }
  if (/^[1234]$/.test(e.key) && VIEWS[e.key - 1]) return setView(VIEWS[e.key - 1][0]);
  if (S.view === "rewrites") {
    const steps = { ArrowLeft: () => stepRecord(-1), ArrowRight: () => stepRecord(1), "[": () => choosePass(S.pass - 1), "]": () => choosePass(S.pass + 1) };
    if (Object.hasOwn(steps, e.key)) { steps[e.key](); e.preventDefault(); return; }
    if (e.target === $("ledger")) return;
  }
  if (e.target !== canvas && e.target !== roof && e.target !== document.body) return;
  const act = { "+": () => zoom(1.25), "=": () => zoom(1.25), "-": () => zoom(0.8), 0: fitWhole, ArrowUp: () => pan(0, 60), ArrowDown: () => pan(0, -60), ArrowLeft: () => pan(60, 0), ArrowRight: () => pan(-60, 0) };
  if (S.view === "graph") Object.assign(act, { n: () => next(1), p: () => next(-1), o: () => { d().openMore(); refresh(); }, c: () => { d().closeAll(); fit(); refresh(); }, Enter: () => { if (S.box >= 0) toggle(S.box); }, Escape: () => { S.node = S.box = -1; refresh(); } });
  else if (S.view === "memory") Object.assign(act, { ArrowLeft: () => setStep(S.step - 1), ArrowRight: () => setStep(S.step + 1), m: () => setStep(maps[S.map].peakStep), Home: () => setStep(0), End: () => setStep(maps[S.map].steps.length - 1), Enter: () => choose(maps[S.map].g, maps[S.map].steps[S.step], false), Escape: () => setStep(S.step) });
  else {
    const inTurn = P.rows.map((_, k) => k);
    Object.assign(act, { ArrowLeft: () => moveRow(inTurn, -1), ArrowRight: () => moveRow(inTurn, 1), ArrowUp: () => moveRow(sortedRows(), -1), ArrowDown: () => moveRow(sortedRows(), 1), m: () => chooseRow(sortedRows()[0]), Home: () => chooseRow(0), End: () => chooseRow(P.rows.length - 1), Enter: () => { const row = P.rows[S.row]; if (row && row[1] >= 0) { setView("graph"); choose(1, row[1], true); } }, Escape: () => { S.row = S.node = -1; refresh(); } });
  }
  if (Object.hasOwn(act, e.key)) { act[e.key](); e.preventDefault(); }
});

// ----------------------------------------------------------------------- start
$("title").textContent = D.title; document.title = D.title + " – Tawny";
for (const [view, name] of VIEWS) { const tab = el("button", name, { onclick: () => setView(view) }); tab.dataset.view = view; tab.setAttribute("role", "tab"); $("tabs").append(tab); }
drawings.forEach((g, k) => $("which").append(el("option", g.label, { value: String(k) })));
for (const [value, name] of COLOURS) $("colour").append(el("option", name, { value }));
$("which").onchange = () => { const g = Number($("which").value), was = S.g, node = S.node; S.box = -1; setGraph(g); if (node >= 0) { S.g = g; const other = inGraph(g, was, node); S.node = -1; if (other >= 0) choose(g, other, true); } refresh(); };
$("colour").onchange = () => { S.colour = $("colour").value; refresh(); };
$("axis").onchange = () => { S.axis = $("axis").value; draw(); };
$("zoom-in").onclick = () => zoom(1.25); $("zoom-out").onclick = () => zoom(0.8); $("fit").onclick = fitWhole;
$("open-all").onclick = () => { d().openMore(); refresh(); }; $("close-all").onclick = () => { d().closeAll(); fit(); refresh(); };
$("search").oninput = () => search($("search").value);
dark.onchange = () => { readColours(); refresh(); };
readColours();
new ResizeObserver(resize).observe($("stage"));
setView(S.view);
document.documentElement.dataset.ready = String(Math.ceil(performance.now()));
