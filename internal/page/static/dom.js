// What the views share: elements, requests, streams of events, and numbers for people. Text of the
// machine goes into the document as text only, never as HTML.

// h makes an element. Attributes that are functions are listeners; false and null leave one out.
export function h(tag, attributes = {}, ...children) {
  const e = tag.startsWith("svg:") ? document.createElementNS("http://www.w3.org/2000/svg", tag.slice(4)) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (typeof value === "function") e.addEventListener(name, value);
    else e.setAttribute(name, value === true ? "" : value);
  }
  e.append(...children.flat().filter((c) => c !== null && c !== undefined));
  return e;
}

export const $ = (id) => document.getElementById(id);

// say shows a sentence until another one comes, or none.
export function say(text) {
  const p = $("message");
  p.textContent = text || "";
  p.hidden = !text;
}

// Refused is what the program answers when it does not do what is asked for.
export class Refused extends Error {
  constructor(answer, status) {
    super(answer.error || "the program has answered with status " + status);
    this.answer = answer;
  }
}

async function answerOf(response) {
  let answer = {};
  try {
    answer = await response.json();
  } catch {
    // no JSON: the status says enough
  }
  if (!response.ok) throw new Refused(answer, response.status);
  return answer;
}

export const get = async (path) => answerOf(await fetch(path, { cache: "no-store" }));

export async function post(path, body) {
  const response = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  return answerOf(response);
}

// attempt does something that the program may refuse, and says why it does.
export async function attempt(f) {
  try {
    await f();
    say("");
  } catch (err) {
    say(err instanceof Refused ? err.message : "kprobefs does not answer: it has ended, or the tunnel to it has");
  }
}

// A browser has six connections to a host for all its tabs, and a stream holds one of them. So the tabs
// share these places, which are locks of the browser: the tab that was looked at last has one.
const places = 4, prefix = "kprobefs-live-";

// take gets a place, if need be that of the tab that was not looked at for the longest time. It returns a
// function that gives the place back; lost is called when another tab takes it.
async function take(lost) {
  if (!navigator.locks) return () => {};
  const held = (await navigator.locks.query()).held.map((l) => l.name).filter((name) => name.startsWith(prefix)).sort();
  for (const name of held.slice(0, Math.max(0, held.length - places + 1))) {
    navigator.locks.request(name, { steal: true }, () => {}).catch(() => {});
  }
  let release;
  const until = new Promise((done) => { release = done; });
  navigator.locks.request(prefix + String(Date.now()).padStart(16, "0") + "-" + Math.random(), () => until).catch(lost);
  return release;
}

// live opens a stream of events about a topic; opened is called each time when it begins anew. It returns a
// function that ends it. A browser opens a stream that was cut again by itself, but not one that was
// refused. A stream whose place another tab has taken pauses until somebody looks at this tab.
export function live(topic, parameters, handlers, opened = () => {}) {
  const query = new URLSearchParams({ topic, ...parameters });
  const stops = new AbortController();
  let source = null, retry, turn = 0, leave = () => {};
  const close = () => {
    turn++;
    clearTimeout(retry);
    source?.close();
    source = null;
    leave();
    leave = () => {};
  };
  const pause = () => {
    close();
    $("state").textContent = "paused";
    $("state").title = "Other tabs of this page are live: this one goes on when you come back to it.";
  };
  const open = async () => {
    close();
    if (document.hidden) return pause(); // it has not been looked at yet
    const mine = turn;
    const back = await take(() => { if (mine === turn) pause(); });
    if (mine !== turn) return back();
    leave = back;
    connect();
  };
  const connect = () => {
    source = new EventSource("/api/live?" + query);
    const own = source;
    source.onopen = () => { $("state").textContent = "live"; $("state").title = ""; opened(); };
    source.onerror = () => {
      $("state").textContent = "no connection";
      if (own.readyState !== EventSource.CLOSED || own !== source) return;
      retry = setTimeout(connect, 2000);
      get("/api/about").catch((err) => { if (err instanceof Refused && own === source) say(err.message); }); // a program that was started again has another token
    };
    source.addEventListener("problem", (e) => say(JSON.parse(e.data).error));
    source.addEventListener("over", pause);
    for (const [name, f] of Object.entries(handlers)) source.addEventListener(name, (e) => f(JSON.parse(e.data)));
  };
  // looked is called when somebody comes to the tab: it goes on, and is the last one that was looked at.
  const looked = async () => {
    if (document.hidden) return;
    if (!source) return open();
    leave();
    leave = () => {};
    const mine = turn;
    const back = await take(() => { if (mine === turn) pause(); });
    if (mine !== turn) return back();
    leave = back;
  };
  document.addEventListener("visibilitychange", looked, { signal: stops.signal });
  for (const event of ["focus", "pointerdown", "keydown"]) {
    addEventListener(event, () => { if (!source) looked(); }, { signal: stops.signal });
  }
  open();
  return () => {
    stops.abort();
    close();
  };
}

// toggle is a switch. set(on) carries it out; the state that comes back from the machine decides.
export function toggle(label, set) {
  const b = h("button", { type: "button", role: "switch", "aria-checked": "false", disabled: true, click: () => {
    const on = b.getAttribute("aria-checked") !== "true";
    b.disabled = true;
    attempt(() => set(on)).finally(() => { b.disabled = !b.usable; });
  } }, label);
  b.show = (on, usable) => {
    b.usable = usable && on !== null;
    b.disabled = !b.usable;
    b.setAttribute("aria-checked", String(on === true));
    b.title = on === null ? "This kernel does not have it." : usable ? "" : "The page is read-only: kprobefs mount --http-write lets it switch.";
  };
  return b;
}

// table returns a heading and a table that can be scrolled, by keyboard too, where it is wider than the page.
export const table = (title, names, body) => [h("h2", {}, title),
  h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": title }, h("table", {}, h("thead", {}, h("tr", {}, names.map((n) => h("th", { scope: "col" }, n)))), body))];

const numbers = new Intl.NumberFormat("en"); // toLocaleString makes one each time

export const count = (n) => numbers.format(n);

// rate shows a number a second.
export function rate(n) {
  if (n >= 1e6) return (n / 1e6).toFixed(1) + " M";
  if (n >= 1e4) return (n / 1e3).toFixed(0) + " k";
  return n >= 10 || n === 0 ? n.toFixed(0) : n.toFixed(1);
}

// soon calls f once before the next picture, however often it is asked to.
export function soon(f) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => { asked = false; f(); });
  };
}
