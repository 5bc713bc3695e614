// The list of probes, with switches and the definition of new ones.
import { h, live, post, attempt, toggle, count, rate, soon } from "./dom.js";
import { definer } from "./define.js";

const many = (n) => count(n) + (n === 1 ? " probe" : " probes");
const span = 1; // seconds over which hits a second are counted
const stale = 2500; // milliseconds without news after which a rate is 0

const compare = (a, b) => a < b ? -1 : a > b ? 1 : 0;

const order = {
  place: (a, b) => compare(a.place, b.place) || compare(a.id, b.id),
  hits: (a, b) => (b.hits ?? -1) - (a.hits ?? -1) || order.place(a, b),
  rate: (a, b) => b.rate - a.rate || order.place(a, b),
  state: (a, b) => compare(stateOf(a), stateOf(b)) || order.place(a, b),
};

function stateOf(p) {
  for (const f of ["gone", "disabled", "ftrace", "optimized"]) if (p.flags.includes(f)) return f;
  return p.armed ? "armed" : "not armed";
}

const stateWords = { ftrace: "called by ftrace", armed: "int3" };
const kinds = { k: "probe", r: "return", j: "jprobe" };

// functionOf returns the name of the function at a place: MODULE:SYMBOL+0xOFFSET.
const functionOf = (place) => place.replace(/^.*:/, "").replace(/\+0x[0-9a-f]+$/, "");

export function probes(main, about) {
  const all = new Map();
  let sorted = [];
  const enabled = toggle("All probes", (on) => post("/api/enabled", { on }));
  const optimization = toggle("Optimization", (on) => post("/api/optimization", { on }));
  const tracing = toggle("Recording", (on) => post("/api/tracing", { on }));
  const filter = h("input", { type: "search", "aria-label": "Show the places that contain", placeholder: "vfs_", input: () => resort() });
  const sort = h("select", { "aria-label": "Sort by", change: () => resort() },
    h("option", { value: "place" }, "by place"), h("option", { value: "rate" }, "by hits a second"), h("option", { value: "hits" }, "by hits"), h("option", { value: "state" }, "by state"));
  const number = h("span", { class: "soft", role: "status" });
  const body = h("div", { class: "body", role: "rowgroup" });
  const grid = h("div", { class: "grid", role: "table", "aria-label": "Probes", tabindex: "0" },
    h("div", { role: "rowgroup", class: "head-group" }, h("div", { class: "head", role: "row" },
      ["Place", "State", "Kind"].map((t) => h("span", { role: "columnheader" }, t)),
      ["Hits", "Hits/s", "Missed"].map((t) => h("span", { role: "columnheader", class: "num" }, t)),
      ["Why it is, or is no, jump", "Switch"].map((t) => h("span", { role: "columnheader" }, t)))),
    body);
  main.append(h("div", { class: "bar" }, enabled, optimization, tracing, h("label", {}, "Filter", filter), sort, number), about.write ? definer() : "", grid);

  // Only the rows that are seen exist. A row that has gone out of sight shows another probe next.
  let height = 36, seen = 0;
  const shown = new Map(), free = []; // rows by the probes' ids, and rows that wait
  const measure = () => {
    const style = getComputedStyle(document.documentElement);
    height = parseFloat(style.getPropertyValue("--row")) * parseFloat(style.fontSize);
    seen = grid.clientHeight;
    draw();
  };
  const draw = soon(() => {
    put(body.style, "height", sorted.length * height + "px");
    put(number, "textContent", sorted.length === all.size ? many(all.size) : count(sorted.length) + " of " + many(all.size));
    const rows = String(sorted.length + 1);
    if (grid.getAttribute("aria-rowcount") !== rows) grid.setAttribute("aria-rowcount", rows);
    const top = grid.scrollTop;
    const first = Math.max(0, Math.floor(top / height) - 6);
    const last = Math.min(sorted.length, Math.ceil((top + seen) / height) + 6);
    const wanted = new Set();
    for (let i = first; i < last; i++) wanted.add(sorted[i].id);
    for (const [id, row] of shown) {
      if (wanted.has(id)) continue;
      if (row.element.contains(document.activeElement)) grid.focus({ preventScroll: true }); // a key must not reach another probe's switch
      shown.delete(id);
      free.push(row);
    }
    for (let i = first; i < last; i++) {
      const p = sorted[i];
      let row = shown.get(p.id);
      if (!row) {
        row = free.pop() ?? rowOf(about);
        shown.set(p.id, row);
        if (!row.element.isConnected) body.append(row.element);
      }
      fill(row, p, about);
      row.at(i, height);
    }
    for (const row of free) row.element.remove();
    clearTimeout(rests);
    rests = setTimeout(arrange, 200);
  });
  // arrange puts the rows into the order in which they are seen, for who goes through them by keyboard or
  // has them read out. That is done at rest: an element that moves is laid out again.
  let rests = 0;
  const arrange = () => {
    const rows = [...shown.values()].sort((a, b) => a.index - b.index).map((row) => row.element);
    if (rows.every((e, i) => e === body.children[i])) return;
    const focused = rows.find((e) => e.contains(document.activeElement)); // it would lose the focus if it moved
    let before = focused ?? null;
    for (const e of rows) if (e === focused) before = null; else body.insertBefore(e, before);
  };
  const resort = () => {
    const text = filter.value.trim();
    sorted = [...all.values()].filter((p) => p.place.includes(text) || p.events.some((e) => e.name.includes(text))).sort(order[sort.value]);
    draw();
  };
  // take keeps what is new of a probe in the object that is sorted and shown already.
  const take = (p, time) => {
    const old = all.get(p.id);
    const now = performance.now();
    if (!old) {
      all.set(p.id, { ...p, rate: 0, missRate: 0, at: now, anchor: { time, hits: p.hits ?? 0, missed: p.missed } });
      return;
    }
    if (p.hits === undefined) old.hits = undefined;
    Object.assign(old, p);
    old.at = now;
    if (time - old.anchor.time >= span) {
      old.rate = Math.max(0, ((p.hits ?? 0) - old.anchor.hits) / (time - old.anchor.time));
      old.missRate = Math.max(0, (p.missed - old.anchor.missed) / (time - old.anchor.time));
      old.anchor = { time, hits: p.hits ?? 0, missed: p.missed };
    }
  };
  const switches = (v) => {
    enabled.show(v.enabled, about.write);
    optimization.show(v.optimization, about.write);
    tracing.show(v.tracing, about.write);
  };
  grid.addEventListener("scroll", draw, { passive: true });
  const watcher = new ResizeObserver(measure);
  watcher.observe(grid);
  const rest = setInterval(() => {
    const now = performance.now();
    let changed = false;
    for (const p of all.values()) if ((p.rate || p.missRate) && now - p.at > stale) { p.rate = p.missRate = 0; p.anchor.hits = p.hits ?? 0; p.anchor.missed = p.missed; p.anchor.time += (now - p.at) / 1000; p.at = now; changed = true; }
    if (changed) draw();
  }, 1000);
  const close = live("probes", {}, {
    probes: (v) => { all.clear(); v.probes.forEach((p) => take(p, v.time)); switches(v); resort(); },
    delta: (v) => {
      const known = v.probes.every((p) => all.has(p.id)) && !v.gone.length;
      v.probes.forEach((p) => take(p, v.time));
      v.gone.forEach((id) => all.delete(id));
      switches(v);
      if (known && sort.value === "place" && !filter.value) draw(); else resort();
    },
  });
  return () => { close(); clearInterval(rest); clearTimeout(rests); watcher.disconnect(); };
}

// rowOf makes a row that shows nothing yet.
function rowOf(about) {
  const cell = (...children) => h("span", { role: "cell" }, ...children);
  const number = (unit) => h("span", { role: "cell", class: "num", "data-unit": unit });
  const place = h("a", { class: "mono" });
  const state = cell(), kind = cell(), hits = number("hits"), perSecond = number("hits/s"), missed = number("missed"), why = h("span", { role: "cell", class: "soft" });
  const row = { place, state, kind, hits, perSecond, missed, why, event: null };
  row.toggle = toggle("", (on) => post("/api/events/enable", { event: row.event, on }));
  row.remover = h("button", { type: "button", title: "Remove the event", click: () => attempt(() => post("/api/events/remove", { event: row.event })) }, "✕");
  row.element = h("div", { class: "row", role: "row" }, cell(place), state, kind, hits, perSecond, missed, why, cell(row.toggle, " ", about.write ? row.remover : null));
  let top = -1;
  row.index = -1;
  row.at = (i, height) => {
    if (i !== row.index) row.element.setAttribute("aria-rowindex", i + 2);
    if (i * height !== top) row.element.style.transform = "translateY(" + i * height + "px)";
    row.index = i;
    top = i * height;
  };
  return row;
}

// put sets a property that is another one now. What was put is remembered, as asking an element may
// make the browser lay the page out.
const known = new WeakMap();

function put(e, name, value) {
  let values = known.get(e);
  if (!values) known.set(e, values = {});
  if (values[name] === value) return;
  values[name] = value;
  e[name] = value;
}

function fill(row, p, about) {
  put(row.place, "textContent", p.place);
  put(row.place, "href", "#text/" + encodeURIComponent(functionOf(p.place)));
  put(row.place, "title", p.events.map((e) => e.name).join(", "));
  const s = stateOf(p);
  put(row.state, "textContent", stateWords[s] ?? s);
  put(row.state, "className", "badge " + s.replace(" ", "-"));
  put(row.kind, "textContent", kinds[p.kind] ?? p.kind);
  put(row.hits, "textContent", p.hits === undefined ? "-" : count(p.hits));
  put(row.perSecond, "textContent", p.hits === undefined ? "-" : rate(p.rate));
  put(row.missed, "textContent", count(p.missed) + (p.missRate ? ", " + rate(p.missRate) + "/s" : ""));
  put(row.why, "textContent", p.why);
  put(row.why, "title", p.why);
  const event = p.events.length === 1 ? p.events[0].name : null;
  if (row.event !== event) {
    row.event = event;
    put(row.toggle, "textContent", event?.split("/")[1] ?? "");
    put(row.toggle, "ariaLabel", "Event " + event);
    put(row.remover, "ariaLabel", "Remove the event " + event);
  }
  const off = p.flags.includes("disabled");
  put(row.toggle, "hidden", event === null);
  put(row.remover, "hidden", event === null);
  if (event === null) return;
  if (row.is !== p.id || row.on !== !off) row.toggle.show(!off, about.write);
  row.is = p.id;
  row.on = !off;
  put(row.remover, "disabled", !off);
  put(row.remover, "title", off ? "Remove the event" : "Switch the event off first");
}
