// A field for a definition of an event, with completion of the function's name, and what Linux says
// to a definition that it does not take.
import { h, get, post, say, Refused } from "./dom.js";

// wordAt returns where the second word of a definition begins and ends, if the cursor is in it.
function wordAt(text, at) {
  const m = /^\S+\s+/.exec(text);
  if (!m || at < m[0].length) return null;
  const end = /^[^\s+]*/.exec(text.slice(m[0].length))[0].length + m[0].length;
  return at <= end ? { begin: m[0].length, end } : null;
}

// What is recorded of each hit besides what the definition says.
const registers = ["ip", "sp", "bp", "flags", "ax", "bx", "cx", "dx", "si", "di", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"].map((r) => r + "=%" + r + ":x64");
const stack = [0, 1, 2, 3, 4, 5, 6, 7].map((n) => "stack" + n + "=$stack" + n + ":x64");

// recording adds to a definition what of this it does not have.
const recording = (definition, more) => {
  const names = new Set(definition.split(/\s+/).map((w) => w.split("=")[0]));
  return [definition, ...more.filter((a) => !names.has(a.split("=")[0]))].join(" ");
};

export function definer() {
  let options = [], chosen = -1, asked = 0;
  let swallow = false; // the key that has chosen a completion does not define anything
  const list = h("ul", { role: "listbox", id: "completions", "aria-label": "Functions", hidden: true });
  const field = h("input", {
    class: "mono", type: "text", role: "combobox", "aria-label": "Definition of an event", "aria-autocomplete": "list", "aria-controls": "completions", "aria-expanded": "false",
    placeholder: "p:mine vfs_read count=%dx:u64", autocomplete: "off", autocapitalize: "off", spellcheck: "false", maxlength: "4000",
    input: complete, blur: () => setTimeout(hide, 150), keydown: key, keypress: (e) => { if (swallow && e.key === "Enter") e.preventDefault(); }, keyup: () => { swallow = false; },
  });
  const refused = h("pre", { class: "refused", role: "alert", hidden: true });
  const withRegisters = h("input", { type: "checkbox" }), withStack = h("input", { type: "checkbox" });
  const form = h("form", { class: "define", submit: define }, h("div", { class: "field" }, field, list),
    h("label", { title: "An entry of the trace then has all registers as they were at the hit" }, withRegisters, "registers"),
    h("label", { title: "An entry of the trace then has the first words on the stack" }, withStack, "stack"), h("button", { type: "submit" }, "Define"));

  async function complete() {
    const word = wordAt(field.value, field.selectionStart);
    if (!word || word.begin === word.end) return hide();
    const mine = ++asked;
    let names = [];
    try {
      names = await get("/api/functions?prefix=" + encodeURIComponent(field.value.slice(word.begin, word.end)));
    } catch {
      return hide();
    }
    if (mine !== asked || document.activeElement !== field) return;
    options = names;
    chosen = -1;
    list.replaceChildren(...names.map((name, i) => h("li", { role: "option", id: "completion" + i, class: "mono", mousedown: (e) => { e.preventDefault(); take(i); } }, name)));
    list.hidden = !names.length || (names.length === 1 && names[0] === field.value.slice(word.begin, word.end));
    field.setAttribute("aria-expanded", String(!list.hidden));
    field.removeAttribute("aria-activedescendant");
  }
  function hide() {
    asked++;
    list.hidden = true;
    field.setAttribute("aria-expanded", "false");
    field.removeAttribute("aria-activedescendant");
  }
  function take(i) {
    const word = wordAt(field.value, field.selectionStart) ?? wordAt(field.value, field.value.length);
    if (word) field.setRangeText(options[i], word.begin, word.end, "end");
    hide();
    field.focus();
  }
  function key(e) {
    if (list.hidden) return;
    if (e.key === "ArrowDown" || e.key === "ArrowUp") {
      e.preventDefault();
      chosen = (chosen + (e.key === "ArrowDown" ? 1 : options.length + (chosen < 0 ? 1 : 0) - 1)) % options.length;
      [...list.children].forEach((o, i) => o.setAttribute("aria-selected", String(i === chosen)));
      list.children[chosen].scrollIntoView({ block: "nearest" });
      field.setAttribute("aria-activedescendant", "completion" + chosen);
    } else if ((e.key === "Enter" || e.key === "Tab") && chosen >= 0) {
      e.preventDefault();
      swallow = true;
      take(chosen);
    } else if (e.key === "Escape") {
      e.preventDefault();
      hide();
    }
  }
  async function define(e) {
    e.preventDefault();
    hide();
    const definition = recording(field.value.trim(), [...(withRegisters.checked ? registers : []), ...(withStack.checked ? stack : [])]);
    try {
      await post("/api/events", { definition });
      refused.hidden = true;
      field.value = "";
      field.removeAttribute("aria-invalid");
      say("");
    } catch (err) {
      const a = err instanceof Refused ? err.answer : { error: "kprobefs does not answer" };
      const lines = a.caret === undefined ? [definition] : [definition, " ".repeat(a.caret) + "^"];
      refused.textContent = [...lines, a.error].join("\n");
      refused.hidden = false;
      field.setAttribute("aria-invalid", "true");
      if (a.caret !== undefined) field.setSelectionRange(a.caret, a.caret);
      field.focus();
    }
  }
  return h("div", {}, form, refused);
}
