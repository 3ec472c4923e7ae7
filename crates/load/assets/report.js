// The plots of a report, drawn from the JSON in the page. The script loads nothing from elsewhere.
// Names and texts of the run become text nodes: the script never writes HTML.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const at = (id) => document.getElementById(id);
const LEFT = 58, RIGHT = 14, TOP = 10, BOTTOM = 26;

// ---- formatting of figures ----
const digits = (v) => (Math.abs(v) >= 99.95 ? v.toFixed(0) : Math.abs(v) >= 9.995 ? v.toFixed(1) : v.toFixed(2)).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");
const grouped = (v) => (Math.abs(v) >= 1e4 ? Math.round(v).toString().replace(/\B(?=(\d{3})+$)/g, "\u202f") : digits(v));
const milliseconds = (v) => v === null || v === undefined ? "–" : v === 0 ? "0" : v < 0.9995 ? digits(v * 1e3) + " µs" : v < 999.5 ? digits(v) + " ms" : digits(v / 1e3) + " s";
const short = (v) => { for (const [size, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) if (Math.abs(v) >= size * 0.9995) return digits(v / size) + unit; return digits(v); };
const bytes = (v) => { for (const [size, unit] of [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]) if (v >= size * 0.9995) return digits(v / size) + " " + unit; return digits(v) + " B"; };
const clock = (s) => { const t = Math.round(s), two = (n) => String(n).padStart(2, "0"); return t < 60 ? digits(s) + " s" : t < 3600 ? Math.floor(t / 60) + ":" + two(t % 60) : Math.floor(t / 3600) + ":" + two(Math.floor(t / 60) % 60) + ":" + two(t % 60); };

// ---- small parts ----
function svg(name, attributes = {}, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}
function html(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}
function swatch(series) {
  const mark = svg("svg", { viewBox: "0 0 22 10", "aria-hidden": "true" });
  mark.append(series.area ? svg("rect", { x: 0, y: 1, width: 22, height: 8, class: "f-" + series.colour, opacity: series.solid ? 0.88 : 0.45 })
    : svg("line", { x1: 0, x2: 22, y1: 5, y2: 5, class: "stroke c-" + series.colour + (series.dashed ? " dashed" : "") }));
  return mark;
}
// A class of a colour has a number (c0 … c7) or a name (c-asked …).
const palette = (element, kind, colour) => element.classList.add(typeof colour === "number" ? kind + colour % 8 : kind + "-" + colour);

// ---- scales ----
function linear(from, to, low, high) {
  const span = to - from || 1;
  return (v) => low + (v - from) / span * (high - low);
}
function steps(most, wanted) {
  const raw = most / wanted, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].find((n) => n * power >= raw) * power;
  return Array.from({ length: Math.floor(most / step + 1e-9) + 1 }, (_, i) => i * step);
}
const TIMES = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400];
function times(most, wanted) {
  const step = TIMES.find((n) => most / n <= wanted) || TIMES[TIMES.length - 1];
  return Array.from({ length: Math.floor(most / step + 1e-9) + 1 }, (_, i) => i * step);
}
function logTicks(low, high) {
  const ticks = [], decades = Math.log10(high / low);
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++)
    for (const n of [1, 2, 5]) {
      const v = n * 10 ** power;
      if (v >= low * 0.999 && v <= high * 1.001) ticks.push({ v, major: n === 1, label: n === 1 || decades < 2.2 });
    }
  return ticks;
}

// ---- a plot: axes, series, and a cursor that shows the values at its place ----
// options: height, x {values, most, ticks, label}, y {log, low, high, format, label}, series [{name, colour,
// values, area, dashed}], heat {columns, bounds}, group (plots whose cursors move together), head(i)
const groups = new Map();

class Plot {
  constructor(host, legend, options) {
    Object.assign(this, { host, legend, hidden: new Set() });
    this.tip = html("div", { class: "tip", hidden: "" });
    this.canvas = html("canvas", { "aria-hidden": "true" });
    this.picture = svg("svg", { tabindex: "0", role: "img" });
    host.append(this.canvas, this.picture, this.tip);
    this.picture.addEventListener("pointermove", (event) => this.point(this.nearest(event)));
    this.picture.addEventListener("pointerleave", () => this.point(null));
    this.picture.addEventListener("blur", () => this.point(null));
    this.picture.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(host);
    this.show(options);
  }

  show(options) {
    this.options = options;
    if (options.group) groups.set(options.group, [...(groups.get(options.group) || []).filter((p) => p !== this), this]);
    this.picture.setAttribute("aria-label", options.label);
    this.legend.replaceChildren(...options.series.map((series) => {
      const pressed = !this.hidden.has(series.name);
      const button = html("button", { type: "button", "aria-pressed": pressed }, swatch(series), series.name);
      button.addEventListener("click", () => {
        this.hidden[pressed ? "add" : "delete"](series.name);
        this.show(this.options);
      });
      palette(button.querySelector("svg > *"), series.area ? "f" : "c", series.colour);
      return button;
    }));
    this.draw();
  }

  draw() {
    const { host, picture, options } = this, width = host.clientWidth, height = options.height;
    if (!width) return;
    host.style.height = height + "px";
    picture.setAttribute("width", width);
    picture.setAttribute("height", height);
    this.series = options.series.filter((series) => !this.hidden.has(series.name));
    this.scales(width, height);
    picture.replaceChildren(...this.axes(width, height));
    this.paint(width, height);
    for (const series of this.series) picture.append(...this.curve(series));
    this.marks = svg("g");
    picture.append(this.marks);
  }

  scales(width, height) {
    const { x, y } = this.options, values = this.series.flatMap((s) => s.values).filter((v) => v !== null && (!y.log || v > 0));
    let low = y.low, high = y.high;
    if (y.log && low === undefined) { low = Math.min(...values, 1e3) / 1.3; high = Math.max(...values, low * 4) * 1.3; }
    if (high === undefined) high = Math.max(...values, y.least || 1) * 1.06;
    this.low = low; this.high = high;
    this.x = linear(0, x.most, LEFT, width - RIGHT);
    const place = y.log ? linear(Math.log(low), Math.log(high), height - BOTTOM, TOP) : linear(0, high, height - BOTTOM, TOP);
    this.y = y.log ? (v) => place(Math.log(Math.max(v, low))) : place;
  }

  axes(width, height) {
    const { x, y } = this.options, made = [], bottom = height - BOTTOM;
    const ticks = y.log ? logTicks(this.low, this.high) : steps(this.high, height / 55).map((v) => ({ v, major: true, label: true }));
    for (const { v, major, label } of ticks) {
      const place = Math.round(this.y(v));
      made.push(svg("line", { x1: LEFT, x2: width - RIGHT, y1: place, y2: place, class: major ? "grid" : "grid minor" }));
      if (label) made.push(svg("text", { x: LEFT - 7, y: place + 4, "text-anchor": "end" }, y.format(v)));
    }
    let last = -Infinity;
    for (const [v, label] of x.ticks(width)) {
      const place = Math.round(this.x(v));
      made.push(svg("line", { x1: place, x2: place, y1: TOP, y2: bottom, class: "grid minor" }));
      if (place - last < 36) continue;
      last = place;
      made.push(svg("text", { x: place, y: bottom + 17, "text-anchor": v === 0 ? "start" : place > width - 40 ? "end" : "middle" }, label));
    }
    return made;
  }

  // The heat map lies under the lines, on a canvas: thousands of cells.
  paint(width, height) {
    const { canvas, options } = this, ratio = window.devicePixelRatio || 1, pen = canvas.getContext("2d");
    canvas.width = width * ratio; canvas.height = height * ratio;
    canvas.style.width = width + "px"; canvas.style.height = height + "px";
    if (!options.heat) return;
    const { columns, bounds } = options.heat, colour = getComputedStyle(document.documentElement).getPropertyValue("--heat").trim();
    const most = Math.log1p(Math.max(1, ...columns.flat()));
    pen.scale(ratio, ratio);
    const { starts, step } = options.x;
    columns.forEach((column, i) => {
      const left = Math.floor(this.x(starts[i])), right = Math.max(left + 1, Math.floor(this.x(starts[i] + step)));
      column.forEach((count, bucket) => {
        if (!count || bounds[bucket] >= this.high || bounds[bucket + 1] <= this.low) return;
        const top = Math.floor(this.y(Math.min(bounds[bucket + 1], this.high))), bottom = Math.floor(this.y(bounds[bucket]));
        pen.fillStyle = `rgb(${colour} / ${(0.07 + 0.75 * Math.log1p(count) / most).toFixed(3)})`;
        pen.fillRect(left, top, right - left, Math.max(1, bottom - top));
      });
    });
  }

  curve(series) {
    const pieces = [], xs = series.xs || this.options.x.values;
    let piece = [];
    series.values.forEach((v, i) => {
      if (v === null) { if (piece.length) pieces.push(piece); piece = []; } else piece.push([this.x(xs[i]), this.y(v)]);
    });
    if (piece.length) pieces.push(piece);
    return pieces.flatMap((points) => {
      const path = points.map(([a, b]) => a.toFixed(1) + "," + b.toFixed(1)).join(" L");
      if (points.length === 1 && !series.area) {
        const dot = svg("circle", { cx: points[0][0], cy: points[0][1], r: 2.2 });
        palette(dot, "f", series.colour);
        return [dot];
      }
      const line = svg("path", { d: "M" + path, class: "stroke" + (series.dashed ? " dashed" : "") });
      palette(line, "c", series.colour);
      if (!series.area) return this.options.heat ? [svg("path", { d: "M" + path, class: "halo" }), line] : [line];
      const ground = this.y(0).toFixed(1);
      const fill = svg("path", { d: `M${points[0][0].toFixed(1)},${ground} L${path} L${points[points.length - 1][0].toFixed(1)},${ground}Z`, class: "fill" });
      palette(fill, "f", series.colour);
      return [fill, line];
    });
  }

  nearest(event) {
    const left = event.clientX - this.picture.getBoundingClientRect().left, xs = this.options.x.values;
    let best = null, least = Infinity;
    xs.forEach((v, i) => { const far = Math.abs(this.x(v) - left); if (far < least) { least = far; best = i; } });
    return best;
  }

  key(event) {
    const last = this.options.x.values.length - 1, now = this.index ?? -1;
    const next = { ArrowRight: Math.min(now + 1, last), ArrowLeft: Math.max(now - 1, 0), Home: 0, End: last }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    this.point(next);
  }

  point(index) {
    for (const plot of groups.get(this.options.group) || [this]) plot.mark(index, plot === this);
  }

  mark(index, own) {
    this.index = index;
    this.marks?.replaceChildren();
    this.tip.hidden = true;
    if (index === null || !this.marks || this.options.x.values[index] === undefined) return;
    const { x, y } = this.options, place = this.x(x.values[index]);
    this.marks.append(svg("line", { x1: place, x2: place, y1: TOP, y2: this.options.height - BOTTOM, class: "cursor" }));
    const rows = [];
    for (const series of this.series) {
      const v = series.xs ? series.values[series.xs.indexOf(x.values[index])] : series.values[index];
      if (v === null || v === undefined) continue;
      const dot = svg("circle", { cx: place, cy: this.y(v), r: 3.5, class: "dot" });
      palette(dot, "f", series.colour);
      this.marks.append(dot);
      const mark = swatch(series);
      palette(mark.firstChild, series.area ? "f" : "c", series.colour);
      rows.push(html("span", {}, html("i", {}, mark, series.name), (y.read || y.format)(v)));
    }
    if (!own) return;
    this.tip.replaceChildren(html("b", {}, this.options.head(index)), ...rows);
    this.tip.hidden = false;
    const room = this.host.clientWidth - this.tip.offsetWidth;
    this.tip.style.left = Math.max(0, place + 14 > room ? Math.min(room, place - this.tip.offsetWidth - 14) : place + 14) + "px";
    this.tip.style.top = TOP + 4 + "px";
  }
}

// ---- over time ----
const { timeline } = data, sum = (lists) => lists.length ? lists[0].map((_, i) => lists.every((l) => l[i] === null) ? null : lists.reduce((n, l) => n + (l[i] || 0), 0)) : [];
const most = (lists) => lists[0].map((_, i) => lists.reduce((n, l) => l[i] === null ? n : Math.max(n ?? 0, l[i]), null));

function together(rows) {
  const of = (key) => rows.map((row) => row[key]), made = { name: "all scenarios", p50: null };
  for (const key of ["asked", "iterations", "requests", "failures", "dropped", "users", "busy"]) made[key] = sum(of(key));
  made.max = most(of("max"));
  made.heat = rows[0].heat.map((_, i) => rows[0].heat[i].map((_, b) => rows.reduce((n, row) => n + row.heat[i][b], 0)));
  return made;
}
const some = (list) => list && list.some((v) => v);

function timeAxis() {
  const step = timeline.interval, starts = timeline.at, end = starts[starts.length - 1] + step;
  return { values: starts.map((at) => at + step / 2), starts, step, most: end, ticks: (width) => times(end, width / 90).map((v) => [v, clock(v)]) };
}
const head = (i) => clock(timeline.at[i]) + " – " + clock(timeline.at[i] + timeline.interval);

function throughput(row) {
  const series = [];
  if (some(row.asked)) series.push({ name: "asked", colour: "asked", dashed: true, values: row.asked });
  series.push({ name: "iterations started", colour: 0, values: row.iterations }, { name: "requests", colour: 2, values: row.requests });
  if (some(row.failures)) series.push({ name: "failed requests", colour: "bad", area: true, values: row.failures });
  if (some(row.dropped)) series.push({ name: "dropped", colour: "warn", area: true, values: row.dropped });
  return { label: "Throughput over time", group: "time", height: 230, x: timeAxis(), head, series, y: { format: short, read: (v) => grouped(v) + " /s" } };
}

function latency(row) {
  const lines = [["max", "max", "bad"], ["p99", "p99", 1], ["p90", "p90", 4], ["p50", "median", "ink"]].filter(([key]) => some(row[key]));
  const heat = { columns: row.heat, bounds: timeline.bounds }, used = timeline.bounds.slice(0, -1).filter((_, b) => row.heat.some((column) => column[b]));
  const low = used.length ? used[0] : 0.1, last = used.length ? timeline.bounds[timeline.bounds.indexOf(used[used.length - 1]) + 1] : 1000;
  const high = Math.max(last, ...lines.flatMap(([key]) => row[key].map((v) => v || 0)));
  return { label: "Latency over time", group: "time", height: 300, x: timeAxis(), head, heat,
    series: lines.map(([key, name, colour]) => ({ name, colour, values: row[key], dashed: key === "max" })),
    y: { log: true, low, high: Math.max(high, low * 4), format: milliseconds } };
}

function users(row) {
  return { label: "Users over time", group: "time", height: 130, x: timeAxis(), head, series: [
    { name: "users", colour: "asked", dashed: true, values: row.users }, { name: "busy", colour: 3, area: true, values: row.busy }], y: { format: short, read: grouped } };
}

function overTime() {
  const rows = timeline.scenarios;
  if (!rows.length || !timeline.at.length || !at("throughput")) return;
  const choices = rows.length > 1 ? [together(rows), ...rows] : rows;
  const builders = [["throughput", throughput], ["latency", latency], ["users", users]];
  const plots = builders.map(([id, build]) => new Plot(at(id), at(id + "-legend"), build(choices[0])));
  if (choices.length === 1) return;
  const buttons = choices.map((row) => {
    const button = html("button", { type: "button", "aria-pressed": row === choices[0] }, row.name);
    button.addEventListener("click", () => {
      buttons.forEach((other) => other.setAttribute("aria-pressed", other === button));
      plots.forEach((plot, i) => plot.show(builders[i][1](row)));
    });
    return button;
  });
  at("scenarios").append(...buttons);
}

// ---- the percentile curve: from 90 % on, each tick has one nine more ----
function percentiles() {
  const curves = data.curves.filter((curve) => curve.points.length);
  if (!curves.length) return;
  const nines = (p) => -Math.log10(Math.max(1e-9, 1 - p / 100)), all = [...new Set(curves.flatMap((c) => c.points.map(([p]) => p)))].sort((a, b) => a - b);
  const xs = all.map(nines), end = xs[xs.length - 1] || 1;
  const ticks = [[0, "0%"], [nines(50), "50%"], [1, "90%"], [2, "99%"], [3, "99.9%"], [4, "99.99%"], [5, "99.999%"], [6, "99.9999%"], [7, "99.99999%"]];
  new Plot(at("percentiles"), at("percentiles-legend"), {
    label: "Latency by percentile", height: 300, head: (i) => "p" + +all[i].toFixed(5),
    x: { values: xs, most: end, ticks: () => ticks.filter(([v]) => v <= end + 1e-9) },
    y: { log: true, format: milliseconds },
    series: curves.map((curve, i) => ({ name: curve.name, colour: i, xs: curve.points.map(([p]) => nines(p)), values: curve.points.map(([, ms]) => ms) })),
  });
}

// ---- matrices as bars: one group per row of the table, one bar per column ----
function bars(host, legend, rows, columns, values, format) {
  const draw = () => {
    const width = host.clientWidth, height = 240, high = Math.max(1e-9, ...values.flat().map((v) => v || 0)) * 1.08;
    if (!width) return;
    const picture = svg("svg", { width, height, role: "img", "aria-label": "Cells as bars" }), y = linear(0, high, height - BOTTOM, TOP);
    for (const v of steps(high, 4)) {
      picture.append(svg("line", { x1: LEFT, x2: width - RIGHT, y1: Math.round(y(v)), y2: Math.round(y(v)), class: "grid" }));
      picture.append(svg("text", { x: LEFT - 7, y: y(v) + 4, "text-anchor": "end" }, format(v)));
    }
    const room = (width - LEFT - RIGHT) / rows.length, each = Math.min(46, room * 0.8 / columns.length);
    rows.forEach((name, r) => {
      const start = LEFT + room * (r + 0.5) - each * columns.length / 2;
      columns.forEach((column, c) => {
        const v = values[r][c];
        if (v === null) return;
        const bar = svg("rect", { x: start + each * c + 1, y: y(v), width: Math.max(1, each - 2), height: Math.max(0.5, y(0) - y(v)), class: "bar", rx: 1.5 });
        palette(bar, "f", c);
        bar.append(svg("title", {}, `${name}, ${column}: ${format(v)}`));
        picture.append(bar);
        if (each > 26) picture.append(svg("text", { x: start + each * (c + 0.5), y: y(v) - 4, "text-anchor": "middle" }, format(v)));
      });
      picture.append(svg("text", { x: LEFT + room * (r + 0.5), y: height - 9, "text-anchor": "middle" }, name));
    });
    host.style.height = height + "px";
    host.replaceChildren(picture);
  };
  legend.replaceChildren(...columns.map((name, i) => {
    const entry = html("button", { type: "button", disabled: "" }, swatch({ colour: i, area: true, solid: true }), name);
    palette(entry.querySelector("rect"), "f", i);
    return entry;
  }));
  new ResizeObserver(draw).observe(host);
  draw();
}

function matrices() {
  data.matrices.forEach((matrix, i) => {
    const host = at("matrix-" + i), legend = at("matrix-" + i + "-legend"), tabs = at("matrix-" + i + "-tabs");
    const choices = [["operations a second", matrix.operations, short], ["bytes a second", matrix.bytes, bytes]].filter(([, values]) => values.flat().some((v) => v));
    const show = ([, values, format]) => bars(host, legend, matrix.rows, matrix.columns, values, format);
    const buttons = choices.map((choice) => {
      const button = html("button", { type: "button", "aria-pressed": choice === choices[0] }, choice[0]);
      button.addEventListener("click", () => { buttons.forEach((b) => b.setAttribute("aria-pressed", b === button)); show(choice); });
      return button;
    });
    tabs.append(...buttons);
    if (choices.length) show(choices[0]);
  });
}

overTime();
percentiles();
matrices();
// Repaint the heat map when the colour scheme of the page changes.
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => groups.get("time")?.forEach((plot) => plot.draw()));
