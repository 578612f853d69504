// Parallel coordinates: objectives and the choices that differ on the front.
const MOST_LINES = 400, MOST_AXES = 14, MOST_TICKS = 9;

function lineAxes(ids) {
  const objectives = D.objectives.map((name) => {
    const all = ids.map((id) => value(id, name));
    const low = Math.min(...all), high = Math.max(...all), metric = metricOf[name];
    const at = (v) => (high > low ? (v - low) / (high - low) : 0.5);
    const better = metric.sense === "maximize" ? "↑" : "↓";
    const ticks = [0, 0.25, 0.5, 0.75, 1].map((t) => [t, metricText(low + t * (high - low), metric)]);
    return { title: `${metric.title} ${better}`, ticks: high > low ? ticks : [[0.5, metricText(low, metric)]], at: (id) => at(value(id, name)) };
  });
  const choices = D.designs.parameters.filter((p) => new Set(ids.map((id) => p.codes[id])).size > 1).map((p) => {
    const used = [...new Set(ids.map((id) => p.codes[id]))].sort((a, b) => a - b);
    const place = new Map(used.map((code, i) => [code, i / (used.length - 1)]));
    const step = Math.ceil(used.length / MOST_TICKS);
    const ticks = used.filter((_, i) => i % step === 0).map((code) => [place.get(code), p.values[code] || "–"]);
    return { title: p.title, ticks, at: (id) => place.get(p.codes[id]) ?? null };
  });
  return [...objectives, ...choices].slice(0, MOST_AXES);
}

function lineTrace(ids, axes, more) {
  const x = [], y = [], customdata = [], text = [];
  for (const id of ids) {
    axes.forEach((item, i) => { x.push(i); y.push(item.at(id)); customdata.push(id); text.push(hovers[id]); });
    x.push(null); y.push(null); customdata.push(null); text.push("");
  }
  return { x, y, customdata, text, hovertemplate: "%{text}<extra></extra>", mode: "lines+markers", connectgaps: false, unselected: { marker: { opacity: 0.8 } }, ...more };
}

function linesFigure() {
  const all = kept(), n = D.designs.n_front, step = Math.ceil(all.length / MOST_LINES);
  const front = all.filter((_, i) => i % step === 0);
  if (front.length < 2) return empty("The front has fewer than two designs");
  const axes = lineAxes(range(0, n));
  const style = (name, width, opacity, mark) => ({ name, opacity, line: { width, color: color(name) }, marker: { size: mark, color: color(name) } });
  const inside = (ids) => ids.filter((id) => id !== null && axes.every((item) => item.at(id) !== null));
  const chosen = [...state.selected];
  const traces = [
    lineTrace(front, axes, { ...style("ink", 1, chosen.length ? 0.25 : 0.5, 5), name: "front" }),
    lineTrace(inside(chosen).slice(0, MOST_LINES), axes, { ...(isMany() ? style("orange", 1, 0.45, 4) : style("orange", 2, 0.9, 6)), name: "selected", meta: "mark" }),
    ...["A", "B"].map((slot) => lineTrace(inside([state[slot]]), axes, { ...style("ink", 3, 1, 8), name: `design ${slot}`, meta: "mark", line: { width: 3, color: color("ink"), dash: slot === "A" ? "solid" : "dash" }, marker: { size: 9, color: color("ink"), symbol: slot === "A" ? "square" : "star-diamond" } })),
  ].filter((trace) => trace.x.length);
  const labels = axes.flatMap((item, i) => [
    { x: i, y: 1.06, text: `<b>${escapeHtml(item.title).replace(/ (?=\S{4})/g, "<br>")}</b>`, showarrow: false, yanchor: "bottom", font: { size: 11 } },
    ...item.ticks.map(([y, text]) => ({ x: i, y, text: escapeHtml(text), showarrow: false, xanchor: "left", xshift: 7, font: { size: 10.5, color: color("ink") }, bgcolor: color("paper"), opacity: 0.82 })),
  ]);
  const room = $("lines-chart").parentElement.clientWidth, width = Math.max(room, 110 * axes.length);
  // Paper does not scroll.
  $("lines-chart").style.zoom = document.documentElement.classList.contains("printing") ? room / width : 1;
  const shapes = axes.map((_, i) => ({ type: "line", x0: i, x1: i, y0: 0, y1: 1, line: { color: color("rule"), width: 1 }, layer: "below" }));
  return {
    traces, shapes, annotations: labels, width, height: 380, dragmode: isTouch ? false : "select", selections: [], showlegend: true,
    xaxis: axis({ visible: false, range: [-0.1, axes.length - 0.25], fixedrange: true }), yaxis: axis({ visible: false, range: [-0.06, 1.28], fixedrange: true }),
    margin: { l: 44, r: 50, t: 34, b: 10 },
  };
}

function startLines() {
  const div = $("lines-chart");
  draw(div, linesFigure, "Parallel coordinates: one line per design of the front, from its objectives through the choices that differ");
  if (D.designs.n_front > 1) pickLater(div);
  listen(() => drawings.get(div)());
}
