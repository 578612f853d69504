// Where a design's time, traffic and power go. Both designs get the same scales.
const MOST_BARS = 12;
const bar = (i, more) => ({ type: "bar", marker: { color: seriesColor(i), pattern: { shape: HATCHES[i % HATCHES.length], fillmode: "overlay", fgcolor: color("paper"), fgopacity: 0.75, size: 6, solidity: 0.3 } }, ...more });
const maximum = (numbers) => Math.max(0, ...numbers.filter(isNumber));
const boundBar = (bound, more) => {
  const all = Object.keys(D.palette.bounds), i = all.includes(bound) ? all.indexOf(bound) : all.length - 1, plain = bar(i, more);
  return { ...plain, marker: { ...plain.marker, color: color(D.palette.bounds[bound] || "gray") } };
};

const slowest = (account) => {
  const rows = account.operators.filter((row) => row.time_s > 0).sort((a, b) => b.time_s - a.time_s);
  if (rows.length <= MOST_BARS) return rows;
  const rest = rows.slice(MOST_BARS - 1);
  return [...rows.slice(0, MOST_BARS - 1), { name: `${rest.length} others`, bound: "several", time_s: rest.reduce((sum, row) => sum + row.time_s, 0) }];
};

// What shares of an operator's time refer to: the pass, or the operators one after the other.
const wholeTime = (account) => (account.pass ? account.pass.pass_s : account.operators.reduce((sum, row) => sum + (row.time_s || 0), 0));
const shareHint = ({ pass }) => (pass && pass.is_side_by_side ? `In percent of the pass of ${seconds(pass.pass_s)}; array and memories work beside the vector unit, so the shares of both add up to more than 100 %.` : "");

function timeFigure(account, both) {
  const rows = slowest(account);
  const all = wholeTime(account);
  const traces = [...new Set(rows.map((row) => row.bound))].map((bound) => {
    const mine = rows.filter((row) => row.bound === bound);
    return boundBar(bound, {
      name: bound, orientation: "h", y: mine.map((row) => row.name), x: mine.map((row) => row.time_s),
      text: mine.map((row) => percent(row.time_s / all, 2)), textposition: "outside", cliponaxis: false, constraintext: "none",
      hovertext: mine.map((row) => `${escapeHtml(row.name)}: ${withPrefix(row.time_s, "s")}, bound by ${bound}${row.energy_joules ? `, ${withPrefix(row.energy_joules, "J")}` : ""}`), hoverinfo: "text",
    });
  });
  const end = maximum(both.flatMap((item) => slowest(item).map((row) => row.time_s)));
  return { traces, barmode: "stack", height: 70 + 24 * Math.max(4, rows.length), showlegend: true, margin: { l: 10, r: 46, t: 34, b: 34 }, dragmode: false,
    xaxis: axis({ range: [0, 1.08 * end], tickformat: secondsTicks(end), ticksuffix: "s", nticks: 6, fixedrange: true }), yaxis: axis({ categoryorder: "array", categoryarray: rows.map((row) => row.name).reverse(), fixedrange: true }) };
}

// Of evaluators in which the sums of both sides race, so that an operator has no time of its own.
const hasSides = (account) => account.operators.some((row) => row.memory_s > 0) && !account.operators.some((row) => row.time_s > 0);
function sidesFigure(account, both) {
  const longer = (row) => Math.max(row.compute_s || 0, row.memory_s || 0);
  const rows = account.operators.filter((row) => longer(row) > 0).sort((a, b) => longer(b) - longer(a)).slice(0, MOST_BARS);
  const sides = [["compute_s", "compute"], ["memory_s", "memory"]];
  const traces = sides.map(([key, name]) => boundBar(name, {
    name, orientation: "h", y: rows.map((row) => row.name), x: rows.map((row) => row[key]), hoverinfo: "text",
    hovertext: rows.map((row) => `${escapeHtml(row.name)}: ${withPrefix(row[key], "s")} of ${name}`),
  }));
  const end = maximum(both.flatMap((item) => item.operators.map(longer)));
  return { traces, barmode: "group", height: 90 + 30 * Math.max(3, rows.length), showlegend: true, dragmode: false, margin: { l: 10, r: 20, t: 34, b: 34 },
    xaxis: axis({ range: [0, 1.05 * end], tickformat: secondsTicks(end), ticksuffix: "s", nticks: 6, fixedrange: true }), yaxis: axis({ autorange: "reversed", fixedrange: true }), legend: { ...layout().legend, traceorder: "normal" } };
}

function powerFigure(account, both) {
  const rows = account.power;
  const kinds = [["tdp_watts", "at TDP"], ["average_watts", "on average"]].filter(([key]) => rows.some((row) => isNumber(row[key])));
  const traces = kinds.map(([key, name], i) => bar(i, { name, orientation: "h", y: rows.map((row) => row.title), x: rows.map((row) => row[key]), text: rows.map((row) => withPrefix(row[key], "W", 3)), textposition: "outside", cliponaxis: false, constraintext: "none", hoverinfo: "text", hovertext: rows.map((row) => `${escapeHtml(row.title)}: ${withPrefix(row[key], "W", 3)} ${name}`) }));
  const end = maximum(both.flatMap((item) => item.power.flatMap((row) => [row.tdp_watts, row.average_watts])));
  return { traces, barmode: "group", height: 80 + 42 * rows.length, showlegend: true, dragmode: false, margin: { l: 10, r: 60, t: 34, b: 34 },
    xaxis: axis({ range: [0, 1.05 * end], tickformat: "~s", ticksuffix: "W", fixedrange: true }), yaxis: axis({ autorange: "reversed", fixedrange: true }), legend: { ...layout().legend, traceorder: "normal" } };
}

function trafficRows(account) {
  if (account.levels.some((level) => isNumber(level.read_bytes))) {
    return account.levels.map((level) => ({ name: level.title, parts: [["read", level.read_bytes], ["written", level.written_bytes]] }));
  }
  const sums = {};
  for (const row of account.operators) for (const [level, moved] of Object.entries(row.traffic_bytes || {})) sums[level] = (sums[level] || 0) + moved;
  return Object.entries(sums).map(([name, moved]) => ({ name, parts: [["moved", moved]] }));
}
function trafficFigure(account, both) {
  const rows = trafficRows(account);
  const names = [...new Set(rows.flatMap((row) => row.parts.map(([name]) => name)))];
  const traces = names.map((name, i) => {
    const moved = rows.map((row) => (row.parts.find(([part]) => part === name) || [])[1]);
    return bar(i + 2, { name, orientation: "h", y: rows.map((row) => row.name), x: moved.map((x) => (x > 0 ? x : null)), text: moved.map((x) => withPrefix(x, "B", 3)), textposition: "outside", cliponaxis: false, constraintext: "none", hoverinfo: "text", hovertext: rows.map((row, k) => `${escapeHtml(row.name)}: ${withPrefix(moved[k], "B", 3)} ${name}`) });
  });
  const values = both.flatMap((item) => trafficRows(item).flatMap((row) => row.parts.map(([, moved]) => moved))).filter((moved) => moved > 0);
  if (!values.length) return empty("No traffic is told");
  const ends = [Math.log10(Math.min(...values)) - 0.6, Math.log10(Math.max(...values)) + 0.7];
  return { traces, barmode: "group", height: 80 + 42 * rows.length, showlegend: true, dragmode: false, margin: { l: 10, r: 40, t: 34, b: 34 },
    xaxis: axis({ type: "log", range: ends, tickformat: "~s", ticksuffix: "B", dtick: 1, fixedrange: true }), yaxis: axis({ autorange: "reversed", fixedrange: true }) };
}

function swingFigure(id, account, name) {
  const rows = account.swings[name], metric = metricOf[name], typical = value(id, name);
  const parts = [["low", "at the low end of its range"], ["high", "at the high end of its range"]];
  const traces = parts.map(([key, text], i) => bar(i, { name: text, orientation: "h", base: typical, y: rows.map((row) => row.name), x: rows.map((row) => row[key] - typical), hovertext: rows.map((row) => `${escapeHtml(row.name)} ${text}: ${metricText(row[key], metric)}`), hoverinfo: "text" }));
  return { traces, barmode: "overlay", height: 100 + 26 * rows.length, dragmode: false, showlegend: true, margin: { l: 10, r: 20, t: 34, b: 44 },
    xaxis: metricAxis(name, "x", { fixedrange: true, nticks: 6 }), yaxis: axis({ autorange: "reversed", fixedrange: true }) };
}
