// -------------------------------------------------------------------- rewrites
const listed = () => R.records.map((_, k) => k).filter((k) => S.rule < 0 || R.records[k][0] === S.rule);
function stepRecord(by) { const all = listed(); if (!all.length) return; const at = all.indexOf(S.record); S.record = all[Math.min(all.length - 1, Math.max(0, at + by))]; refresh(); }
function fillLedger() {
  const box = $("ledger"), kept = box.scrollTop;
  box.replaceChildren();
  box.append(el("h2", `${R.nodes[0]} nodes became ${R.nodes[1]}: ${countText(R.saved[0])} operations and ${bytesText(R.saved[1])} of traffic saved`));
  if (!R.count) { box.append(el("p", "No rule applied.")); return; }
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
  const table = el("table");
  table.append(el("tr", null, {}, ...["rule", "class", "times", "operations", "bytes", "says"].map((t, k) => el("th", t, { className: k > 1 && k < 5 ? "number" : "" }))));
  R.rules.forEach(([name, kind, says, times, operations, bytes], k) => {
    const pick = el("button", T[name], { className: "link", onclick: () => { S.rule = k; S.record = R.records.findIndex((r) => r[0] === k); refresh(); } });
    table.append(el("tr", null, { className: k === record[0] ? "chosen" : "" }, el("td", null, {}, pick), el("td", kind), el("td", String(times), { className: "number" }), el("td", countText(operations), { className: "number" }), el("td", bytesText(bytes), { className: "number" }), el("td", null, {}, el("code", T[says]))));
  });
  box.append(table);
  box.scrollTop = kept;
}

