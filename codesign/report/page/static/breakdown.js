// Where a design's time, traffic and power go. Both designs get the same scales.
const BOUNDS = ["compute", "off-chip", "on-chip port", "vector", "memory", "links"];
const MOST_BARS = 12;
const bar = (i, more) => ({ type: "bar", marker: { color: seriesColor(i), pattern: { shape: HATCHES[i % HATCHES.length], fillmode: "overlay", fgcolor: color("paper"), fgopacity: 0.75, size: 6, solidity: 0.3 } }, ...more });
const maximum = (numbers) => Math.max(0, ...numbers.filter(isNumber));
const boundNumber = (bound) => (BOUNDS.includes(bound) ? BOUNDS.indexOf(bound) : BOUNDS.length);

const slowest = (account) => {
  const rows = account.operators.filter((row) => row.time_s > 0).sort((a, b) => b.time_s - a.time_s);
  if (rows.length <= MOST_BARS) return rows;
  const rest = rows.slice(MOST_BARS - 1);
  return [...rows.slice(0, MOST_BARS - 1), { name: `${rest.length} others`, bound: "several", time_s: rest.reduce((sum, row) => sum + row.time_s, 0) }];
};

function timeFigure(account, both) {
  const rows = slowest(account);
  const all = account.operators.reduce((sum, row) => sum + (row.time_s || 0), 0);
  const traces = [...new Set(rows.map((row) => row.bound))].map((bound) => {
    const mine = rows.filter((row) => row.bound === bound);
    return bar(boundNumber(bound), {
      name: bound, orientation: "h", y: mine.map((row) => row.name), x: mine.map((row) => row.time_s),
      text: mine.map((row) => `${plainNumber(100 * row.time_s / all, 3)} %`), textposition: "outside", cliponaxis: false, constraintext: "none",
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
  const traces = sides.map(([key, name]) => bar(boundNumber(name), {
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
  const traces = kinds.map(([key, name], i) => bar(i, { name, orientation: "h", y: rows.map((row) => row.name.replace(/^tier(\d)/, "tier $1")), x: rows.map((row) => row[key]), text: rows.map((row) => withPrefix(row[key], "W", 3)), textposition: "outside", cliponaxis: false, constraintext: "none", hoverinfo: "text", hovertext: rows.map((row) => `${escapeHtml(row.name.replace(/^tier(\d)/, "tier $1"))}: ${withPrefix(row[key], "W", 3)} ${name}`) }));
  const end = maximum(both.flatMap((item) => item.power.flatMap((row) => [row.tdp_watts, row.average_watts])));
  return { traces, barmode: "group", height: 80 + 42 * rows.length, showlegend: true, dragmode: false, margin: { l: 10, r: 60, t: 34, b: 34 },
    xaxis: axis({ range: [0, 1.05 * end], tickformat: "~s", ticksuffix: "W", fixedrange: true }), yaxis: axis({ autorange: "reversed", fixedrange: true }), legend: { ...layout().legend, traceorder: "normal" } };
}

function trafficRows(account) {
  if (account.levels.some((level) => isNumber(level.read_bytes))) {
    return account.levels.map((level) => ({ name: levelName(level), parts: [["read", level.read_bytes], ["written", level.written_bytes]] }));
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

function rooflineEnds(both) {
  const all = both.map((item) => item.roofline).filter(Boolean);
  const x = all.flatMap((item) => [...item.points.map((p) => p.flop_per_byte), ...item.ceilings.map((c) => item.peak_flop_per_s / c.bytes_per_s)]);
  const y = all.flatMap((item) => [...item.points.map((p) => p.flop_per_s), item.peak_flop_per_s]);
  return [x, y].map((values) => [Math.min(...values) / 2.5, Math.max(...values) * 3]);
}
function rooflineFigure(account, both) {
  const roof = account.roofline;
  const [[x0, x1], [y0, y1]] = rooflineEnds(both);
  const number = (level) => account.levels.findIndex((item) => item.name === level);
  const nameOfLevel = (level) => (number(level) >= 0 ? levelName(account.levels[number(level)]) : level);
  const whole = account.operators.reduce((sum, row) => sum + (row.time_s || 0), 0);
  const traces = [];
  for (const ceiling of roof.ceilings) {
    const i = Math.max(0, number(ceiling.level)), ridge = roof.peak_flop_per_s / ceiling.bytes_per_s;
    traces.push({ name: `${nameOfLevel(ceiling.level)} ${withPrefix(ceiling.bytes_per_s, "B/s", 3)}`, legendgroup: ceiling.level, x: [x0, ridge], y: [x0 * ceiling.bytes_per_s, roof.peak_flop_per_s], mode: "lines", hoverinfo: "name", line: { color: levelColor(i), dash: DASHES[i % DASHES.length], width: 1.6 } });
  }
  traces.push({ name: `peak ${withPrefix(roof.peak_flop_per_s, "FLOP/s", 3)}`, x: [x0, x1], y: [roof.peak_flop_per_s, roof.peak_flop_per_s], mode: "lines", hoverinfo: "name", line: { color: color("ink"), width: 1.6 } });
  for (const level of new Set(roof.points.map((point) => point.level))) {
    const mine = roof.points.filter((point) => point.level === level), i = Math.max(0, number(level));
    traces.push({
      name: `per byte at ${nameOfLevel(level)}`, legendgroup: level, showlegend: false, x: mine.map((p) => p.flop_per_byte), y: mine.map((p) => p.flop_per_s), mode: "markers",
      marker: { color: levelColor(i), symbol: MARKS[i % MARKS.length], size: mine.map((p) => 7 + 16 * Math.sqrt(p.time_s / whole)), opacity: 0.85, line: { width: 1, color: color("paper") } },
      text: mine.map((p) => `<b>${escapeHtml(p.operator)}</b>, ${plainNumber(100 * p.time_s / whole, 3)} % of the time<br>${plainNumber(p.flop_per_byte, 3)} FLOP/B at ${nameOfLevel(level)}, ${withPrefix(p.flop_per_s, "FLOP/s", 3)}`), hovertemplate: "%{text}<extra></extra>",
    });
  }
  const log = (ends) => ends.map((end) => Math.log10(end));
  return { traces, height: 360, margin: { l: 56, r: 12, t: 62, b: 46 }, showlegend: true,
    xaxis: axis({ type: "log", range: log([x0, x1]), dtick: 1, exponentformat: "power", title: { text: "Work per byte that crosses the level (FLOP/B)" } }),
    yaxis: axis({ type: "log", range: log([y0, y1]), dtick: 1, tickformat: "~s", title: { text: "FLOP/s" } }) };
}

function swingFigure(id, account, name) {
  const rows = account.swings[name], metric = metricOf[name], typical = value(id, name);
  const parts = [["low", "at the low end of its range"], ["high", "at the high end of its range"]];
  const traces = parts.map(([key, text], i) => bar(i, { name: text, orientation: "h", base: typical, y: rows.map((row) => row.name), x: rows.map((row) => row[key] - typical), hovertext: rows.map((row) => `${escapeHtml(row.name)} ${text}: ${metricText(row[key], metric)}`), hoverinfo: "text" }));
  return { traces, barmode: "overlay", height: 100 + 26 * rows.length, dragmode: false, showlegend: true, margin: { l: 10, r: 20, t: 34, b: 44 },
    xaxis: metricAxis(name, "x", { fixedrange: true, nticks: 6 }), yaxis: axis({ autorange: "reversed", fixedrange: true }) };
}
