// The histograms of an event, drawn as bars and read again while they are open.
import { h, get, count, Refused } from "./dom.js";

const most = 200; // rows that are shown
const often = 1000; // milliseconds from one reading to the next

// histograms returns an element that opens, and a function that ends the reading.
export function histograms(event) {
  let timer = 0, over = false, name = event ?? ""; // name is what was entered, not what is being written
  const names = h("datalist", { id: "hist-events" });
  const field = h("input", { value: event ?? "", list: "hist-events", class: "mono", size: "22", placeholder: "kprobes/mine", autocomplete: "off", spellcheck: "false", change: () => { name = field.value.trim(); again(); } });
  const found = h("div", { "aria-live": "off" });
  const box = h("details", { class: "hist", toggle: again }, h("summary", {}, "Histograms"), h("div", { class: "bar" }, h("label", {}, "of event ", field), names), found);

  async function again() {
    clearTimeout(timer);
    if (over || !box.open) return;
    if (!names.children.length) await complete(names);
    const asked = name;
    try {
      if (asked) draw(found, asked, await get("/api/histograms?event=" + encodeURIComponent(asked)));
      else found.replaceChildren(h("p", { class: "soft" }, "Name an event that has a trigger hist:keys=...; echo it into the event's file trigger."));
    } catch (err) {
      found.replaceChildren(h("p", { class: "soft" }, err instanceof Refused ? err.message : "kprobefs does not answer"));
    }
    clearTimeout(timer);
    if (!over && box.open) timer = setTimeout(again, often);
  }
  return { box, end: () => { over = true; clearTimeout(timer); } };
}

// complete offers the events of probes.
async function complete(list) {
  try {
    const all = (await get("/api/probes")).probes.flatMap((p) => (p.events ?? []).map((e) => e.name));
    list.replaceChildren(...[...new Set(all)].map((name) => h("option", { value: name })));
  } catch {
    // the field works without
  }
}

function draw(to, event, all) {
  if (!all.length) return to.replaceChildren(h("p", { class: "soft" }, event + " has no histogram: echo hist:keys=common_pid into tracing/events/" + event + "/trigger."));
  const focused = document.activeElement;
  to.replaceChildren(...all.map(histogram));
  if (focused && !document.contains(focused)) to.querySelector("[tabindex]")?.focus();
}

function histogram(o) {
  const first = o.rows[0]?.values[0]?.name ?? "hitcount";
  const value = (row) => row.values[0]?.value ?? 0;
  const top = Math.max(...o.rows.map(value), 1);
  const others = (row) => row.values.slice(1).map((v) => v.name + " " + count(v.value)).join(", ");
  const bar = (row) => h("svg:svg", { class: "hbar", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
    h("svg:rect", { x: "0", y: "0", height: "10", width: String(100 * Math.max(value(row), 0) / top) }));
  const rows = o.rows.slice(0, most).map((row) => h("tr", {}, h("th", { scope: "row", class: "mono key" }, row.key), h("td", { class: "num" }, count(value(row))), h("td", { class: "draw" }, bar(row)), h("td", { class: "soft" }, others(row))));
  const totals = o.totals.map((v) => v.name.toLowerCase() + " " + count(v.value)).join(", ") + (o.rows.length > most ? "; the first " + most + " are shown" : "");
  return h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Histogram " + o.trigger }, h("table", {},
    h("caption", { class: "mono" }, o.trigger + (o.state === "active" ? "" : ", " + o.state)),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Key"), h("th", { scope: "col" }, first), h("td"), h("td"))), h("tbody", {}, rows)),
  h("p", { class: "soft" }, totals));
}
