// -------------------------------------------------------------------- rewrites
// Passes: name, drawings before and after, first and last record, nodes before and after, operations and bytes saved.
const listed = () => R.records.map((_, k) => k).filter((k) => S.rule < 0 || R.records[k][0] === S.rule);
const passOf = (record) => R.passes.findIndex(([, , , first, end]) => first <= record && record < end);
const passDrawings = () => R.passes[S.pass].slice(1, 3).map((g) => drawings[g]);
const isPassDrawn = () => Boolean(R && R.passes[S.pass] && R.passes[S.pass][1] >= 0);
function chooseRecord(record) {
  S.record = record;
  const pass = passOf(record);
  if (pass >= 0) S.pass = pass;
  S.node = S.box = -1;
  lookAtRecord();
  refresh();
}
function stepRecord(by) {
  const all = listed(), at = all.indexOf(S.record);
  if (all.length) chooseRecord(all[Math.min(all.length - 1, Math.max(0, at + by))]);
}
function choosePass(pass) {
  if (!R.passes[pass]) return;
  S.pass = pass; S.rule = -1; S.node = S.box = -1;
  const [, , , first, end] = R.passes[pass];
  if (first < Math.min(end, R.records.length)) S.record = first;
  lookAtRecord();
  refresh();
}
const recordNodes = (side) => { const record = R.records[S.record]; return (record && passOf(S.record) === S.pass && record[7] && record[7][side]) || []; };
// Constants and parameters are seen in their readers.
const seenFor = (g, k) => (g.inline[k] && g.readers[k].length ? g.readers[k][0] : k);
// Let the nodes of the record be seen in both drawings.
function lookAtRecord() {
  if (!isPassDrawn() || !width) return;
  panes().forEach(({ g, area }, side) => {
    const [first] = recordNodes(side);
    if (first === undefined) { if (!g.view) fitIn(g, area); return; }
    g.open = new Set(g.base);
    g.layout();
    g.reveal(seenFor(g, first));
    centreOn(g.shown[seenFor(g, first)], g, area, 0.6);
  });
}
// What the pass changed is framed, what the record did strongly.
function marksOf(g, side) {
  const nodes = new Map(), boxes = new Map();
  const mark = (list, colour) => { for (const k of list) { const own = seenFor(g, k), shown = g.shown[own]; if (shown >= g.count) boxes.set(shown, colour); else nodes.set(own, colour); } };
  const [, , , first, end] = R.passes[S.pass];
  for (const record of R.records.slice(first, Math.min(end, first + 2000))) if (record[7]) mark(record[7][side] || [], accent);
  mark(recordNodes(side), select);
  return { nodes, boxes };
}
function paintPass() {
  const [name, , , , , before, after] = R.passes[S.pass];
  panes().forEach(({ g, area }, side) => {
    paintGraph(g, area, marksOf(g, side));
    const text = `${side ? "after" : "before"} ${T[name]}: ${side ? after : before} nodes`;
    ctx.font = BOLD;
    ctx.fillStyle = back; ctx.globalAlpha = 0.9; ctx.fillRect(area.x + 8, 6, ctx.measureText(text).width + 12, 20); ctx.globalAlpha = 1;
    ctx.fillStyle = ink; ctx.fillText(text, area.x + 14, 20);
  });
  ctx.strokeStyle = line; ctx.lineWidth = 1; ctx.beginPath(); ctx.moveTo(width / 2, 0); ctx.lineTo(width / 2, height); ctx.stroke();
}
function fillPasses() {
  const bar = $("passes");
  bar.replaceChildren(el("span", `as written, ${R.nodes[0]} nodes`, { className: "faint" }));
  R.passes.forEach(([name, , , first, end, , after], k) => {
    const button = el("button", `${T[name]} ${after}`, { title: `${end - first} rewrites; ${after} nodes are left`, onclick: () => choosePass(k) });
    if (k === S.pass) button.setAttribute("aria-current", "step");
    bar.append(el("span", "→", { className: "faint" }), button);
  });
  const current = bar.querySelector("[aria-current]");
  if (current) current.scrollIntoView({ block: "nearest", inline: "nearest" });
}
function fillLedger() {
  const box = $("ledger"), kept = box.scrollTop;
  fillPasses();
  box.replaceChildren();
  if (!R.count) { box.append(el("h2", `${R.nodes[0]} nodes, and no rule applied`)); return; }
  const all = listed(), at = Math.max(0, all.indexOf(S.record));
  S.record = all[at] ?? 0;
  const record = R.records[S.record], rule = R.rules[record[0]];
  const bar = el("p", null, { className: "buttons" });
  bar.append(el("button", "◀ Previous", { id: "previous", disabled: at === 0, onclick: () => stepRecord(-1) }), el("button", "Next ▶", { id: "next", disabled: at + 1 >= all.length, onclick: () => stepRecord(1) }),
    el("span", ` rewrite ${at + 1} of ${all.length}${S.rule < 0 ? "" : " by this rule"}${R.count > R.records.length && S.rule < 0 ? `, the first of ${R.count}` : ""}`));
  if (S.rule >= 0) bar.append(el("button", "All rules", { onclick: () => { S.rule = -1; refresh(); } }));
  box.append(bar, el("p", null, {}, el("strong", T[rule[0]]), document.createTextNode(`  (${rule[1]})  `), el("code", T[rule[2]])));
  const side = (items, none) => el("div", null, {}, ...(items.length ? items.map((t) => el("p", T[t])) : [el("p", none, { className: "faint" })]));
  box.append(el("div", null, { className: "change" }, side(record[1], "nothing"), el("span", "→", { className: "arrow" }), side(record[2], "nothing new")));
  box.append(el("p", `saves ${countText(record[5])} operations, ${bytesText(record[6])} read and written`));
  for (const place of record[4]) { box.append(el("p", T[place], { className: "faint" })); if (T[D.lines[place]]) box.append(el("div", T[D.lines[place]], { className: "code" })); }
  box.append(ruleTable(record[0]));
  box.scrollTop = kept;
}
function ruleTable(chosen) {
  const table = el("table");
  table.append(el("tr", null, {}, ...["rule", "class", "times", "operations", "bytes", "says"].map((t, k) => el("th", t, { className: k > 1 && k < 5 ? "number" : "" }))));
  R.rules.forEach(([name, kind, says, times, operations, bytes], k) => {
    const pick = el("button", T[name], { className: "link", onclick: () => { S.rule = k; chooseRecord(R.records.findIndex((r) => r[0] === k)); } });
    table.append(el("tr", null, { className: k === chosen ? "chosen" : "" }, el("td", null, {}, pick), el("td", kind), el("td", String(times), { className: "number" }), el("td", countText(operations), { className: "number" }), el("td", bytesText(bytes), { className: "number" }), el("td", null, {}, el("code", T[says]))));
  });
  return table;
}
function rewritePanel(panel) {
  panel.append(el("h2", `${R.nodes[0]} nodes became ${R.nodes[1]}`), el("p", `${countText(R.saved[0])} operations and ${bytesText(R.saved[1])} of traffic saved`));
  const pass = R.passes[S.pass];
  if (pass) {
    const [name, , , first, end, before, after, operations, bytes] = pass, counts = new Map();
    panel.append(el("h3", `This pass: ${T[name]}`), el("p", `${end - first} ${end - first === 1 ? "rewrite" : "rewrites"}, ${before} nodes became ${after}; it saves ${countText(operations)} operations and ${bytesText(bytes)}`));
    for (const record of R.records.slice(first, end)) counts.set(record[0], (counts.get(record[0]) || 0) + 1);
    for (const [rule, times] of [...counts].sort((a, b) => b[1] - a[1]).slice(0, 12)) panel.append(el("div", null, { className: "row" }, link(T[R.rules[rule][0]], () => { S.rule = rule; chooseRecord(R.records.findIndex((r, k) => r[0] === rule && k >= first)); }), el("span", String(times), { className: "number" })));
    if (!isPassDrawn()) panel.append(el("p", "The graphs between passes are too large to be drawn.", { className: "faint" }));
  }
  if (!R.count) return;
  const nodes = nodesOf(R.records[S.record]);
  panel.append(el("h3", "Nodes at its lines, as written"));
  for (const k of nodes) panel.append(nodeLink(0, k));
  if (!nodes.length) panel.append(el("p", "None: what it changed came from an earlier rewrite.", { className: "faint" }));
}

