"use strict";
// Shows the values under the pointer, or at the place that the arrow keys have chosen. Charts over
// time move together.
const digits = (v, n) => v.toLocaleString("en", { maximumSignificantDigits: n });
const whole = (v) => Math.round(v).toLocaleString("en");
const show = {
  duration: (v) => v === 0 ? "0" : v < 1 ? digits(v * 1e3, 3) + " µs" : v < 1e3 ? digits(v, 3) + " ms" : digits(v / 1e3, 3) + " s",
  count: (v) => v < 100 ? digits(v, 3) : whole(v),
  bytes: (v) => v < 1048576 ? digits(v / 1024, 3) + " KiB" : digits(v / 1048576, 4) + " MiB",
  moment: (v) => v.toFixed(1) + " s",
  percentile: (v) => v + " % took at most",
};
let plots = [];

function nearest(places, place) {
  let best = 0;
  places.forEach((p, i) => { if (Math.abs(p - place) < Math.abs(places[best] - place)) best = i; });
  return best;
}

function element(tag, text, className) {
  const made = document.createElement(tag);
  if (text) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function fill(tip, data, index) {
  const x = show[data.x], y = show[data.y];
  const title = data.bars ? x(data.at[index]) + " to " + x(data.at[index + 1]) : x(data.at[index]);
  tip.replaceChildren(element("b", title));
  for (const [name, className, values] of [...data.series].reverse()) {
    if (values[index] === null || values[index] === undefined) continue;
    const row = element("div"), label = element("span");
    label.append(element("i", "", className), element("span", name));
    row.append(label, element("span", y(values[index])));
    tip.append(row);
  }
}

function point(plot, index, withTip) {
  const { data, cursor, tip } = plot;
  const place = data.places[index];
  plot.index = index;
  cursor.hidden = false;
  cursor.style.left = place * 100 + "%";
  tip.hidden = !withTip;
  if (!withTip) return;
  fill(tip, data, index);
  tip.style.left = place < 0.55 ? "calc(" + place * 100 + "% + 12px)" : "";
  tip.style.right = place < 0.55 ? "" : "calc(" + (1 - place) * 100 + "% + 12px)";
}

function move(plot, index) {
  point(plot, index, true);
  if (!plot.box.dataset.time) return;
  const at = plot.data.places[index];
  for (const other of plots) {
    if (other !== plot && other.box.dataset.time) point(other, nearest(other.data.places, at), false);
  }
}

function leave() {
  for (const { cursor, tip } of plots) cursor.hidden = tip.hidden = true;
}

function listen(plot) {
  if (plot.data.places.length === 0) return;
  const last = plot.data.places.length - (plot.data.bars ? 2 : 1);
  plot.box.addEventListener("pointermove", (event) => {
    const area = plot.box.getBoundingClientRect();
    const place = (event.clientX - area.left) / area.width;
    const index = plot.data.bars
      ? plot.data.places.findLastIndex((p) => p <= place)
      : nearest(plot.data.places, place);
    move(plot, Math.max(0, Math.min(last, index)));
  });
  plot.box.addEventListener("pointerleave", leave);
  plot.box.addEventListener("blur", leave);
  plot.box.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    move(plot, Math.max(0, Math.min(last, (plot.index ?? 0) + step)));
  });
}

function begin() {
  plots = [...document.querySelectorAll(".plot")].map((box) => ({
    box,
    data: JSON.parse(box.querySelector("script").textContent),
    cursor: box.querySelector(".cursor"),
    tip: box.querySelector(".tip"),
  }));
  plots.forEach(listen);
}
begin();
