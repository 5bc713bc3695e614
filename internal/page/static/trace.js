// The trace while it grows. What is shown stays in the buffer.
import { h, get, live, post, attempt, toggle, count, soon } from "./dom.js";
import { histograms } from "./histogram.js";

const most = 1000; // entries that are kept

// What the letters of an entry's flags say, by their place.
const flagWords = [
  { d: "interrupts off", D: "interrupts and bottom halves off", b: "bottom halves off" },
  { N: "must be rescheduled", n: "must be rescheduled", p: "must be rescheduled" },
  { h: "in a hard interrupt", H: "in a hard interrupt, over a soft one", s: "in a soft interrupt", z: "in an NMI", Z: "in an NMI, over a hard interrupt" },
];

function flagsInWords(flags) {
  const words = [...flags].slice(0, 3).map((c, i) => flagWords[i][c]).filter(Boolean);
  if (/[1-9a-f]/.test(flags[3] ?? "")) words.push("preempt count " + flags[3]);
  return words.join(", ") || "nothing special";
}

// args reads NAME=VALUE of an entry's text. A value in quotes may have blanks.
const args = (text) => [...text.matchAll(/(?:^|\s)([A-Za-z_]\w*)=("(?:[^"\\]|\\.)*"|\S+)/g)].map((m) => [m[1], m[2]]);

export function trace(main, about, only) {
  let entries = [], waiting = [], paused = false, close = () => {};
  const field = (label, value) => h("input", { value: value ?? "", "aria-label": label, placeholder: "*", size: "14", class: "mono", change: () => open() });
  const event = field("Event", only), comm = field("Task");
  const pause = h("button", { type: "button", "aria-pressed": "false", click: () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    pause.textContent = paused ? "Go on" : "Pause";
    if (!paused) draw();
  } }, "Pause");
  const clear = h("button", { type: "button", disabled: !about.write, click: () => attempt(async () => { await post("/api/trace/clear", {}); reset(); }) }, "Empty the buffer");
  const save = h("button", { type: "button", click: download }, "Save as text");
  const dat = h("a", { href: "/api/trace.dat", download: "trace.dat", title: "For trace-cmd report and KernelShark; nothing is taken out of the buffer" }, "Download trace.dat");
  const number = h("span", { class: "soft", role: "status" });
  const hist = histograms(only?.includes("/") ? only : "");
  const list = h("ul", { class: "entries", "aria-label": "Entries of the trace", tabindex: "0" });
  main.append(h("div", { class: "bar" }, h("label", {}, "Event", event), h("label", {}, "Task", comm), pause, clear, save, dat, number), list, hist.box);

  const draw = soon(() => {
    if (paused || !waiting.length) return;
    const end = list.scrollTop + list.clientHeight >= list.scrollHeight - 40;
    const fresh = waiting.slice(-most);
    waiting = [];
    list.append(...fresh.map(item));
    entries = entries.concat(fresh).slice(-most);
    while (list.children.length > most) list.firstChild.remove();
    number.textContent = count(entries.length) + " entries";
    if (end) list.scrollTop = list.scrollHeight;
  });
  function reset() {
    entries = [];
    waiting = [];
    list.replaceChildren();
    number.textContent = "no entries";
  }
  function open() {
    close();
    reset();
    close = live("trace", { event: event.value.trim(), comm: comm.value.trim() }, { trace: (v) => {
      if (v.skipped) waiting.push({ skipped: v.skipped });
      waiting.push(...v.entries);
      if (waiting.length > most) waiting = waiting.slice(-most);
      draw();
    } }, reset);
  }
  function download() {
    const text = entries.map((e) => [e.skipped ? "# " + e.skipped + " entries are not shown" : line(e), ...(e.more ?? [])].join("\n")).join("\n") + "\n";
    const url = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
    const a = h("a", { href: url, download: "trace.txt" });
    a.click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  }
  open();
  return () => { close(); hist.end(); };
}

const line = (e) => e.comm === undefined ? (e.lost ? "CPU:" + e.cpu + " [LOST " + e.lost + " EVENTS]" : e.text) :
  e.comm.padStart(16) + "-" + String(e.pid).padEnd(7) + " [" + String(e.cpu).padStart(3, "0") + "] " + (e.flags ?? "") + " " + e.time + ": " + (e.event ? e.event + ": " : "") + e.text;

function item(e) {
  if (e.skipped) return h("li", { class: "lost" }, "about " + count(e.skipped) + " entries came faster than they can be shown");
  if (e.lost) return h("li", { class: "lost" }, "vCPU " + e.cpu + " has lost " + count(e.lost) + " entries: the buffer was full");
  const b = h("button", { type: "button", "aria-expanded": "false", click: () => {
    const isOpen = b.nextSibling !== null;
    b.setAttribute("aria-expanded", String(!isOpen));
    if (isOpen) b.nextSibling.remove();
    else b.after(opened(e));
  } }, h("span", {}, String(e.time ?? "")), h("span", {}, (e.comm ?? "") + (e.pid === undefined ? "" : "-" + e.pid)), h("span", {}, e.cpu === undefined ? "" : "#" + e.cpu), h("span", {}, e.event ?? ""), h("span", {}, (e.text ?? "") + (e.more ? " …" : "")));
  return h("li", {}, b);
}

function opened(e) {
  const row = (name, value) => h("tr", {}, h("th", { scope: "row" }, name), h("td", { class: "mono" }, value));
  const at = /^\((\S+?)\+0x/.exec(e.text ?? "");
  const rows = [row("Text", e.text ?? "")];
  if (e.comm !== undefined) rows.push(row("Task", e.comm + ", PID " + e.pid), row("vCPU", String(e.cpu)), row("Time", e.time + " s"));
  if (e.flags) rows.push(row("State", e.flags + ": " + flagsInWords(e.flags)));
  if (at) rows.push(h("tr", {}, h("th", { scope: "row" }, "Function"), h("td", {}, h("a", { class: "mono", href: "#text/" + encodeURIComponent(at[1]) }, at[1]))));
  const fetched = h("div", {});
  const box = h("div", { class: "open" }, h("table", {}, h("tbody", {}, rows)), fetched, e.more ? h("pre", {}, e.more.join("\n")) : null);
  const values = args(e.text ?? "");
  if (values.length) {
    show(fetched, values, []);
    definition(e.event, values).then((d) => { if (d) show(fetched, values, d.arguments); });
  }
  return box;
}

// definition returns how the event is defined that has recorded these values, or nothing if that is not
// clear: another event may have its name, or it may have been defined anew.
async function definition(event, values) {
  if (!event) return null;
  try {
    const all = await get("/api/events?event=" + encodeURIComponent(event));
    const fits = all.filter((d) => values.every(([name]) => d.arguments.some((a) => a.name === name)));
    return fits.length === 1 ? fits[0] : null;
  } catch {
    return null; // the values can be read without
  }
}

// Where a value comes from. The first that fits decides.
const sources = [
  ["Registers", /^%[a-z0-9]+(:|$)/],
  ["Stack", /^(\$stack|[+-]u?\d+\(\$stack)/],
  ["Arguments", /./],
];

// show writes the values of an entry, by where they come from.
function show(to, values, from) {
  const groups = new Map();
  for (const [name, value] of values) {
    const fetched = from.find((a) => a.name === name)?.fetched ?? "";
    const group = sources.find(([, pattern]) => pattern.test(fetched))?.[0] ?? "Values";
    if (!groups.has(group)) groups.set(group, []);
    groups.get(group).push(h("tr", {}, h("th", { scope: "row", class: "mono" }, name), h("td", { class: "mono" }, value), h("td", { class: "mono soft" }, fetched)));
  }
  to.replaceChildren(...["Arguments", "Values", "Registers", "Stack"].filter((g) => groups.has(g)).map((g) => h("table", { class: "values" }, h("caption", {}, g), h("tbody", {}, groups.get(g)))));
}
