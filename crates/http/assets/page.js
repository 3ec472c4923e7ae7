// A log's page: live figures, a chart, and the checkpoint's signature checked
// in the browser, so that the page need not be believed.
"use strict";

const EVERY = 2000, POINTS = 150;
const rates = [];
const at = (id) => document.getElementById(id);
// Zero means that nothing was measured.
const latency = (ms) => ms ? ms.toFixed(1) : "\u2013";
const grouped = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, "\u202f");

async function refresh() {
  try {
    const stats = await (await fetch("stats.json", { cache: "no-store" })).json();
    at("state").textContent = stats.state;
    at("state").className = "state " + stats.state;
    at("size").textContent = grouped(stats.size);
    at("rate").textContent = stats.entries_per_second.toFixed(1);
    at("p50").textContent = latency(stats.latency_p50_ms);
    at("p99").textContent = latency(stats.latency_p99_ms);
    rates.push(stats.entries_per_second);
    if (rates.length > POINTS) rates.shift();
    draw();
  } catch {
    at("state").textContent = "unreachable";
    at("state").className = "state stopped";
  }
}

function element(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function draw() {
  const width = 600, height = 140, top = 16, bottom = 10;
  const most = Math.max(1, ...rates);
  const y = (rate) => height - bottom - (rate / most) * (height - top - bottom);
  const x = (i) => (i / (POINTS - 1)) * width;
  const points = rates.map((rate, i) => x(i).toFixed(1) + "," + y(rate).toFixed(1));
  at("chart").replaceChildren(
    element("line", { x1: 0, x2: width, y1: y(0), y2: y(0) }),
    element("line", { x1: 0, x2: width, y1: y(most), y2: y(most) }),
    element("text", { x: 0, y: y(most) - 4 }, most.toFixed(most < 10 ? 1 : 0) + "/s"),
    element("polyline", { points: points.join(" ") }),
  );
}

const bytes = (base64) => Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
const join = (...parts) => new Uint8Array(parts.flatMap((part) => [...part]));
const sha256 = async (data) => new Uint8Array(await crypto.subtle.digest("SHA-256", data));
const equal = (a, b) => a.length === b.length && a.every((byte, i) => byte === b[i]);

function u64(n) {
  const out = new DataView(new ArrayBuffer(8));
  out.setBigUint64(0, BigInt(n));
  return new Uint8Array(out.buffer);
}

// ECDSA: DER gives two integers of any length, WebCrypto wants 32 bytes each.
function rawSignature(der) {
  const integer = (start) => {
    const value = [...der.slice(start + 2, start + 2 + der[start + 1])];
    while (value.length > 32) value.shift();
    return [Array(32 - value.length).fill(0).concat(value), start + 2 + der[start + 1]];
  };
  const [r, next] = integer(2);
  return Uint8Array.from([...r, ...integer(next)[0]]);
}

// The signature of static-ct-api, "Checkpoints": that of an RFC 6962 tree head.
async function verify(note, origin, spki) {
  const lines = note.split("\n");
  const [name, size, root] = lines;
  if (name !== origin) throw new Error("the origin is " + name);
  const logId = await sha256(spki);
  const id = await sha256(join(new TextEncoder().encode(origin + "\n"), [5], logId));
  for (const line of lines.slice(4)) {
    if (!line.startsWith("\u2014 " + origin + " ")) continue;
    const signature = bytes(line.slice(origin.length + 3));
    if (!equal(signature.slice(0, 4), id.slice(0, 4))) continue;
    const timestamp = new DataView(signature.buffer).getBigUint64(4);
    const signed = join([0, 1], u64(timestamp), u64(size), bytes(root));
    const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
    const key = await crypto.subtle.importKey("spki", spki, algorithm, false, ["verify"]);
    const good = await crypto.subtle.verify(algorithm, key, rawSignature(signature.slice(16)), signed);
    return { good, size, root, timestamp: Number(timestamp) };
  }
  throw new Error("no signature by this log's key");
}

async function check() {
  if (!globalThis.crypto || !crypto.subtle) return;
  const key = at("key");
  try {
    const note = await (await fetch("checkpoint", { cache: "no-store" })).text();
    const seen = await verify(note, key.dataset.origin, bytes(key.textContent));
    at("signed").textContent = new Date(seen.timestamp).toISOString();
    at("root").textContent = seen.root;
    at("verdict").textContent = seen.good
      ? "verified in this browser, with the key below, for " + grouped(seen.size) + " entries"
      : "WRONG: it does not verify with the key below";
    at("verdict").className = seen.good ? "good" : "bad";
  } catch (error) {
    at("verdict").textContent = "cannot be checked: " + error.message;
    at("verdict").className = "bad";
  }
}

if (typeof document !== "undefined") {
  refresh();
  check();
  setInterval(() => document.hidden || refresh(), EVERY);
  setInterval(() => document.hidden || check(), 5 * EVERY);
}
