// What the machine does.
import { h, live, count, rate, table } from "./dom.js";

const kept = 120; // points of the curve

// queue says which tasks a vCPU has, the next one first.
const queue = (c) => (c.idle ? "empty" : c.runnable + (c.runnable === 1 ? " runs" : " runnable")) + (c.waiting.length ? ", waiting: " + c.waiting.map((t) => t.comm + "-" + t.pid).join(", ") : "");

// until says how long a time is ahead.
function until(s) {
  if (s <= 0) return "now";
  return s < 1 ? "in " + (s * 1000).toFixed(s < .01 ? 2 : 0) + " ms" : "in " + s.toFixed(1) + " s";
}

export function machine(main) {
  const speed = [];
  let last = null;
  const cards = h("div", { class: "cards" });
  const curve = h("svg:polyline", { points: "" });
  const spark = h("svg:svg", { class: "spark", viewBox: "0 0 " + (kept - 1) + " 100", preserveAspectRatio: "none", role: "img", "aria-label": "Instructions a second" }, curve);
  const cpus = h("tbody"), timers = h("tbody"), tasks = h("tbody"), modules = h("tbody"), queues = h("div"), log = h("pre", { class: "log", tabindex: "0", role: "region", "aria-label": "The kernel's log" });
  main.append(cards, h("h2", {}, "Instructions a second"), spark,
    ...table("Virtual CPUs", ["vCPU", "State", "Task", "PID", "Instructions", "Run queue"], cpus),
    ...table("Timers", ["vCPU", "Expires", "Calls", "Kind"], timers),
    h("h2", {}, "Optimizer"), queues,
    ...table("Tasks of the host's threads", ["PID", "Name", "vCPU", "State"], tasks),
    ...table("Modules", ["Name", "Size", "Used by", "State"], modules),
    h("h2", {}, "Log"), log);
  const row = (...cells) => h("tr", {}, cells.map((c) => h("td", {}, String(c))));
  const card = (name, value) => h("div", { class: "card" }, h("b", {}, value), h("span", { class: "soft" }, name));
  return live("machine", {}, { machine: (m) => {
    if (last && m.time > last.time) {
      speed.push((m.instructions - last.instructions) / (m.time - last.time));
      if (speed.length > kept) speed.shift();
      const top = Math.max(...speed, 1);
      curve.setAttribute("points", speed.map((s, i) => i + "," + (98 - 96 * s / top)).join(" "));
    }
    last = m;
    cards.replaceChildren(
      card("instructions a second", rate(speed.at(-1) ?? 0)), card("instructions", count(m.instructions)), card("RAM", count(m.memory / 2 ** 20) + " MiB"),
      card("slots in use", count(m.slots)), card("since boot", m.time.toFixed(1) + " s"));
    if (m.stopped) cards.append(card("stopped", m.stopped));
    if (m.panic) cards.append(card("panic", m.panic));
    cpus.replaceChildren(...m.cpus.map((c, i) => row(i, c.idle ? "idle" : "runs", c.comm, c.pid, count(c.instructions), queue(c))));
    const due = m.cpus.flatMap((c, i) => c.timers.map((t) => row(i, until(t.due - m.time), t.function, t.wheel ? "timer wheel" : "hrtimer")));
    timers.replaceChildren(...(due.length ? due : [row("", "none", "", "")]));
    tasks.replaceChildren(...m.tasks.map((t) => row(t.pid, t.comm, t.cpu, t.state + (t.in_call ? ", in a call" : ""))));
    modules.replaceChildren(...(m.modules.length ? m.modules.map((o) => row(o.name, count(o.size), o.users.join(", ") || o.refs, o.state)) : [row("none", "", "", "")]));
    const o = m.optimizer;
    queues.replaceChildren(!o ? h("p", { class: "soft" }, "This kernel does not optimize probes.") : h("p", {},
      (o.on ? "on" : "off") + ", " + (o.scheduled ? "its timer runs" : "its timer does not run") + ", " + o.to_free + " detours to free",
      h("br"), "to become jumps: " + (o.to_jump.join(", ") || "none"), h("br"), "to become breakpoints: " + (o.to_int3.join(", ") || "none")));
    const end = log.scrollTop + log.clientHeight >= log.scrollHeight - 30;
    log.textContent = m.log.map((r) => "[" + r.time.toFixed(6).padStart(12) + "] " + r.text).join("\n");
    if (end) log.scrollTop = log.scrollHeight;
  } });
}
