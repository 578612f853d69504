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

// The designs that were searched, drawn where the front comes from them, else with the optimizers.
function searchedTraces(pair, order) {
  const d = D.designs, dominated = spread(range(d.n_front, d.n_feasible)), of = d.of_dominated;
  const few = dominated.length < of ? `, ${dominated.length.toLocaleString("en-US")} of ${of.toLocaleString("en-US")} drawn` : "";
  return [
    points(spread(range(d.n_feasible, d.n)), pair, { ...order("over a limit"), visible: d.n_feasible ? "legendonly" : true, marker: { symbol: "x-thin-open", size: 5, color: color("dim"), opacity: 0.6 } }),
    points(dominated, pair, { ...order(`dominated${few}`), marker: { size: 5, color: color("dim"), opacity: 0.45 } }),
  ];
}
const frontLine = ([x]) => ({ shape: x !== null && metricOf[x].sense === "minimize" ? "hv" : "vh", color: color("ink"), width: 1.3 });
const recommendedMark = (picks) => ({ symbol: "circle-open", size: 15, color: picks.map((pick) => color(D.palette.picks[pick.key] || "blue")), opacity: 1, line: { width: 2.5 } });
function frontTrace(pair, order, more = {}) {
  const front = range(0, D.designs.n_front);
  if (pair[0] !== null) front.sort((a, b) => value(a, pair[0]) - value(b, pair[0]));
  return points(front, pair, { ...order("front"), mode: D.objectives.length === 2 ? "lines+markers" : "markers", line: frontLine(pair), marker: { size: front.map((id) => (isFolded(id) ? 4 : 9)), color: color("ink"), opacity: front.map((id) => (isFolded(id) ? 0.45 : 1)), line: { width: 1, color: color("paper") } }, ...more });
}
const legendOrder = (number) => (name) => ({ name, legendgroup: name, showlegend: number === 0 });

function frontTraces(pair, number) {
  const d = D.designs, named = range(d.n, total()), order = legendOrder(number);
  const mark = (slot) => points(state[slot] === null ? [] : [state[slot]], pair, { ...order(`design ${slot}`), meta: "mark", marker: { symbol: slot === "A" ? "square-open" : "star-diamond-open", size: 18, color: color("ink"), opacity: 1, line: { width: 2 } } });
  const shown = [
    ...(D.is_exact ? [] : searchedTraces(pair, order)),
    ...(within ? tracesWithin(pair, order) : [frontTrace(pair, order), points(D.picks.map((pick) => pick.id), pair, { ...order("recommended"), marker: recommendedMark(D.picks) })]),
    points(named, pair, { ...order("named design"), marker: { symbol: named.map((id) => (d.named_feasible[id - d.n] ? "diamond" : "diamond-open")), size: 10, color: color("purple"), opacity: 1 } }),
    points([...state.selected], pair, { ...order("selected"), meta: "mark", marker: { symbol: "circle-open", size: isMany() ? 9 : 13, color: color("orange"), opacity: 1, line: { width: isMany() ? 1.2 : 2.5 } } }),
    mark("A"), mark("B"),
  ];
  return shown.filter((trace) => trace.x.length);
}

// What is written beside the points: recommended designs with their values, then A, B, the named.
function frontLabels([x, y], axis) {
  if (x === null) return [];
  const place = (id) => ({ x: value(id, x), y: value(id, y), axis });
  // Where there is little room, the cards have the values.
  const values = (id) => (isNarrow.matches ? "" : `<br>${[y, x].map((name) => shortText(value(id, name), metricOf[name])).join(", ")}`);
  const slots = ["A", "B"].filter((slot) => state[slot] !== null);
  const placeWithin = ({ key, i }) => ({ x: columnOf(x)[i], y: columnOf(y)[i], axis, text: `<b>${PICK_TITLES[key]}</b>${isNarrow.matches ? "" : `<br>${[y, x].map((name) => shortText(columnOf(name)[i], metricOf[name])).join(", ")}`}` });
  return [
    ...(within ? within.picks.map(placeWithin) : D.picks.map((pick) => ({ ...place(pick.id), text: `<b>${PICK_TITLES[pick.key]}</b>${values(pick.id)}` }))),
    ...slots.map((slot) => ({ ...place(state[slot]), text: `<b>${slot}</b>`, size: 15 })),
    ...range(D.designs.n, total()).map((id) => ({ ...place(id), text: escapeHtml(nameOf(id)) })),
  ];
}

// Limits on what a panel shows, as lines with their words.
function limitShapes([x, y], axis, ranges) {
  const shapes = [], labels = [];
  const own = Object.keys(state.bounds).filter(isTighter).map((metric) => ({ metric, bound: boundOf(metric), words: `${metricOf[metric].title} ${signOf(metric) > 0 ? "at most" : "at least"} ${metricText(boundOf(metric), metricOf[metric])}` }));
  for (const { metric, bound, words } of [...D.limits.filter((limit) => !own.some((other) => other.metric === limit.metric)), ...own]) {
    const where = metric === x ? "x" : metric === y ? "y" : null, [low, high] = (where && ranges[where]) || [];
    if (where === null || !(bound >= low && bound <= high)) continue;
    const [along, across] = where === "x" ? ["x", "y"] : ["y", "x"];
    shapes.push({ type: "line", [`${along}ref`]: `${along}${axis}`, [`${across}ref`]: `${across}${axis} domain`, [`${along}0`]: bound, [`${along}1`]: bound, [`${across}0`]: 0, [`${across}1`]: 1, line: { color: color("quiet"), width: 1.5, dash: "dash" } });
    labels.push({ [along]: bound, [across]: ranges[across][0] + 0.04 * (ranges[across][1] - ranges[across][0]), axis, text: escapeHtml(words), color: color("quiet"), isLine: true });
  }
  return { shapes, labels };
}

// The first look is at the front and the named designs, and at a limit that is near; a few
// dominated ones far away may not squeeze it into a corner. A double click shows all.
const ROOM = 0.6;
function look(name) {
  const d = D.designs;
  const numbers = (ids) => ids.map((id) => value(id, name)).filter(isNumber);
  const close = numbers([...range(0, d.n_front), ...range(d.n, total())]), all = numbers([...range(0, d.n_feasible), ...range(d.n, total())]);
  if (close.length < 2 || d.n_front < 2) return {};
  let [low, high] = extent(close);
  const isLog = extent(all)[0] > 0 && Boolean(state.log);
  const near = D.limits.filter((limit) => limit.metric === name && limit.bound >= low - 0.8 * (high - low) && limit.bound <= high + 0.8 * (high - low));
  for (const { bound } of near) [low, high] = extent([low, high, bound]);
  const to = isLog ? Math.log10 : (x) => x;
  const span = to(high) - to(low);
  if (span === 0) return {};
  const [least, most] = extent([...all, ...near.map((limit) => limit.bound)]).map(to);
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
  const axes = {}, traces = [], labels = [], shapes = [];
  pairs.forEach((pair, p) => {
    const at = p ? p + 1 : "", column = p % columns, line = Math.floor(p / columns);
    const [gapX, gapY] = [0.075, lines > 1 ? 0.28 / lines : 0];
    const w = (1 - gapX * (columns - 1)) / columns, h = (1 - gapY * (lines - 1)) / lines;
    const x = { anchor: `y${at}`, domain: [column * (w + gapX), column * (w + gapX) + w] };
    const top = 1 - line * (h + gapY);
    const y = { anchor: `x${at}`, domain: [Math.max(0, top - h), top] };
    axes[`xaxis${at}`] = pair[0] === null ? axis({ title: { text: "Evaluated designs" }, ...x }) : metricAxis(pair[0], "x", { ...x, ...look(pair[0]) });
    axes[`yaxis${at}`] = metricAxis(pair[1], "y", { ...y, ...(pair[0] === null ? {} : look(pair[1])) });
    const ranges = Object.fromEntries(["x", "y"].map((way) => [way, axes[`${way}axis${at}`].range]));
    if (ranges.x && ranges.y && !state.log) {
      const limits = limitShapes(pair, at, ranges);
      shapes.push(...limits.shapes);
      labels.push(...limits.labels);
    }
    labels.push(...frontLabels(pair, at));
    for (const trace of frontTraces(pair, p)) traces.push({ ...trace, xaxis: `x${at}`, yaxis: `y${at}` });
  });
  const one = width < 720 ? 340 : 440;
  return { traces, labels, shapes, ...axes, height: lines * one + (width < 720 ? 130 : 60), dragmode: isTouch ? false : "select", selections: [], margin: { l: 60, r: 16, t: width < 720 ? 124 : 50, b: 50 } };
}

// Of a chart that is drawn only when it comes in sight.
function pickLater(div) {
  const timer = setInterval(() => { if (div.on) { clearInterval(timer); pickFrom(div); } }, 300);
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
  draw(div, frontFigure, `${D.is_exact ? "Exact front" : "Designs"}: ${panels().map(([x, y]) => `${titleOf(y)} against ${x === null ? "evaluations" : titleOf(x)}`).join("; ")}. ${D.designs.n_front.toLocaleString("en-US")} on the front. The table has the same designs.`, true);
  $("panel-keys").hidden = panels().length < 2;
  pickFrom(div);
  listen(() => drawings.get(div)());
  const count = () => { $("selected-count").textContent = state.selected.size ? `${state.selected.size.toLocaleString("en-US")} selected.` : ""; };
  listen(count);
  count();
  $("clear").addEventListener("click", () => select([]));
  $("log").checked = Boolean(state.log);
  $("log").addEventListener("change", () => { state.log = $("log").checked; remember(); drawings.get(div)(); });
  document.querySelectorAll('input[name="next"]').forEach((input) =>
    input.addEventListener("change", () => { state.next = input.value; }));
}
