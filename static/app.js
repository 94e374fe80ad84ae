// What the pages do with JavaScript that they do not need it for: keys, the scrubber's keys, clicks
// in the ribbon, copying, dropping files, the theme, charts. Every action is a link or a form that
// the server rendered; this file follows them. It writes no HTML from data.

const doc = document;
const root = doc.documentElement;
root.classList.add("js");

const one = (selector, within = doc) => within.querySelector(selector);
const view = () => one("#view");
const say = (text) => { const box = one("#said"); if (box) box.textContent = text; };

// ---- theme: system, light, dark; a cookie, so that the server renders it and nothing flashes

const THEMES = ["system", "light", "dark"];
const themeNow = () => root.dataset.theme || "system";
const themeLabel = () => { for (const b of doc.querySelectorAll("[data-theme-switch]")) b.textContent = `theme: ${themeNow()}`; };
function switchTheme() {
  const next = THEMES[(THEMES.indexOf(themeNow()) + 1) % THEMES.length];
  if (next === "system") delete root.dataset.theme; else root.dataset.theme = next;
  const age = next === "system" ? 0 : 31536000;
  doc.cookie = `theme=${next}; path=/; max-age=${age}; SameSite=Lax`;
  themeLabel();
  for (const plot of doc.querySelectorAll("[data-drawn]")) draw(plot);
}

// ---- boundaries

function follow(link) { if (link) link.click(); return Boolean(link); }

/** The boundary that keys have asked for and the page does not show yet; null: none. */
let wanted = null;

/** Move the scrubber, so that fast keys are throttled like a drag and replace the URL. */
function moveTo(seq) {
  const at = one("#at");
  if (!at) return false;
  const next = Math.min(Number(at.max), Math.max(Number(at.min), seq));
  if (String(next) === at.value && wanted === null) return true;
  wanted = next;
  at.value = String(next);
  at.dispatchEvent(new Event("input", { bubbles: true }));
  return true;
}

/** The field that a followed link asks to be focused once it is there. */
let focusNext = "";
function focusField(id) {
  const field = doc.getElementById(id);
  if (!field) return false;
  field.scrollIntoView({ block: "center" });
  field.focus();
  if (field.select) field.select();
  return true;
}

const step = (by) => { const at = one("#at"); return at ? moveTo((wanted ?? Number(at.value)) + by) : false; };

/** Focus the next or previous row of a list: its first link. */
function row(by) {
  const links = [...doc.querySelectorAll("table.runs tbody tr")].map((line) => one("a[href]", line)).filter(Boolean);
  const here = links.findIndex((link) => link.closest("tr").contains(doc.activeElement));
  const next = links[here < 0 ? (by > 0 ? 0 : links.length - 1) : Math.min(links.length - 1, Math.max(0, here + by))];
  if (next) { next.focus(); next.scrollIntoView({ block: "nearest" }); }
  return Boolean(next);
}

function tab(by) {
  const tabs = [...doc.querySelectorAll("[data-tab]")];
  const here = tabs.findIndex((t) => t.hasAttribute("aria-current"));
  return here >= 0 && follow(tabs[(here + by + tabs.length) % tabs.length]);
}

/** Keep the boundary's row in sight inside its own scroller, and the scrubber at the boundary. */
function settle() {
  const now = view();
  if (!now) return;
  const at = one("#at");
  if (wanted === Number(now.dataset.seq)) wanted = null;
  if (at && (wanted !== null || doc.activeElement !== at)) at.value = String(wanted ?? now.dataset.seq);
  const row = one(".ev[aria-current]");
  const box = row && row.closest(".scroll");
  if (box && box.scrollHeight > box.clientHeight) {
    const r = row.getBoundingClientRect();
    const b = box.getBoundingClientRect();
    if (r.top < b.top + 30 || r.bottom > b.bottom - 30) box.scrollTop += r.top - b.top - b.height / 3;
  }
  const newest = one("[data-newest]");
  const talk = newest && newest.closest(".scroll");
  if (talk && talk.scrollHeight > talk.clientHeight) talk.scrollTop += Math.min(newest.getBoundingClientRect().top - talk.getBoundingClientRect().top, talk.scrollHeight);
}

/** A row of the log was followed where its event stands above or below it, not beside it. */
let showPanel = false;
function rowClick(event) {
  if (event.target.closest(".ev") && matchMedia("(max-width: 1180px)").matches) showPanel = true;
}

/** A click in the ribbon goes to the event under it. */
function ribbonClick(event) {
  const lanes = event.target.closest("#lanes");
  const svg = lanes && event.target.closest(".lanes > svg");
  if (!svg || Date.now() - brushedAt < 300) return;
  const { left, width, bottom } = svg.getBoundingClientRect();
  const part = Math.min(1, Math.max(0, (event.clientX - left) / width));
  const first = Number(lanes.dataset.first);
  const last = Number(lanes.dataset.last);
  const head = Number(view().dataset.head);
  const bar = event.target.closest("[data-n]");
  let seq;
  if (bottom - event.clientY < 16) seq = Math.round(part * head);
  else if (bar) seq = Number(bar.dataset.n);
  else if (lanes.dataset.xs) {
    const best = lanes.dataset.xs.split(" ").map((pair) => pair.split(":").map(Number))
      .reduce((a, b) => (Math.abs(b[1] - part * 100) < Math.abs(a[1] - part * 100) ? b : a));
    seq = best[0];
  } else seq = Math.min(last, first + Math.floor(part * (last - first + 1)));
  moveTo(seq);
}

// ---- zoom by brush: what is dragged over in the ribbon is drawn; a click stays a click

let brush = null;
let brushedAt = 0;

function brushStart(event) {
  const svg = event.target instanceof Element && event.target.closest("#lanes > svg");
  if (!svg || event.button !== 0 || event.pointerType === "touch") return;
  brush = { svg, from: event.clientX, box: null, whole: svg.getBoundingClientRect().bottom - event.clientY < 16 };
}

function brushMove(event) {
  if (!brush) return;
  if (!brush.box) {
    if (Math.abs(event.clientX - brush.from) < 6) return;
    brush.box = doc.createElement("div");
    brush.box.className = "brush";
    one("#lanes").append(brush.box);
  }
  const { left, right, top, height } = brush.svg.getBoundingClientRect();
  const around = one("#lanes").getBoundingClientRect();
  const at = (x) => Math.min(right, Math.max(left, x));
  const [a, b] = [at(brush.from), at(event.clientX)].sort((x, y) => x - y);
  const style = brush.box.style;
  style.left = `${a - around.left}px`;
  style.width = `${b - a}px`;
  style.top = `${top - around.top + (brush.whole ? height - 16 : 0)}px`;
  style.height = `${brush.whole ? 14 : height - 16}px`;
}

function brushEnd(event) {
  if (!brush) return;
  const { svg, box, from, whole } = brush;
  brush = null;
  if (!box) return;
  box.remove();
  brushedAt = Date.now();
  const lanes = one("#lanes");
  const { left, width } = svg.getBoundingClientRect();
  const part = (x) => Math.min(1, Math.max(0, (x - left) / width));
  const [a, b] = [part(from), part(event.clientX)].sort((x, y) => x - y);
  const first = whole ? 1 : Number(lanes.dataset.first);
  const last = whole ? Number(view().dataset.head) : Number(lanes.dataset.last);
  let low = first + Math.floor(a * (last - first + 1));
  let high = first + Math.floor(b * (last - first + 1));
  if (lanes.dataset.xs && !whole) {
    const pairs = lanes.dataset.xs.split(" ").map((pair) => pair.split(":").map(Number));
    low = (pairs.find((pair) => pair[1] >= a * 100) || pairs[0])[0];
    high = (pairs.find((pair) => pair[1] >= b * 100) || pairs[pairs.length - 1])[0];
  }
  const link = one("#brushed");
  link.href = link.href.replace("zoom=0-0", `zoom=${low}-${Math.min(high, last)}`);
  link.click();
}

// ---- keys

let pendingG = 0;

function typing(target) {
  if (target.isContentEditable) return true;
  if (target.tagName === "INPUT") return !["range", "checkbox", "radio", "button", "submit"].includes(target.type);
  return target.tagName === "TEXTAREA" || target.tagName === "SELECT";
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const key = event.key;
  if (key === "Escape" && typing(event.target)) { event.target.blur(); return; }
  if (typing(event.target) || one("dialog[open]")) return;
  let done = false;
  if (pendingG && Date.now() - pendingG < 1500) {
    pendingG = 0;
    done = follow(one(`[data-g="${CSS.escape(key)}"]`));
  } else if (key === "g") { pendingG = Date.now(); done = true; }
  else if (key === "/") { const box = one("#search"); if (box) { box.focus(); box.select(); done = true; } }
  else if (key === "?") { one("#keys").showModal(); done = true; }
  else if (!view() && (key === "j" || key === "k")) done = row(key === "j" ? 1 : -1);
  else if (view()) {
    if (key === "j") done = step(1);
    else if (key === "k") done = step(-1);
    else if (key === "[") done = tab(-1);
    else if (key === "]") done = tab(1);
    else if (key === "y") { copyLink(); done = true; }
    else if (key === "n") { const box = one(".note-here"); if (box) { box.open = true; done = focusField("note"); } }
    else if (key.length === 1) {
      done = follow(one(`[data-key="${CSS.escape(key)}"]`));
      if (!done && /^[mtecdMTECDJK]$/.test(key)) { say("there is none that way"); done = true; }
    }
  }
  if (done) event.preventDefault();
}

// ---- copying

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    say("the browser did not allow copying");
    return;
  }
  say("copied");
  if (button) {
    const before = button.firstChild.textContent;
    button.firstChild.textContent = "Copied ";
    setTimeout(() => { button.firstChild.textContent = before; }, 1200);
  }
}
// The list: how many rows are selected; a comparison takes two.
const countPicked = (form) => {
  const picked = [...form.querySelectorAll("input[name=id]:checked")];
  const names = picked.slice(0, 2).map((box) => (box.closest("tr") ? one("td a", box.closest("tr")) : box.parentNode).textContent.trim());
  const left = 2 - picked.length;
  const said = picked.length === 2 ? `2 selected: A ${names[0]}, B ${names[1]}` : picked.length ? `${picked.length} selected; to compare, ${left > 0 ? "tick one more" : `untick ${-left}`}` : "Select two to compare, one or more to export";
  form.querySelector("[data-picked]").textContent = said;
  const off = (button, why) => { button.disabled = Boolean(why); button.title = why; };
  off(form.querySelector("[data-compare]"), picked.length === 2 ? "" : `a comparison takes two; ${picked.length} selected`);
  for (const button of form.querySelectorAll("[data-export]")) off(button, picked.length ? "" : "nothing is selected");
};
doc.addEventListener("change", (event) => { const form = event.target.closest(".picking"); if (form) countPicked(form); });
doc.addEventListener("click", (event) => { for (const open of doc.querySelectorAll(".pop[open]")) if (!open.contains(event.target)) open.open = false; });
doc.addEventListener("keydown", (event) => { const open = event.key === "Escape" && one(".pop[open]"); if (open) { open.open = false; open.querySelector("summary").focus(); } });

const copyLink = () => copy(location.href, one("[data-copy-link]"));

// ---- dropping files: the form, with the bytes sent shown

function setUpDrop(form) {
  if (form.dataset.ready) return;
  form.dataset.ready = "1";
  const input = one("input[type=file]", form);
  const over = (on) => (event) => { event.preventDefault(); form.classList.toggle("over", on); };
  form.addEventListener("dragover", over(true));
  form.addEventListener("dragleave", over(false));
  form.addEventListener("drop", (event) => {
    over(false)(event);
    if (event.dataTransfer && event.dataTransfer.files.length) send(form, event.dataTransfer.files);
  });
  form.addEventListener("submit", (event) => {
    if (!input.files.length) return;
    event.preventDefault();
    send(form, input.files);
  });
}

function send(form, files) {
  const data = new FormData();
  for (const file of files) data.append("files", file, file.name);
  const out = one("[data-upload]", form);
  const bar = one("progress", out);
  const words = one("span", out);
  out.hidden = false;
  const request = new XMLHttpRequest();
  request.open("POST", form.action);
  request.setRequestHeader("Accept", "text/html");
  request.upload.addEventListener("progress", (event) => {
    if (!event.lengthComputable) return;
    bar.value = (100 * event.loaded) / event.total;
    words.textContent = `${event.loaded.toLocaleString("en")} of ${event.total.toLocaleString("en")} bytes sent`;
  });
  request.addEventListener("load", () => {
    if (request.status < 400) { location.assign(request.responseURL); return; }
    let why = `the server answered ${request.status}`;
    const said = new DOMParser().parseFromString(request.responseText, "text/html").querySelector(".err p");
    if (said) why = said.textContent;
    words.textContent = `Not imported: ${why}`;
    say(words.textContent);
  });
  request.addEventListener("error", () => { words.textContent = "The connection broke; nothing was imported. Send it again."; });
  request.send(data);
}

// ---- charts: drawn when first seen, in the page's own colours

let plotly;
function loadPlotly() {
  plotly ||= new Promise((resolve, reject) => {
    const script = doc.createElement("script");
    script.src = one("#app-js").dataset.plotly;
    script.onload = () => resolve(window.Plotly);
    script.onerror = reject;
    doc.head.append(script);
  });
  return plotly;
}

async function draw(box) {
  try {
    const [lib, answer] = await Promise.all([loadPlotly(), fetch(box.dataset.plot, { headers: { Accept: "application/json" } })]);
    if (!answer.ok) throw new Error(String(answer.status));
    const figure = await answer.json();
    const css = getComputedStyle(box);
    const ink = css.getPropertyValue("color");
    const probe = doc.createElement("i");
    probe.className = "f-tool sw";
    box.append(probe);
    const bar = getComputedStyle(probe).backgroundColor;
    box.replaceChildren();
    const layout = {
      ...figure.layout, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", height: 210,
      font: { family: css.fontFamily, size: 11, color: ink },
    };
    for (const axis of ["xaxis", "yaxis"]) layout[axis] = { ...layout[axis], gridcolor: "rgba(128,128,128,.25)", linecolor: "rgba(128,128,128,.4)" };
    const data = figure.data.map((trace) => ({ ...trace, marker: { ...trace.marker, color: bar } }));
    await lib.newPlot(box, data, layout, { displayModeBar: false, responsive: true, showSendToCloud: false, displaylogo: false });
    // The numbers stand open for whoever sees no chart; they are closed once, when one is there.
    if (!box.dataset.drawn && box.nextElementSibling) box.nextElementSibling.open = false;
    box.dataset.drawn = "1";
    const svg = one("svg", box);
    if (svg) { svg.setAttribute("role", "img"); svg.setAttribute("aria-label", `${box.dataset.label}; the numbers are in the table below`); }
  } catch {
    box.dataset.failed = "1";
    box.textContent = "The chart could not be drawn; the numbers are below.";
  }
}

const seen = "IntersectionObserver" in window
  ? new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) { seen.unobserve(entry.target); draw(entry.target); }
  })
  : null;

// ---- the line that says that the log has grown; it outlives what is swapped

/** The newest head that the line told of. */
let toldHead = 0;
doc.addEventListener("appended", (event) => { if (event.detail && event.detail.data) toldHead = Math.max(toldHead, Number(event.detail.data)); });

/** What came while the page was being swapped is told again: nobody listened then. */
function catchUp() {
  const [line, now] = [one("#live"), view()];
  if (line && now && one("#follow") && toldHead > Number(now.dataset.head)) line.dispatchEvent(new Event("appended", { bubbles: true }));
}

// ---- wiring

function setUp() {
  for (const form of doc.querySelectorAll("[data-drop]")) setUpDrop(form);
  if (seen) for (const plot of doc.querySelectorAll("[data-plot]:not([data-drawn])")) seen.observe(plot);
  for (const form of doc.querySelectorAll(".picking")) countPicked(form);
  themeLabel();
  settle();
  catchUp();
  if (focusNext && focusField(focusNext)) focusNext = "";
  if (showPanel) { showPanel = false; const panel = one("#panel"); if (panel) panel.scrollIntoView({ block: "start" }); }
}

doc.addEventListener("keydown", onKey);
// What was looked for is found by keys next: they must not go into the field.
doc.addEventListener("submit", (event) => { if (event.target.closest(".find")) one("#find").blur(); });
doc.addEventListener("pointerdown", brushStart);
doc.addEventListener("pointermove", brushMove);
doc.addEventListener("pointerup", brushEnd);
doc.addEventListener("pointercancel", () => { if (brush && brush.box) brush.box.remove(); brush = null; });
doc.addEventListener("click", (event) => {
  const target = event.target;
  if (!(target instanceof Element)) return;
  if (target.closest("[data-theme-switch]")) switchTheme();
  else if (target.closest("[data-keys]")) one("#keys").showModal();
  else if (target.closest("[data-again]")) location.reload();
  else if (target.closest("[data-copy-link]")) copyLink();
  else if (target.closest("[data-copy]")) { const b = target.closest("[data-copy]"); copy(b.dataset.copy, b); }
  else { rowClick(event); ribbonClick(event); }
});
// Before htmx sees the click: a field that is there is focused, and the link not followed.
doc.addEventListener("click", (event) => {
  const link = event.target instanceof Element && event.target.closest("[data-focus]");
  if (!link) return;
  if (focusField(link.dataset.focus)) { event.preventDefault(); event.stopPropagation(); }
  else focusNext = link.dataset.focus;
}, true);
doc.addEventListener("pointerover", (event) => {
  const time = event.target instanceof Element && event.target.closest("time[datetime]");
  if (time && !time.dataset.local) {
    time.dataset.local = "1";
    time.title = `${time.title} · local ${new Date(time.dateTime).toLocaleString()}`;
  }
});
doc.addEventListener("htmx:after:swap", setUp);
// What the page was told and could not fetch, it fetches again: nothing more may come.
for (const name of ["htmx:error", "htmx:response:error"]) {
  doc.addEventListener(name, (event) => {
    const source = event.detail && event.detail.ctx && event.detail.ctx.sourceElement;
    const line = source && { follow: "#live", ahead: "#live", newer: "#list-live" }[source.id];
    if (!line) return;
    setTimeout(() => { const told = one(line); if (told) told.dispatchEvent(new Event(source.id === "newer" ? "moved" : "appended", { bubbles: true })); }, 2000);
  });
}
// Who cannot be told is told so: the page shows what it has.
for (const [name, word] of [["htmx:response:error", "not following: reload"], ["htmx:sse:error", "reconnecting"], ["htmx:sse:after:connection", ""]]) {
  doc.addEventListener(name, (event) => {
    if (!(event.target instanceof Element && event.target.closest("#live"))) return;
    const [box, dot] = [one("[data-live-word]"), one("[data-live-dot]")];
    if (!box || !dot) return;
    box.dataset.word ||= box.textContent;
    box.textContent = word || box.dataset.word;
    dot.classList.toggle("off", Boolean(word));
  });
}
/** A note that is being written belongs to the boundary it was begun at: the page holds still. */
const writing = () => { const box = one(".note-here textarea"); return Boolean(box && (box.value || doc.activeElement === box)); };
doc.addEventListener("focusout", (event) => {
  if (event.target instanceof Element && event.target.closest(".note-here textarea") && !event.target.value) {
    setTimeout(() => { const dot = one("#live"); if (dot && !writing()) dot.dispatchEvent(new Event("appended", { bubbles: true })); });
  }
});
doc.addEventListener("htmx:before:request", (event) => {
  const source = event.detail && event.detail.ctx && event.detail.ctx.sourceElement;
  if (source && source.id === "follow" && writing()) { event.preventDefault(); return; }
  if (!source || !["at", "ahead", "live"].includes(source.id)) wanted = null;
});
setUp();
