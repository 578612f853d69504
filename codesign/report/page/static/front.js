// Designs by their objectives, one panel per pair; all panels are one chart.
// As separate shapes, which print and need no graphics driver; so many are still quick.
const MOST_DOTS = 4000;

function panels() {
  const names = D.objectives;
  if (names.length === 1) return [[null, names[0]]];
  const pairs = [];
  for (let i = 0; i < names.length; i += 1) {
    for (let j = i + 1; j < names.length; j += 1) pairs.push([names[j], names[i]]);
  }
  return pairs;
}
const range = (from, to) => Array.from({ length: Math.max(0, to - from) }, (_, i) => from + i);

// At most as many as all panels together can draw, evenly spaced.
function spread(ids) {
  const most = Math.floor(MOST_DOTS / panels().length);
  return ids.length <= most ? ids : range(0, most).map((i) => ids[Math.floor((i * ids.length) / most)]);
}

// Many rings or lines would hide what they mark; then they are drawn finer.
const MANY = 60;
const isMany = () => state.selected.size > MANY;
let hovers = null;
function points(ids, [x, y], more) {
  hovers = hovers || range(0, total()).map(hoverText);
  return {
    x: ids.map((id) => (x === null ? D.designs.evaluation[id] : value(id, x))), y: ids.map((id) => value(id, y)),
    customdata: ids, text: ids.map((id) => hovers[id]), hovertemplate: "%{text}<extra></extra>", mode: "markers",
    unselected: { marker: { opacity: more.marker.opacity ?? 1 }, ...(more.textfont ? { textfont: { color: more.textfont.color } } : {}) }, ...more,
  };
}

function frontTraces(pair, number) {
  const d = D.designs, two = D.objectives.length === 2;
  const dominated = spread(range(d.n_front, d.n_feasible)), of = d.of_dominated;
  const few = dominated.length < of ? `, ${dominated.length.toLocaleString("en-US")} of ${of.toLocaleString("en-US")} drawn` : "";
  const front = range(0, d.n_front), named = range(d.n, total());
  if (pair[0] !== null) front.sort((a, b) => value(a, pair[0]) - value(b, pair[0]));
  const shape = pair[0] !== null && metricOf[pair[0]].sense === "minimize" ? "hv" : "vh";
  const order = (name) => ({ name, legendgroup: name, showlegend: number === 0 });
  const shown = [
    points(spread(range(d.n_feasible, d.n)), pair, { ...order("over a limit"), visible: d.n_feasible ? "legendonly" : true, marker: { symbol: "x-thin-open", size: 5, color: color("dim"), opacity: 0.6 } }),
    points(dominated, pair, { ...order(`dominated${few}`), marker: { size: 5, color: color("dim"), opacity: 0.45 } }),
    exactTrace(pair, two ? shape : null, order("exact front")),
    points(front, pair, { ...order("front"), mode: two ? "lines+markers" : "markers", line: { shape, color: color("blue"), width: 1.3 }, marker: { size: front.map((id) => (isFolded(id) ? 5 : 9)), color: color("blue"), opacity: 1, line: { width: 1, color: color("paper") } } }),
    points(D.knees, pair, { ...order("knee"), mode: "markers+text", textposition: two ? "top left" : "top right", texttemplate: "knee", textfont: { color: color("ink"), size: 12 }, marker: { symbol: "circle-open", size: 16, color: color("green"), opacity: 1, line: { width: 2.5 } } }),
    points(named, pair, { ...order("named design"), mode: "markers+text", textposition: "bottom center", texttemplate: named.map(nameOf), textfont: { color: color("ink"), size: 12 }, marker: { symbol: named.map((id) => (d.named_feasible[id - d.n] ? "diamond" : "diamond-open")), size: 10, color: color("vermilion"), opacity: 1 } }),
    points([...state.selected], pair, { ...order("selected"), meta: "mark", marker: { symbol: "circle-open", size: isMany() ? 9 : 13, color: color("orange"), opacity: 1, line: { width: isMany() ? 1.2 : 2.5 } } }),
    ...["A", "B"].map((slot) => points(state[slot] === null ? [] : [state[slot]], pair, { ...order(`design ${slot}`), meta: "mark", mode: "markers+text", texttemplate: slot, textposition: slot === "A" ? "middle right" : "middle left", textfont: { size: 16, color: color("ink") }, marker: { symbol: slot === "A" ? "square-open" : "star-diamond-open", size: 18, color: color("ink"), opacity: 1, line: { width: 2.5 } } })),
  ];
  return shown.filter((trace) => trace && trace.x.length);
}

function exactTrace([x, y], shape, order) {
  if (D.exact === null || x === null) return null;
  const [xs, ys] = [x, y].map((name) => D.exact[D.objectives.indexOf(name)]);
  const line = xs.map((_, i) => i).sort((a, b) => xs[a] - xs[b]);
  return {
    ...order, x: line.map((i) => xs[i]), y: line.map((i) => ys[i]), hoverinfo: "skip", mode: shape ? "lines" : "markers",
    line: { shape: shape || "linear", dash: "dot", width: 1.6, color: color("black") }, marker: { size: 3, color: color("black"), opacity: 0.6 },
  };
}

// The first look is at the front and the named designs; a few dominated ones far away may not
// squeeze it into a corner. A double click shows all.
const WIDE = 100, ROOM = 0.6;
function look(name) {
  const d = D.designs;
  const numbers = (ids) => ids.map((id) => value(id, name)).filter(isNumber);
  const close = numbers([...range(0, d.n_front), ...range(d.n, total())]), all = numbers([...range(0, d.n_feasible), ...range(d.n, total())]);
  if (D.exact) close.push(...D.exact[D.objectives.indexOf(name)]);
  if (close.length < 2 || d.n_front < 2) return {};
  let [low, high] = extent(close);
  const isLog = extent(all)[0] > 0 && (state.log ?? high / low > WIDE);
  const to = isLog ? Math.log10 : (x) => x;
  const span = to(high) - to(low);
  if (span === 0) return {};
  const [least, most] = extent(all).map(to);
  low = Math.max(to(low) - ROOM * span, least) - 0.06 * span;
  high = Math.min(to(high) + ROOM * span, most) + 0.1 * span;
  return { range: [low, high], uirevision: isLog, ...(isLog ? { type: "log", dtick: 1 } : {}) };
}
const extent = (numbers) => [numbers.reduce((a, b) => Math.min(a, b), Infinity), numbers.reduce((a, b) => Math.max(a, b), -Infinity)];

function frontFigure() {
  const pairs = panels();
  const width = $("front-chart").clientWidth;
  const columns = Math.min(pairs.length, width >= 1150 ? 3 : width >= 720 ? 2 : 1);
  const lines = Math.ceil(pairs.length / columns);
  const axes = {}, traces = [];
  pairs.forEach((pair, p) => {
    const at = p ? p + 1 : "", column = p % columns, line = Math.floor(p / columns);
    const [gapX, gapY] = [0.075, lines > 1 ? 0.28 / lines : 0];
    const w = (1 - gapX * (columns - 1)) / columns, h = (1 - gapY * (lines - 1)) / lines;
    const x = { anchor: `y${at}`, domain: [column * (w + gapX), column * (w + gapX) + w] };
    const top = 1 - line * (h + gapY);
    const y = { anchor: `x${at}`, domain: [Math.max(0, top - h), top] };
    axes[`xaxis${at}`] = pair[0] === null ? axis({ title: { text: "Evaluated designs" }, ...x }) : metricAxis(pair[0], "x", { ...x, ...look(pair[0]) });
    axes[`yaxis${at}`] = metricAxis(pair[1], "y", { ...y, ...(pair[0] === null ? {} : look(pair[1])) });
    for (const trace of frontTraces(pair, p)) traces.push({ ...trace, xaxis: `x${at}`, yaxis: `y${at}` });
  });
  const one = width < 720 ? 340 : 440;
  return { traces, ...axes, height: lines * one + (width < 720 ? 130 : 60), dragmode: isTouch ? false : "select", selections: [], margin: { l: 60, r: 16, t: width < 720 ? 124 : 50, b: 50 } };
}

function pickFrom(div) {
  div.on("plotly_click", (event) => {
    const id = event.points.map((point) => point.customdata).find((item) => Number.isInteger(item));
    if (id !== undefined) choose(id, event.event && event.event.shiftKey ? "B" : state.next);
  });
  div.on("plotly_selected", (event) => {
    if (!event) return;
    select(event.points.map((point) => point.customdata).filter((item) => Number.isInteger(item)));
  });
  div.on("plotly_deselect", () => select([]));
}

function startFront() {
  const div = $("front-chart");
  draw(div, frontFigure, `Designs: ${panels().map(([x, y]) => `${titleOf(y)} against ${x === null ? "evaluations" : titleOf(x)}`).join("; ")}. ${D.designs.n_front.toLocaleString("en-US")} on the front. The table has the same designs.`, true);
  $("panel-keys").hidden = panels().length < 2;
  pickFrom(div);
  listen(() => drawings.get(div)());
  const count = () => { $("selected-count").textContent = state.selected.size ? `${state.selected.size.toLocaleString("en-US")} selected.` : ""; };
  listen(count);
  count();
  $("clear").addEventListener("click", () => select([]));
  $("log").checked = state.log ?? D.objectives.some((name) => look(name).type === "log");
  $("log").addEventListener("change", () => { state.log = $("log").checked; remember(); drawings.get(div)(); });
  document.querySelectorAll('input[name="next"]').forEach((input) =>
    input.addEventListener("change", () => { state.next = input.value; }));
}
