// Charts by keyboard: arrows step from point to point; what a hover shows is shown and said.
const HOVER_MS = 80; // Plotly waits 50 ms between two hovers
const cursors = new Map(); // chart -> { key, at }

const textsOf = (trace) => (Array.isArray(trace.hovertext) ? trace.hovertext : Array.isArray(trace.text) ? trace.text : []);
const plainText = (text) => { const box = document.createElement("div"); box.innerHTML = String(text).replaceAll(SOFT_BREAK, " ").replaceAll("<br>", ", "); return box.textContent; };
const panelOf = (trace) => `${trace.xaxis || "x"}${trace.yaxis || "y"}`;
const isDrawn = (v) => v !== null && v !== undefined;

// The series that can be stepped through: where each has its points, in the order of their x; a
// design counts once. Marks around designs (selected, A, B) are no series of their own.
function seriesOf(div) {
  return (div.data || []).map((trace, curve) => {
    const texts = textsOf(trace), ids = trace.customdata || [], seen = new Set();
    if (trace.hoverinfo === "skip" || (trace.visible ?? true) !== true || trace.meta === "mark") return null;
    const points = range(0, texts.length).filter((i) => {
      if (!texts[i] || !isDrawn(trace.x[i]) || !isDrawn(trace.y[i]) || seen.has(ids[i])) return false;
      if (isDrawn(ids[i])) seen.add(ids[i]);
      return true;
    });
    if (trace.orientation !== "h") points.sort((a, b) => trace.x[a] - trace.x[b]);
    // Its number changes when a mark comes or goes, its name and panel do not.
    return { trace, curve, key: `${panelOf(trace)} ${trace.name}`, points, texts, ids };
  }).filter((series) => series && series.points.length);
}

// Where the reader is; at first on the front.
function cursorOf(div, all) {
  const known = cursors.get(div);
  const series = all.find((item) => known && item.key === known.key) || all.find((item) => item.trace.name === "front") || all[0];
  const at = known && known.key === series.key ? Math.min(known.at, series.points.length - 1) : 0;
  return { series, at };
}

function point(div, aloud = true) {
  const all = seriesOf(div);
  if (!all.length) { $("said").textContent = "This chart has no points."; return null; }
  const { series, at } = cursorOf(div, all), i = series.points[at], panel = panelOf(series.trace);
  cursors.set(div, { key: series.key, at });
  Plotly.Fx.hover(div, [{ curveNumber: series.curve, pointNumber: i }], panel);
  const id = Number.isInteger(series.ids[i]) ? series.ids[i] : null;
  const marks = id === null ? "" : ["A", "B"].filter((slot) => state[slot] === id).map((slot) => ` Taken as design ${slot}.`).join("") + (state.selected.has(id) ? " Selected." : "");
  const panels = [...new Set(all.map((item) => panelOf(item.trace)))];
  const where = panels.length > 1 ? `Panel ${panels.indexOf(panel) + 1} of ${panels.length}, ` : "";
  if (aloud) $("said").textContent = `${where}${series.trace.name ? `${series.trace.name} ` : ""}${at + 1} of ${series.points.length}: ${plainText(series.texts[i])}.${marks}`;
  return id;
}

// To another series: the same design if it is there, or else the nearest in x.
function changeSeries(div, pick) {
  const all = seriesOf(div);
  if (!all.length) return;
  const { series, at } = cursorOf(div, all), i = series.points[at];
  const next = pick(all, all.indexOf(series));
  if (!next) return;
  const same = next.points.findIndex((k) => isDrawn(next.ids[k]) && next.ids[k] === series.ids[i]);
  const far = next.points.map((k) => Math.abs(next.trace.x[k] - series.trace.x[i]));
  const near = next.trace.orientation === "h" ? Math.min(at, next.points.length - 1) : far.indexOf(Math.min(...far));
  cursors.set(div, { key: next.key, at: same >= 0 ? same : Math.max(0, near) });
}
function changePanel(all, k, step) {
  const panels = [...new Set(all.map((item) => panelOf(item.trace)))];
  const panel = panels[panels.indexOf(panelOf(all[k].trace)) + step];
  const there = all.filter((item) => panelOf(item.trace) === panel);
  return there.find((item) => item.trace.name === all[k].trace.name) || there[0];
}

function move(div, where) {
  const all = seriesOf(div);
  if (!all.length) return;
  const { series, at } = cursorOf(div, all);
  cursors.set(div, { key: series.key, at: Math.max(0, Math.min(series.points.length - 1, where(at, series.points.length))) });
}

const MOVES = {
  ArrowLeft: (div) => move(div, (at) => at - 1),
  ArrowRight: (div) => move(div, (at) => at + 1),
  Home: (div) => move(div, () => 0),
  End: (div) => move(div, (at, n) => n - 1),
  ArrowUp: (div) => changeSeries(div, (all, k) => all[k - 1]),
  ArrowDown: (div) => changeSeries(div, (all, k) => all[k + 1]),
  PageUp: (div) => changeSeries(div, (all, k) => changePanel(all, k, -1)),
  PageDown: (div) => changeSeries(div, (all, k) => changePanel(all, k, 1)),
};
// What a click, a second click and a box do.
const DEEDS = {
  a: (id) => choose(id, "A"), b: (id) => choose(id, "B"), enter: (id) => choose(id, "A"),
  " ": (id) => { const ids = new Set(state.selected); if (!ids.delete(id)) ids.add(id); select(ids); },
};

function onKey(div, event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const deed = DEEDS[event.key.toLowerCase()];
  if (event.key === "Escape") { div.blur(); return; }
  if (MOVES[event.key]) { MOVES[event.key](div); point(div); }
  else if (deed) {
    const id = point(div, false);
    if (id === null) return;
    deed(id);
    setTimeout(() => { if (document.activeElement === div) point(div); }, HOVER_MS); // drawn anew, and without its hover
  } else return;
  event.preventDefault();
}

// Makes a chart reachable; said is what it shows.
function reachable(div, said) {
  div.setAttribute("aria-label", said);
  if (div.tabIndex === 0) return;
  div.tabIndex = 0;
  div.setAttribute("role", "application");
  div.setAttribute("aria-roledescription", "chart");
  div.setAttribute("aria-describedby", "keys");
  div.addEventListener("keydown", (event) => onKey(div, event));
  div.addEventListener("focus", () => { if (div.matches(":focus-visible")) point(div); });
  div.addEventListener("blur", () => { if (div._fullLayout) Plotly.Fx.unhover(div); });
}
