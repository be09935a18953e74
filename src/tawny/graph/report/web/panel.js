// ----------------------------------------------------------------------- panel
function link(text, act) { return el("button", text, { className: "link", onclick: act }); }
function nodeLink(g, k) { const one = drawings[g]; return link(`${T[one.name[k]]}  ${T[one.type[k]]}`, () => choose(g, k, true)); }
function fillPanel() {
  const panel = $("panel");
  panel.replaceChildren();
  if (S.view === "rewrites" && S.node < 0) rewritePanel(panel);
  if (S.view === "time") timePanel(panel);
  else if (S.node >= 0) nodePanel(panel, S.g, S.node);
  else if (S.view === "memory" && S.block >= 0) scratchPanel(panel, maps[S.map].blocks[S.block]);
  else if (S.view === "memory") stepPanel(panel);
  else if (S.box >= 0) boxPanel(panel);
  else if (S.view === "graph") overview(panel);
}
const titleOf = (g, k) => { const scope = scopeOf(g, k); return scope ? `${scope} (${T[g.name[k]]})` : T[g.name[k]]; };
function overview(panel) {
  const g = d();
  panel.append(el("h2", `${D.title}, ${g.label}`), el("p", `${g.count} nodes, ${g.boxes.length - 1} scopes and repeats`));
  if (M) { panel.append(el("h3", "Memory"), el("p", `arena ${bytesText(M.peak)}, lower bound ${bytesText(M.bound)}, unshared ${bytesText(M.unshared)}${M.budget !== null ? `, budget ${bytesText(M.budget)}` : ""}`), link(`Who is alive at the peak, step ${M.peakStep}?`, () => { S.map = 0; S.step = M.peakStep; S.node = -1; setView("memory"); })); }
  if (P) { panel.append(el("h3", "Time"), el("p", P.heading[0]), link("The slowest step", () => { setView("time"); chooseRow(sortedRows()[0]); })); }
  if (D.last) panel.append(el("h3", "The last run"), el("p", D.last.text), link("Colour what was computed", () => { $("colour").value = S.colour = "last"; refresh(); }));
  if (R) panel.append(el("h3", "Rewrites"), link(`${R.count} ${R.count === 1 ? "rewrite" : "rewrites"}: ${R.nodes[0]} nodes became ${R.nodes[1]}`, () => setView("rewrites")));
  panel.append(el("h3", "Largest values"));
  const order = g.bytes.map((_, k) => k).filter((k) => !g.inline[k]).sort((a, b) => g.bytes[b] - g.bytes[a]).slice(0, 12);
  for (const k of order) panel.append(el("div", null, { className: "row" }, link(titleOf(g, k), () => choose(S.g, k, true)), el("span", bytesText(g.bytes[k]), { className: "number" })), el("p", T[g.type[k]], { className: "faint under" }));
}
function boxPanel(panel) {
  const g = d(), [name, kind, parent, nodes] = g.boxes[S.box];
  panel.append(el("h2", T[name]), el("p", `${nodes} nodes${kind === "repeats" ? ", in repeats of one structure" : ""}`));
  const path = []; for (let b = parent; b > 0; b = g.boxes[b][2]) path.unshift(T[g.boxes[b][0]]);
  if (path.length) panel.append(el("p", "in " + path.join(" › "), { className: "faint" }));
  panel.append(el("button", g.open.has(S.box) ? "Close" : "Open", { onclick: () => toggle(S.box) }));
}
function nodePanel(panel, g, k) {
  const one = drawings[g];
  panel.append(el("h2", T[one.name[k]]), el("p", T[one.type[k]]));
  if (T[one.role[k]]) panel.append(el("p", T[one.role[k]]));
  if (T[one.detail[k]]) panel.append(el("p", T[one.detail[k]], { className: "faint" }));
  panel.append(el("p", `${bytesText(one.bytes[k])} · ${T[one.class[k]]} · ${one.label}`, { className: "faint" }));
  if (one.places[k].length) panel.append(el("h3", "Written at"));
  for (const place of one.places[k]) { panel.append(el("p", T[place])); if (T[D.lines[place]]) panel.append(el("div", T[D.lines[place]], { className: "code" })); }
  if (M) memoryOf(panel, g, k);
  if (P && S.view !== "time") timeLinks(panel, g, k);
  if (R) {
    const found = rewritesAt(g, k);
    if (found.length) panel.append(el("h3", "Rewrites here"));
    for (const r of found.slice(0, 8)) panel.append(link(`${T[R.rules[R.records[r][0]][0]]}: ${R.records[r][1].map((t) => T[t]).join(", ")}`, () => { S.rule = -1; S.record = r; S.pass = Math.max(0, passOf(r)); S.node = -1; setView("rewrites"); }));
    if (found.length > 8) panel.append(el("p", `and ${found.length - 8} more`, { className: "faint" }));
  }
  for (const [title, list] of [["Reads", one.inputs[k]], ["Read by", one.readers[k]]]) {
    if (list.length) panel.append(el("h3", title));
    for (const other of list.slice(0, 12)) panel.append(nodeLink(g, other));
    if (list.length > 12) panel.append(el("p", `and ${list.length - 12} more`, { className: "faint" }));
  }
  if (drawings.length > 1 && g === 1 && D.twins) { const from = written(k).filter((w) => w >= 0); if (from.length) panel.append(el("h3", "Computes, as written")); for (const w of from.slice(0, 12)) panel.append(link(`${T[drawings[0].name[w]]}  ${T[drawings[0].type[w]]}`, () => { setGraph(0); S.view === "graph" ? choose(0, w, true) : choose(0, w); })); if (from.length > 12) panel.append(el("p", `and ${from.length - 12} more`, { className: "faint" })); }
}
function timeLinks(panel, g, k) {
  const run = runOf(g, k), took = timeOf(g, k);
  if (took === null) return;
  panel.append(el("h3", "Time"), el("p", `${secondsText(took)}, ${percent(took / timeWhole())} of the run${isInside(g, k) ? ", together with what else is computed there" : ""}`));
  for (const r of (rowsOf.get(run) || []).slice(0, 4)) panel.append(link(`step ${P.rows[r][0]}: ${secondsText(P.rows[r][2])}, ${percent(P.rows[r][7])} of the roof`, () => { S.row = r; setView("time"); chooseRow(r); }));
}
function memoryOf(panel, g, k) {
  if (isOther(g)) { memoryIn(panel, maps[1], k); return; }
  const run = runOf(g, k);
  panel.append(el("h3", "Memory"));
  const inside = run >= 0 && isInside(g, k);
  if (inside) panel.append(el("p", `computed inside ${T[drawings[1].name[run]]}, without memory of its own`));
  else if (run < 0) { panel.append(el("p", isPass(g) ? "not in the graph that is run" : "optimised away, or folded into a constant")); return; }
  if (inside || (g === 0 && drawings[1].name[run] !== drawings[0].name[k])) panel.append(link(`runs as ${T[drawings[1].name[run]]}`, () => { setGraph(1); choose(1, run, true); }));
  if (inside) return;
  memoryIn(panel, M, run);
  if (maps[1] && fromRun.has(run)) { panel.append(el("h3", "In the other plan")); memoryIn(panel, maps[1], fromRun.get(run)); }
}
function memoryIn(panel, map, run) {
  if (map.why[run] !== undefined) panel.append(el("p", T[map.why[run]]));
  for (const b of map.blocksOf.get(run) || []) { const [offset, bytes, first, last, kind] = map.blocks[b]; panel.append(link(`${bytesText(bytes)} at ${offset}, steps ${first} to ${last}, ${kind}`, () => { S.map = map.number; S.block = b; S.step = Math.max(first, 0); setView("memory"); })); }
  if (!map.blocksOf.has(run) && map.why[run] === undefined) panel.append(el("p", "outside the arena: an input, a constant, a view or a variable's own memory"));
  for (const s of (map.stepsOf.get(run) || []).slice(0, 6)) panel.append(el("p", `step ${s}${map.isAgain.has(s) ? ", computed again" : ""}${map.isBand.has(s) ? ", in bands of rows" : ""}${map.isOver.has(s) ? ", in place" : ""}`, { className: "faint" }));
}
function scratchPanel(panel, block) {
  const map = maps[S.map];
  panel.append(el("h2", "Scratch memory"), el("p", `${bytesText(block[1])} at ${block[0]}, needed while step ${block[2]} runs`));
  if (map.inBand(block)) panel.append(el("p", "It holds some rows of what is computed in bands, so that nothing of it is ever whole."));
  if (map.steps[block[2]] !== undefined) panel.append(nodeLink(map.g, map.steps[block[2]]));
}
function stepPanel(panel) {
  const map = maps[S.map], g = map.drawing, step = S.step, node = map.steps[step];
  if (node === undefined) { panel.append(el("h2", "Memory"), el("p", "The run has no steps.")); return; }
  const alive = map.blocks.map((b, k) => [b, k]).filter(([b]) => b[2] <= step && step <= b[3]).sort((a, b) => b[0][1] - a[0][1]);
  const total = Math.max(1, map.live[step]);
  panel.append(el("h2", step === map.peakStep ? `The peak: step ${step} of ${map.steps.length}` : `Step ${step} of ${map.steps.length}`));
  panel.append(nodeLink(map.g, node));
  for (const place of g.places[node].slice(0, 1)) { panel.append(el("p", T[place], { className: "faint" })); if (T[D.lines[place]]) panel.append(el("div", T[D.lines[place]], { className: "code" })); }
  if (step !== map.peakStep) panel.append(link(`Go to the peak, step ${map.peakStep}`, () => setStep(map.peakStep)));
  panel.append(el("h3", `${alive.length === 1 ? "1 value" : `${alive.length} values`} in use: ${bytesText(map.live[step])}${map.peak > map.live[step] ? ` of an arena of ${bytesText(map.peak)}` : ""}`));
  for (const [b, k] of alive.slice(0, 40)) panel.append(aliveRow(map, b, k, step, total));
  if (alive.length > 40) panel.append(el("p", `and ${alive.length - 40} smaller ones`, { className: "faint" }));
  if (D.diff) { panel.append(el("h3", "This plan and the other")); for (const text of D.diff) panel.append(el("p", text)); }
}
// A value that is in use at a step: its part of all, what it is, and who needs it until when.
function aliveRow(map, block, k, step, total) {
  const [, bytes, first, last, kind, tenants] = block, g = map.drawing, node = map.steps[step];
  const who = kind === "scratch" ? -1 : map.tenantAt(block, step), own = tenants.find(([one]) => one === who);
  const next = own && own[1] <= step ? tenants.find(([, made]) => made > step) : undefined;
  const until = next ? next[1] : last, reader = map.steps[until];
  const act = () => { if (who < 0) { S.block = k; S.node = -1; refresh(); } else choose(map.g, who, true); };
  const notes = [];
  if (kind === "kept") notes.push("kept for the next run");
  if (tenants.some(([, made]) => map.isAgain.has(made))) notes.push("computed again");
  if (who >= 0 && who === node) notes.push(map.isOver.has(step) ? "being written, in place" : "being written");
  if (who < 0) notes.push("for this step alone");
  else if (own[1] > step) notes.push(`its memory is its own; written at step ${own[1]}`);
  else if (next) notes.push(`overwritten at step ${until} by ${map.title(reader)}`);
  else if (kind === "transient" && until === step && who !== node) notes.push("used for the last time here");
  else if (kind === "transient" && until > step) notes.push(`needed until step ${until}, ${reader === undefined ? "the end" : map.title(reader)}`);
  const bar = el("div", null, { className: "bar" }, el("i"));
  bar.firstChild.style.width = `${Math.max(0.5, (100 * bytes) / total)}%`;
  const head = el("div", null, { className: "row" }, link(who < 0 ? "scratch" : map.title(who), act), el("span", `${bytesText(bytes)} · ${Math.round((100 * bytes) / total)} %`, { className: "number" }));
  return el("div", null, { className: "alive" }, head, bar, el("p", [who < 0 ? "" : T[g.type[who]], ...notes].filter(Boolean).join(" · "), { className: "faint" }));
}
function swatch(colour, kind) {
  const c = el("canvas"); c.width = 36; c.height = 24;
  const p = c.getContext("2d"); p.fillStyle = colour; p.fillRect(0, 0, 36, 24);
  if (kind === "in place") { p.fillStyle = ink; p.beginPath(); p.moveTo(0, 0); p.lineTo(18, 0); p.lineTo(0, 18); p.fill(); } else if (kind === "chosen" || kind === "framed") { p.strokeStyle = kind === "chosen" ? select : accent; p.lineWidth = 6; p.strokeRect(3, 3, 30, 18); } else if (kind) { p.fillStyle = pattern(kind); p.fillRect(0, 0, 36, 24); }
  return c;
}
function fillLegend() {
  const box = $("legend");
  box.replaceChildren();
  const add = (text, ...look) => box.append(el("span", null, {}, swatch(...look), document.createTextNode(text)));
  if (S.view === "memory") {
    if (M.blocks.some((b) => b[4] === "transient")) add("until its last use", M.zones.fill(0));
    if (M.blocks.some((b) => b[4] === "kept")) add("kept for the next run", M.zones.fill(0), "kept");
    if (M.blocks.some((b) => b[5].length > 1)) add("written in place of the one before", M.zones.fill(0), "in place");
    if (M.again.length) add("computed again", M.zones.fill(0), "again");
    if (M.blocks.some((b) => b[4] === "scratch" && !M.inBand(b))) add("scratch", fill(0, 0), "scratch");
    if (M.blocks.some((b) => b[4] === "scratch" && M.inBand(b))) add("rows of a band", fill(0, 0), "band");
    box.append(el("span", "strong: in use at the selected step"));
  } else if (S.view === "rewrites") {
    if (isPassDrawn()) { add("changed by this rewrite", card, "chosen"); add("changed by this pass", card, "framed"); }
  } else if (S.view === "time") {
    const zones = M.zones;
    zones.names.slice(0, 14).forEach((name, k) => add(name || "no scope", zones.fill(k)));
    if (zones.names.length > 14) box.append(el("span", `and ${zones.names.length - 14} more scopes`));
  } else if (S.view === "graph") {
    const g = d();
    if (S.colour === "class") for (const t of new Set(g.class.filter((_, k) => !g.inline[k]))) add(T[t], fill(hueOf(T[t]), T[t] === "constant" ? 0 : 1));
    else if (S.colour === "time") for (const part of [1e-3, 1e-2, 0.1, 1]) add(secondsText(timeMost * part), heat(part));
    else if (S.colour === "last") { add("computed in the last run", fill(28, 1)); add("reused, or no step of its own", card); }
    else if (S.colour === "bytes") for (const part of [1e-3, 1e-2, 0.1, 1]) add(bytesText(Math.round(g.byteMost * part)), heat(part));
    else add("one colour for each block of memory; none: no memory of its own", fill(140));
  }
}

