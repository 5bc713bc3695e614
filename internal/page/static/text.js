// A function's instructions as they are now, and as they were at each change since the view was
// opened.
import { h, get, live, say } from "./dom.js";

const patches = { int3: "a breakpoint", jump: "a jump to the detour", call: "a call of ftrace's trampoline", other: "changed" };
const parts = { slot: "slot: the copy, stepped", boost: "slot: the copy that jumps back", detour: "detour: saves the registers, calls the handlers", copied: "detour: the copied instructions, and the jump back" };
const mostSteps = 100;

export function text(main, about, name) {
  const names = h("datalist", { id: "functions" });
  let asked = 0;
  const field = h("input", { class: "mono", list: "functions", value: name, "aria-label": "Function", placeholder: "vfs_read", autocomplete: "off", autocapitalize: "off", spellcheck: "false", input: async () => {
    const mine = ++asked;
    try {
      const found = await get("/api/functions?prefix=" + encodeURIComponent(field.value));
      if (mine === asked) names.replaceChildren(...found.map((n) => h("option", { value: n })));
    } catch {
      names.replaceChildren();
    }
  } });
  const form = h("form", { class: "bar", submit: (e) => { e.preventDefault(); location.hash = "text/" + encodeURIComponent(field.value.trim()); } },
    h("label", {}, "Function", field), names, h("button", { type: "submit" }, "Show"));
  const back = h("button", { type: "button", disabled: true, click: () => go(at - 1) }, "◀ Before");
  const on = h("button", { type: "button", disabled: true, click: () => go(at + 1) }, "After ▶");
  const where = h("span", { class: "soft", role: "status" });
  const shown = h("div", { class: "wide mono", tabindex: "0", role: "region", "aria-label": "Instructions" });
  main.append(form);
  if (!name) {
    main.append(h("p", { class: "soft" }, "Write the name of a function, or choose a probe's place in the list of probes."));
    field.focus();
    return () => {};
  }
  main.append(h("div", { class: "bar" }, back, on, where), shown);

  const steps = [];
  let at = -1;
  function go(i) {
    at = Math.max(0, Math.min(i, steps.length - 1));
    back.disabled = at === 0;
    on.disabled = at === steps.length - 1;
    where.textContent = steps.length === 1 ? "as it is now" : "change " + at + " of " + (steps.length - 1) + ", " + steps[at].when + (at === steps.length - 1 ? ": as it is now" : "");
    shown.replaceChildren(...steps[at].functions.map(drawn));
  }
  get("/api/text?function=" + encodeURIComponent(name)).catch((err) => { say(err.message); close(); });
  const close = live("text", { function: name }, {
    text: (functions) => {
      if (steps.length && JSON.stringify(functions) === JSON.stringify(steps.at(-1).functions)) return; // the stream was opened again
      const follows = at === steps.length - 1;
      steps.push({ functions, when: new Date().toLocaleTimeString() });
      if (steps.length > mostSteps) { steps.shift(); at--; }
      go(follows ? steps.length - 1 : at);
    },
  });
  return close;
}

const hex = (n) => "+0x" + n.toString(16);

function drawn(f) {
  const rows = [];
  for (const i of f.instructions) {
    const was = i.was ?? [];
    if (i.source) rows.push(h("tr", { class: "source" }, h("td"), h("td", { colspan: "5" }, h("span", { class: "soft" }, i.source.file + ":" + i.source.line + " "), i.source.text ?? "")));
    rows.push(h("tr", { class: i.patch ? "patched" : false },
      h("td", {}, i.patch ? "*" : ""), h("td", { class: "soft" }, i.address), h("td", {}, hex(i.offset)), h("td", {}, i.bytes),
      h("td", { class: i.patch ? "patch-" + i.patch : false }, i.text),
      h("td", { class: "soft" }, was.length ? was[0].bytes + "  " + was[0].text : "")));
    for (const old of was.slice(1)) {
      rows.push(h("tr", { class: "patched" }, h("td"), h("td"), h("td", { class: "soft" }, hex(old.offset)), h("td"), h("td"), h("td", { class: "soft" }, old.bytes + "  " + old.text)));
    }
    if (i.probe) rows.push(...probed(i, was));
  }
  return h("table", { class: "asm" },
    h("caption", {}, f.name + (f.module ? " [" + f.module + "]" : "")),
    h("thead", {}, h("tr", {}, h("td"), ["Address", "Offset", "Bytes", "Instruction", "What stood there"].map((t) => h("th", { scope: "col" }, t)))),
    h("tbody", {}, rows));
}

function probed(i, was) {
  const size = was.reduce((n, w) => n + w.bytes.split(" ").length, 0);
  const words = [i.patch ? patches[i.patch] : "no patch", i.probe.armed ? "armed" : "not armed", ...i.probe.flags, "carried out by " + i.probe.carried_out];
  if (i.patch === "jump") words.push("optimized region of " + size + " bytes");
  const rows = [h("tr", { class: "note" }, h("td"), h("td", { colspan: "5" }, "probed: " + words.join(", ")))];
  for (const c of i.probe.copies) {
    rows.push(h("tr", { class: "note" }, h("td"), h("td", { colspan: "5" }, "  " + (parts[c.part] ?? c.part))));
    for (const k of c.instructions) {
      rows.push(h("tr", { class: "copy" }, h("td"), h("td", {}, k.address), h("td", {}, hex(k.offset)), h("td", {}, k.bytes), h("td", {}, k.text), h("td")));
    }
  }
  return rows;
}
