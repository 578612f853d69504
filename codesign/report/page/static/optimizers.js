// The optimizers: hypervolume against evaluations, regret, ranks.
function band(curve, i, [low, high]) {
  const back = [...curve.evaluations].reverse();
  return { x: [...curve.evaluations, ...back], y: [...high, ...[...low].reverse()], fill: "toself", fillcolor: seriesColor(i), opacity: 0.16, line: { width: 0 }, mode: "lines", hoverinfo: "skip", showlegend: false, legendgroup: D.optimizers.names[i] };
}
function curveLine(curve, i, y, texts) {
  const name = `${D.optimizers.names[i]} (${curve.n_runs} seed${curve.n_runs === 1 ? "" : "s"})`;
  return { x: curve.evaluations, y, name, legendgroup: D.optimizers.names[i], mode: "lines", line: { color: seriesColor(i), dash: DASHES[i % DASHES.length], width: 2 }, text: texts.map((text, k) => `${text} after ${curve.evaluations[k].toLocaleString("en-US")}`), hovertemplate: "%{text}<extra>%{fullData.name}</extra>" };
}

function hypervolumeFigure() {
  const o = D.optimizers, traces = [];
  o.curves.forEach((curve, i) => {
    if (!curve.evaluations.length) return;
    if (curve.n_runs > 1) traces.push(band(curve, i, [curve.low, curve.high]));
    traces.push(curveLine(curve, i, curve.mean, curve.mean.map((mean) => plainNumber(mean))));
  });
  if (!traces.length) return empty("No design has been evaluated yet");
  const last = Math.max(...o.curves.map((curve) => curve.evaluations.at(-1) || 0));
  if (o.exact) traces.push({ x: [0, last], y: [o.exact, o.exact], name: "exact front", mode: "lines", line: { color: color("black"), dash: "dot", width: 1.4 }, hoverinfo: "name" });
  const shapes = o.initial < last ? [{ type: "rect", x0: 0, x1: o.initial, yref: "paper", y0: 0, y1: 1, fillcolor: color("raised"), line: { width: 0 }, layer: "below" }] : [];
  const annotations = shapes.length ? [{ x: o.initial, y: 0.02, yref: "paper", text: "← initial sample", showarrow: false, xanchor: "left", yanchor: "bottom", font: { size: 10, color: color("quiet") } }] : [];
  return { traces, shapes, annotations, height: 380, margin: { l: 60, r: 16, t: 56, b: 44 },
    xaxis: axis({ title: { text: "Evaluated designs" }, range: [0, last] }), yaxis: axis({ title: { text: o.unit ? `Hypervolume (${o.unit})` : "Hypervolume" }, rangemode: "tozero", tickformat: "~s" }) };
}

// Steps of 1, 2 and 5 over a logarithmic axis, or of decades where those would crowd.
const MOST_DECADES = 3;
function logTicks(low, high) {
  const from = Math.floor(Math.log10(low)), to = Math.ceil(Math.log10(high));
  const digits = Math.log10(high / low) > MOST_DECADES ? [1] : [1, 2, 5];
  return range(from, to + 1).flatMap((power) => digits.map((digit) => digit * 10 ** power));
}

function regretFigure() {
  const o = D.optimizers, traces = [];
  const above = (numbers) => numbers.map((r) => (r > 0 ? r : null));
  const seen = o.curves.flatMap((curve) => above(curve.regret)).filter(isNumber);
  if (!seen.length) return empty(o.curves.some((curve) => curve.evaluations.length) ? "Every optimizer found the whole exact front" : "No design has been evaluated yet");
  const [low, high] = extent(seen);
  const floor = low / 2; // a logarithmic axis has no zero; a band that reaches it ends here
  o.curves.forEach((curve, i) => {
    if (!curve.evaluations.length) return;
    if (curve.n_runs > 1) traces.push(band(curve, i, [curve.regret_low, curve.regret_high].map((edge) => edge.map((r) => Math.max(r, floor)))));
    traces.push(curveLine(curve, i, above(curve.regret), curve.regret.map((r) => `${plainNumber(100 * r, 3)} %`)));
  });
  const ends = [floor, Math.max(1, high)], ticks = logTicks(...ends);
  return { traces, height: 380, margin: { l: 60, r: 16, t: 56, b: 44 }, showlegend: true,
    xaxis: axis({ title: { text: "Evaluated designs" }, rangemode: "tozero" }),
    yaxis: axis({ type: "log", range: ends.map(Math.log10), tickvals: ticks, ticktext: ticks.map((tick) => `${plainNumber(100 * tick, 3)} %`) }) };
}

function optimizerTable() {
  const { table, tests, exact } = D.optimizers;
  const columns = [["optimizer", (row) => row.optimizer], ["hypervolume", (row) => plainNumber(row.mean)], ["± std", (row) => plainNumber(row.std, 2)]];
  if (exact) columns.push(["of exact", (row) => `${plainNumber(100 * row.share, 3)} %`]);
  if (tests) columns.push(["mean rank", (row) => plainNumber(tests.ranks[row.optimizer], 3)]);
  columns.push(["seeds", (row) => row.n_runs], ["evaluated", (row) => row.n_evaluated.toLocaleString("en-US")], ["feasible", (row) => row.n_feasible.toLocaleString("en-US")], ["failed", (row) => row.n_failed.toLocaleString("en-US")]);
  $("optimizer-rows").tHead.innerHTML = `<tr>${columns.map(([title], i) => `<th scope="col" class="${i ? "number" : ""}">${title}</th>`).join("")}</tr>`;
  $("optimizer-rows").tBodies[0].innerHTML = table.map((row) => `<tr>${columns.map(([, text], i) => `<td class="${i ? "number" : ""}">${escapeHtml(text(row))}</td>`).join("")}</tr>`).join("");
}

function testsText() {
  const tests = D.optimizers.tests;
  if (!tests) return "";
  const said = [`Ranks over ${tests.n_seeds} seed${tests.n_seeds === 1 ? "" : "s"} at ${tests.evaluations.toLocaleString("en-US")} evaluations each (1 is best).`];
  if (isNumber(tests.friedman_p)) said.push(`Friedman's test that all are alike: p = ${plainNumber(tests.friedman_p, 2)}.`);
  const clear = tests.pairs.filter((pair) => pair.p < 0.05);
  if (tests.pairs.length) {
    said.push(clear.length ? `Wilcoxon's signed ranks, corrected by Holm, tell apart: ${clear.map((pair) => `${pair.a >= 0.5 ? pair.first : pair.second} above ${pair.a >= 0.5 ? pair.second : pair.first} (p = ${plainNumber(pair.p, 2)})`).join(", ")}.` : `Wilcoxon's signed ranks, corrected by Holm, tell no pair apart at p < 0.05${tests.least_p >= 0.05 ? `; with so few seeds they cannot (least p ${plainNumber(tests.least_p, 2)})` : ""}.`);
  } else said.push("One seed is no evidence of which optimizer is better.");
  return said.join(" ");
}

// What the searches evaluated, in the objectives of the first panel, with the exact front.
function searchedFigure() {
  const [x, y] = panels()[0], order = legendOrder(0);
  const ties = new Set(range(D.designs.n_front, D.designs.n_feasible).map(tieOf));
  const found = range(0, D.designs.n_front).filter((id) => !isEnumerated(id) || ties.has(id));
  const traces = [...searchedTraces([x, y], order), frontTrace([x, y], order, { line: { shape: metricOf[x].sense === "minimize" ? "hv" : "vh", color: color("black"), width: 1, dash: "dot" }, marker: { size: 3, color: color("black") } }),
    points(found, [x, y], { ...order("on the exact front, and searched"), marker: { size: 8, color: color("blue") } })].filter((trace) => trace.x.length);
  return { traces, height: 380, margin: { l: 60, r: 16, t: 60, b: 50 }, xaxis: metricAxis(x, "x"), yaxis: metricAxis(y, "y") };
}

function startOptimizers() {
  const o = D.optimizers, best = o.table[0];
  if (!best) { // only enumerated
    for (const part of document.querySelectorAll('#optimizers, nav a[href="#optimizers"]')) part.remove();
    return;
  }
  $("optimizers-summary").textContent = `How the search went: ${o.names.join(", ")}; ${best.optimizer} came farthest${o.exact ? `, to ${percent(best.share)} of the exact hypervolume` : ""}`;
  if (D.is_exact && panels()[0][0] !== null && D.designs.n_front) {
    draw($("searched-chart"), searchedFigure, "Designs that were searched, against the exact front");
    pickLater($("searched-chart"));
  } else $("searched").remove();
  const isKnown = Boolean(D.optimizers.exact);
  if (!isKnown) $("regret").remove(); // the other chart takes its place
  draw($("hypervolume-chart"), hypervolumeFigure, "Hypervolume against evaluated designs by optimizer, mean over seeds; the table below has the last values");
  if (isKnown) draw($("regret-chart"), regretFigure, "Regret against evaluated designs by optimizer, mean over seeds");
  optimizerTable();
  $("tests").textContent = testsText();
}
