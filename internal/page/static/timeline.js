// What has happened to the probes, by time, a lane for each place, and who has written to files.
import { h, live, count, table } from "./dom.js";

const written = "writes to files"; // the lane of writes
const oneLine = (text) => JSON.stringify(text).slice(1, -1);
const failed = (w) => /^E/.test(w.result);
const who = (w) => w.comm + "-" + w.pid + (w.uid ? ", uid " + w.uid : "");
const asChange = (w) => ({ at: w.at, place: written, what: who(w) + " > " + w.file + ": " + oneLine(w.text) + (failed(w) ? ", refused: " + w.result : "") });

const whole = "the machine"; // the lane of its stops
const asStop = (s) => ({ at: s.at, place: whole, what: s.what });

const lane = 22, left = 190, most = 100;

// kind groups changes by what is in the text afterwards.
function kind(what) {
  if (/jump is written/.test(what)) return "jump";
  if (/int3 is written|by int3/.test(what)) return "int3";
  if (/machine stops/.test(what)) return "int3";
  if (/ftrace calls/.test(what)) return "call";
  return /removed|no longer|, refused: E/.test(what) ? "off" : "";
}

export function timeline(main) {
  let zoom = 1, last = null;
  const change = (f) => { zoom = Math.min(64, Math.max(1, zoom * f)); draw(); };
  const nearer = h("button", { type: "button", click: () => change(2) }, "Zoom in");
  const farther = h("button", { type: "button", click: () => change(1 / 2) }, "Zoom out");
  const number = h("span", { class: "soft", role: "status" });
  const lanes = h("div", { class: "lanes", tabindex: "0", role: "region", "aria-label": "Changes of probes by time", keydown: (e) => {
    if (e.key === "+" || e.key === "-") { e.preventDefault(); change(e.key === "+" ? 2 : 1 / 2); }
  } });
  const rows = h("tbody"), wrote = h("tbody");
  main.append(h("div", { class: "bar" }, nearer, farther, number), lanes,
    ...table("Changes, the newest first", ["Time", "Place", "What"], rows),
    ...table("Writes to files, the newest first", ["Time", "Who", "File", "Text", "Result"], wrote));

  function draw() {
    if (!last) return;
    const places = [...new Set(last.changes.map((c) => c.place))].slice(-most);
    if (last.stops.length) places.unshift(whole);
    if (last.writes.length) places.unshift(written);
    const index = new Map(places.map((p, i) => [p, i]));
    const begin = Math.min(last.changes[0]?.at ?? Infinity, last.writes[0]?.at ?? Infinity, last.stops[0]?.at ?? Infinity, last.time), end = Math.max(last.time, begin + 0.001);
    const width = Math.max(320, (lanes.clientWidth - 2) * zoom), height = (places.length + 1) * lane + 8;
    const x = (t) => left + (width - left - 20) * (t - begin) / (end - begin);
    const svg = h("svg:svg", { width, height, role: "img", "aria-label": places.length + " places from " + begin.toFixed(3) + " to " + end.toFixed(3) + " seconds since boot" });
    places.forEach((p, i) => svg.append(
      h("svg:line", { x1: 0, x2: width, y1: (i + 1) * lane, y2: (i + 1) * lane }),
      h("svg:text", { x: 6, y: (i + 1) * lane - 7 }, p.length > 26 ? p.slice(0, 25) + "…" : p)));
    for (let i = 0; i <= 4 * zoom; i++) {
      const t = begin + (end - begin) * i / (4 * zoom);
      svg.append(h("svg:text", { x: x(t) - (i ? 26 : 0), y: height - 6 }, t.toFixed(3) + " s"));
    }
    for (const c of [...last.changes, ...last.writes.map(asChange), ...last.stops.map(asStop)]) {
      if (!index.has(c.place)) continue;
      svg.append(h("svg:circle", { cx: x(c.at), cy: (index.get(c.place) + 1) * lane - 11, r: 5, class: kind(c.what) }, h("svg:title", {}, c.at.toFixed(6) + " s: " + c.place + ": " + c.what)));
    }
    const right = lanes.scrollLeft + lanes.clientWidth >= lanes.scrollWidth - 10;
    lanes.replaceChildren(svg);
    if (right) lanes.scrollLeft = lanes.scrollWidth;
  }
  return live("timeline", {}, { timeline: (v) => {
    last = v;
    draw();
    number.textContent = count(v.changes.length) + " changes" + (v.before ? ", " + count(v.before) + " before these" : "");
    rows.replaceChildren(...[...v.changes, ...v.stops.map(asStop)].sort((a, b) => a.at - b.at).slice(-200).reverse().map((c) => h("tr", {}, h("td", { class: "mono" }, c.at.toFixed(6)), h("td", { class: "mono" }, c.place), h("td", {}, c.what))));
    wrote.replaceChildren(...v.writes.slice(-200).reverse().map((w) => h("tr", {}, [w.at.toFixed(6), who(w), w.file, oneLine(w.text), failed(w) ? w.result : w.result + " bytes"].map((t, i) => h("td", { class: i < 4 ? "mono" : "" }, t)))));
  } });
}
