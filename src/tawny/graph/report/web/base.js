"use strict";
// Data is text: it reaches the page through textContent and fillText alone.
const D = JSON.parse(document.getElementById("data").textContent);
const T = D.texts, NONE = 1 << 30;
const $ = (id) => document.getElementById(id);
const canvas = $("map"), ctx = canvas.getContext("2d");

function el(tag, text, more, ...children) {
  const made = document.createElement(tag);
  if (text !== null && text !== undefined) made.textContent = text;
  Object.assign(made, more || {});
  for (const child of children) if (child) made.append(child);
  return made;
}
function bytesText(n) {
  for (const [unit, name] of [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]) if (Math.abs(n) >= unit) return (n / unit).toFixed(1) + " " + name;
  return n + " B";
}
const nodesText = (n) => (n === 1 ? "1 node" : `${n} nodes`);
// A multiple of a stride, without digits that say nothing.
function tickText(n, stride) {
  for (const [unit, name] of [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]) if (n >= unit) return (n / unit).toFixed(stride % unit ? 1 : 0) + " " + name;
  return n + " B";
}
function countText(n) {
  for (const [unit, name] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) if (Math.abs(n) >= unit) return (n / unit).toPrecision(3) + " " + name;
  return String(n);
}
const FONT = 'system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif';
const BOLD = `600 12px ${FONT}`, MEDIUM = `11px ${FONT}`, SMALL = `10px ${FONT}`;
const textWidth = (text, font) => { ctx.font = font; return ctx.measureText(text).width; };
const cut = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);
const dark = matchMedia("(prefers-color-scheme: dark)");
let ink, faint, line, back, card, accent, select, wire, returned;
function readColours() {
  const style = getComputedStyle(document.documentElement);
  [ink, faint, line, back, card, accent, select, wire, returned] = ["ink", "faint", "line", "back", "card", "accent", "select", "wire", "returned"].map((n) => style.getPropertyValue("--" + n).trim());
}
const fill = (hue, strength = 1) => (dark.matches ? `hsl(${hue} ${38 * strength}% 27%)` : `hsl(${hue} ${70 * strength}% ${90 - 6 * strength}%)`);

