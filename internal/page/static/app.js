// The frame of the page: it chooses the view by the part of the address behind #.
import { $, get, say, Refused } from "./dom.js";
import { probes } from "./probes.js";
import { text } from "./text.js";
import { trace } from "./trace.js";
import { machine } from "./machine.js";
import { timeline } from "./timeline.js";

const views = { probes, text, trace, machine, timeline };
const names = Object.keys(views);

// The token has become a cookie: it need not stay where others see it.
if (new URLSearchParams(location.search).has("token")) history.replaceState(null, "", location.pathname + location.hash);

let end = () => {};

function show(about) {
  const [name, ...rest] = location.hash.slice(1).split("/");
  const view = views[name] ? name : "probes";
  end();
  say("");
  $("main").replaceChildren();
  for (const a of document.querySelectorAll("nav a")) {
    if (a.hash === "#" + view) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  }
  document.title = view[0].toUpperCase() + view.slice(1) + " - kprobefs";
  end = views[view]($("main"), about, decodeURIComponent(rest.join("/")));
}

$("skip").addEventListener("click", (e) => { e.preventDefault(); $("main").focus(); });

// 1 to 5 choose a view, / goes to the view's first field, outside of fields.
document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.altKey || e.metaKey || /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)) return;
  if (e.key >= "1" && e.key <= String(names.length)) {
    location.hash = names[Number(e.key) - 1];
  } else if (e.key === "/") {
    const field = document.querySelector("main input");
    if (field) { e.preventDefault(); field.focus(); }
  }
});

try {
  const about = await get("/api/about");
  $("release").textContent = about.release + (about.write ? "" : ", read-only");
  $("release").title = about.program;
  addEventListener("hashchange", () => show(about));
  show(about);
} catch (err) {
  $("state").textContent = "";
  say(err instanceof Refused ? err.message : "kprobefs does not answer");
}
