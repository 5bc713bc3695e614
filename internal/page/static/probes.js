// The list of probes, with switches and the definition of new ones.
import { h, live, post, attempt, toggle, count, rate, soon } from "./dom.js";
import { definer } from "./define.js";

const many = (n) => count(n) + (n === 1 ? " probe" : " probes");
const span = 1; // seconds over which hits a second are counted
const stale = 2500; // milliseconds without news after which a rate is 0

const order = {
  place: (a, b) => a.place < b.place ? -1 : a.place > b.place ? 1 : a.id < b.id ? -1 : 1,
  hits: (a, b) => (b.hits ?? -1) - (a.hits ?? -1) || order.place(a, b),
  rate: (a, b) => b.rate - a.rate || order.place(a, b),
  state: (a, b) => stateOf(a).localeCompare(stateOf(b)) || order.place(a, b),
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

  let height = 36;
  const measure = () => {
    const style = getComputedStyle(document.documentElement);
    height = parseFloat(style.getPropertyValue("--row")) * parseFloat(style.fontSize);
    draw();
  };
  const draw = soon(() => {
    body.style.height = sorted.length * height + "px";
    const first = Math.max(0, Math.floor(grid.scrollTop / height) - 6);
    const last = Math.min(sorted.length, Math.ceil((grid.scrollTop + grid.clientHeight) / height) + 6);
    grid.setAttribute("aria-rowcount", sorted.length + 1);
    const wanted = new Set();
    for (let i = first; i < last; i++) {
      const p = sorted[i];
      p.row ??= rowOf(p, about);
      fill(p, about);
      p.row.style.top = i * height + "px";
      p.row.setAttribute("aria-rowindex", i + 2);
      wanted.add(p.row);
    }
    for (const row of [...body.children]) if (!wanted.has(row)) { row.probe.row = null; row.remove(); }
    for (let i = first; i < last; i++) if (!sorted[i].row.isConnected) body.append(sorted[i].row);
    number.textContent = sorted.length === all.size ? many(all.size) : count(sorted.length) + " of " + many(all.size);
  });
  const resort = () => {
    const text = filter.value.trim();
    sorted = [...all.values()].filter((p) => p.place.includes(text) || p.events.some((e) => e.name.includes(text))).sort(order[sort.value]);
    draw();
  };
  const take = (p, time) => {
    const old = all.get(p.id);
    p.rate = old?.rate ?? 0;
    p.anchor = old?.anchor ?? { time, hits: p.hits ?? 0, missed: p.missed };
    p.row = old?.row ?? null;
    if (p.row) p.row.probe = p;
    if (time - p.anchor.time >= span) {
      p.rate = Math.max(0, ((p.hits ?? 0) - p.anchor.hits) / (time - p.anchor.time));
      p.anchor = { time, hits: p.hits ?? 0 };
    }
    p.at = performance.now();
    all.set(p.id, p);
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
    for (const p of all.values()) if (p.rate && now - p.at > stale) { p.rate = 0; p.anchor.hits = p.hits ?? 0; p.anchor.time += (now - p.at) / 1000; p.at = now; changed = true; }
    if (changed) draw();
  }, 1000);
  const close = live("probes", {}, {
    probes: (v) => { all.clear(); body.replaceChildren(); v.probes.forEach((p) => take(p, v.time)); switches(v); resort(); },
    delta: (v) => {
      const known = v.probes.every((p) => all.has(p.id)) && !v.gone.length;
      v.probes.forEach((p) => take(p, v.time));
      v.gone.forEach((id) => all.delete(id));
      switches(v);
      if (known && sort.value === "place" && !filter.value) { sorted = sorted.map((p) => all.get(p.id)); draw(); } else resort();
    },
  });
  return () => { close(); clearInterval(rest); watcher.disconnect(); };
}

function rowOf(p, about) {
  const row = h("div", { class: "row", role: "row" },
    h("span", { role: "cell" }, h("a", { class: "mono" })), h("span", { role: "cell" }), h("span", { role: "cell" }),
    h("span", { role: "cell", class: "num", "data-unit": "hits" }), h("span", { role: "cell", class: "num", "data-unit": "hits/s" }), h("span", { role: "cell", class: "num", "data-unit": "missed" }),
    h("span", { role: "cell", class: "soft" }), h("span", { role: "cell" }));
  row.probe = p;
  const event = p.events.length === 1 ? p.events[0].name : null;
  if (event) {
    row.toggle = toggle(event.split("/")[1], (on) => post("/api/events/enable", { event, on }));
    row.toggle.setAttribute("aria-label", "Event " + event);
    row.lastChild.append(row.toggle);
    if (about.write) {
      row.remover = h("button", { type: "button", "aria-label": "Remove the event " + event, title: "Remove the event", click: () => attempt(() => post("/api/events/remove", { event })) }, "✕");
      row.lastChild.append(" ", row.remover);
    }
  }
  return row;
}

const put = (e, text) => { if (e.textContent !== text) e.textContent = text; };

function fill(p, about) {
  const [first, state, kind, hits, perSecond, missed, why] = p.row.children;
  const place = first.firstChild;
  put(place, p.place);
  place.href = "#text/" + encodeURIComponent(functionOf(p.place));
  place.title = p.events.map((e) => e.name).join(", ");
  const s = stateOf(p);
  put(state, stateWords[s] ?? s);
  state.className = "badge " + s.replace(" ", "-");
  put(kind, kinds[p.kind] ?? p.kind);
  put(hits, p.hits === undefined ? "-" : count(p.hits));
  put(perSecond, p.hits === undefined ? "-" : rate(p.rate));
  put(missed, count(p.missed));
  put(why, p.why);
  why.title = p.why;
  if (p.row.toggle) p.row.toggle.show(!p.flags.includes("disabled"), about.write);
  if (p.row.remover) {
    p.row.remover.disabled = !p.flags.includes("disabled");
    p.row.remover.title = p.row.remover.disabled ? "Switch the event off first" : "Remove the event";
  }
}
