"use strict";
// Names and values are text: they reach the page through textContent and canvases alone.
const D = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const dark = matchMedia("(prefers-color-scheme: dark)");
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
function el(tag, text, more, ...children) {
  const made = document.createElement(tag);
  if (text !== null && text !== undefined) made.textContent = text;
  Object.assign(made, more || {});
  for (const child of children) if (child) made.append(child);
  return made;
}
const shortText = (x) => (Number.isInteger(x) && Math.abs(x) < 1e6 ? String(x) : Number(x.toPrecision(4)).toString());
const milliseconds = (s) => (s < 1e-3 ? (s * 1e6).toFixed(0) + " µs" : s < 1 ? (s * 1e3).toFixed(1) + " ms" : s.toFixed(2) + " s");

// --------------------------------------------------------------------- controls
// One request is under way at a time; what moves meanwhile is sent when it is back.
let waiting = {}, isBusy = false, newest = null;
async function send() {
  if (isBusy) return;
  isBusy = true;
  const given = waiting;
  waiting = {};
  try {
    const start = performance.now();
    const answer = await fetch("run", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(given) });
    const found = await answer.json();
    if (found.error !== undefined) say(found.error, true);
    else { newest = found; found.whole = performance.now() - start; show(found); }
  } catch { say("The program is not there any more.", true); }
  isBusy = false;
  document.documentElement.dataset.runs = String(Number(document.documentElement.dataset.runs || 0) + 1);
  if (Object.keys(waiting).length) send();
}
function say(text, isWrong) { $("said").textContent = text; $("said").className = isWrong ? "wrong" : ""; }
function control(one) {
  const values = one.values.slice(), many = values.length > 1;
  const change = (k, value) => { values[k] = value; waiting[one.name] = values.slice(); send(); };
  const box = el("label", null, {}, el("strong", one.name));
  values.forEach((value, k) => {
    const row = el("span", null, { className: "row" }), out = el("output", shortText(value));
    if (many) row.append(el("span", String(k)));
    let input;
    if (one.look === "switch") { input = el("input", null, { type: "checkbox", checked: value !== 0 }); input.onchange = () => { out.textContent = input.checked ? "true" : "false"; change(k, input.checked ? 1 : 0); }; out.textContent = value ? "true" : "false"; }
    else if (one.look === "choice") { input = el("select"); one.choices.forEach((c, n) => input.append(el("option", shortText(c), { value: String(n), selected: c === value }))); input.onchange = () => { out.textContent = shortText(one.choices[input.value]); change(k, one.choices[input.value]); }; }
    else {
      const step = one.whole ? 1 : (one.high - one.low) / 500;
      input = el("input", null, { type: "range", min: "0", max: String(Math.round((one.high - one.low) / step)), step: "1" });
      input.value = String(Math.round((value - one.low) / step));
      input.oninput = () => { const now = Math.min(one.high, one.low + Number(input.value) * step); out.textContent = shortText(now); change(k, now); };
    }
    input.setAttribute("aria-label", many ? `${one.name} ${k}` : one.name);
    row.append(input, out); box.append(row);
  });
  return box;
}

// --------------------------------------------------------------------- pictures
const RAMP = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
function ramp(part) { const at = part * (RAMP.length - 1), k = Math.min(RAMP.length - 2, Math.floor(at)), t = at - k; return RAMP[k].map((c, n) => c + t * (RAMP[k + 1][n] - c)); }
const TABLE = Array.from({ length: 256 }, (_, k) => ramp(k / 255));
function drawPixels(canvas, p) {
  const raw = atob(p.bytes), image = new ImageData(Math.max(1, p.wide), Math.max(1, p.tall)), n = p.channels, { data } = image;
  for (let at = 0, to = 0; at < raw.length; at += n, to += 4) {
    const b = raw.charCodeAt(at), colour = TABLE[b];
    if (n >= 3) { data[to] = b; data[to + 1] = raw.charCodeAt(at + 1); data[to + 2] = raw.charCodeAt(at + 2); }
    else if (p.grey) data[to] = data[to + 1] = data[to + 2] = b;
    else { data[to] = colour[0]; data[to + 1] = colour[1]; data[to + 2] = colour[2]; }
    data[to + 3] = n === 4 ? raw.charCodeAt(at + 3) : 255;
  }
  canvas.width = image.width; canvas.height = image.height;
  canvas.className = "pixels";
  const scale = Math.max(1, Math.min(Math.floor(420 / image.width), Math.floor(420 / image.height)));
  canvas.style.width = image.width * scale + "px";
  canvas.getContext("2d").putImageData(image, 0, 0);
}
function drawLine(canvas, p) {
  const wide = 460, tall = 240, dpr = devicePixelRatio || 1;
  canvas.width = wide * dpr; canvas.height = tall * dpr; canvas.style.width = wide + "px";
  const c = canvas.getContext("2d");
  c.scale(dpr, dpr);
  const known = p.points.filter(([, y]) => y !== null), most = p.points.length ? p.points[p.points.length - 1][0] : 1;
  let low = Infinity, high = -Infinity;
  for (const [, y] of known) { low = Math.min(low, y); high = Math.max(high, y); }
  if (!known.length) { low = 0; high = 1; }
  if (low === high) { low -= 0.5; high += 0.5; }
  const x = (k) => 52 + (k / Math.max(1, most)) * (wide - 62), y = (v) => 8 + (1 - (v - low) / (high - low)) * (tall - 32);
  c.font = "10px system-ui, sans-serif"; c.fillStyle = colour("faint"); c.strokeStyle = colour("line"); c.lineWidth = 1;
  c.textAlign = "right";
  for (let k = 0; k <= 4; k++) { const v = low + ((high - low) * k) / 4; c.fillText(shortText(v), 47, y(v) + 3); c.beginPath(); c.moveTo(52, y(v)); c.lineTo(wide - 10, y(v)); c.stroke(); }
  c.textAlign = "center";
  for (let k = 0; k <= 4; k++) c.fillText(String(Math.round((most * k) / 4)), x((most * k) / 4), tall - 8);
  c.strokeStyle = colour("accent"); c.lineWidth = 1.6; c.beginPath();
  let isOn = false;
  for (const [k, v] of p.points) { if (v === null) { isOn = false; continue; } if (isOn) c.lineTo(x(k), y(v)); else c.moveTo(x(k), y(v)); isOn = true; }
  c.stroke();
}
function draw(figure, p) {
  const note = figure.querySelector("figcaption span"), old = figure.children[1];
  note.textContent = ` ${p.kind} [${p.shape.join(", ")}]${p.low !== undefined && !(p.grey && p.low === 0 && p.high === 255) ? `, ${shortText(p.low)} to ${shortText(p.high)}` : ""}${p.cut ? ", the first rows and columns" : ""}`;
  if (p.kind === "number") { const made = el("div", p.text, { className: "number" }); if (old) old.replaceWith(made); else figure.append(made); return; }
  if (p.kind === "table") { const made = el("table", null, {}, ...p.rows.map((row) => el("tr", null, {}, ...row.map((cell) => el("td", cell))))); if (old) old.replaceWith(made); else figure.append(made); return; }
  const canvas = old || el("canvas");
  if (!old) figure.append(canvas);
  if (p.kind === "line") drawLine(canvas, p); else drawPixels(canvas, p);
}
const figures = D.shown.map(([name, kind]) => el("figure", null, {}, el("figcaption", name, {}, el("span", " " + kind))));

// ------------------------------------------------------------------------ steps
function drawSteps() {
  const canvas = $("steps"), dpr = devicePixelRatio || 1, wide = canvas.clientWidth, tall = canvas.clientHeight, c = canvas.getContext("2d");
  canvas.width = wide * dpr; canvas.height = tall * dpr;
  c.scale(dpr, dpr);
  const each = wide / Math.max(1, D.steps.length), ran = new Set(newest ? newest.ran : []);
  c.strokeStyle = colour("line");
  D.steps.forEach((_, k) => { c.fillStyle = ran.has(k) ? colour("accent") : colour("back"); c.fillRect(k * each, 0, Math.max(0.5, each), tall); if (each > 3) c.strokeRect(k * each, 0.5, each, tall - 1); });
}
$("steps").onpointermove = (e) => { const k = Math.floor((e.offsetX / $("steps").clientWidth) * D.steps.length), step = D.steps[k]; if (step) $("tip").textContent = `step ${k}: ${step[0]}  ${step[1]}${newest && newest.ran.includes(k) ? ", computed in this run" : ", reused"}`; };
function show(found) {
  found.pictures.forEach((p, k) => draw(figures[k], p));
  const part = D.count ? found.count / D.count : 0;
  say(`${found.count} of ${D.count} steps ran in ${milliseconds(found.seconds)}, ${Math.round(100 * (1 - part))} % were reused; the page had it after ${found.whole.toFixed(0)} ms`, false);
  drawSteps();
}

$("title").textContent = D.title; document.title = D.title + " – Tawny";
$("controls").append(...D.controls.map(control));
$("pictures").append(...figures);
const redraw = () => { if (newest) show(newest); else drawSteps(); };
dark.onchange = redraw;
new ResizeObserver(drawSteps).observe($("steps"));
document.documentElement.dataset.ready = "1";
send();
