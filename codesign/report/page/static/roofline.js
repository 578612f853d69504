// The hierarchical roofline: peak and usable roofs, the vector unit's, and the largest operators named.
function rooflineEnds(both) {
  const all = both.map((item) => item.roofline).filter(Boolean);
  const x = all.flatMap((item) => [...item.points.map((p) => p.flop_per_byte), ...item.ceilings.map((c) => item.peak_flop_per_s / c.bytes_per_s)]);
  const y = all.flatMap((item) => [...item.points.map((p) => p.flop_per_s), item.peak_flop_per_s, ...(item.vector_per_s ? [item.vector_per_s] : [])]);
  return [x, y].map((values) => [Math.min(...values) / 3, Math.max(...values) * 3]);
}
// Operators that take long and have no point: of the vector unit by itself.
function offRoofText(account) {
  const off = account.roofline.off_roof;
  return off.length ? ` Without a point, as they multiply no matrices: ${off.map((row) => `${row.operator} (${plainNumber(100 * row.time_share, 2)} % of the ${account.roofline.shares_of})`).join(", ")}.` : "";
}
function rooflineFigure(account, both) {
  const roof = account.roofline, [[x0, x1], [y0, y1]] = rooflineEnds(both);
  const number = (level) => account.levels.findIndex((item) => item.name === level);
  const nameOfLevel = (level) => (number(level) >= 0 ? account.levels[number(level)].title : level);
  const whole = wholeTime(account);
  const traces = [], usable = roof.usable_flop_per_s || roof.peak_flop_per_s;
  for (const ceiling of roof.ceilings) {
    const i = Math.max(0, number(ceiling.level)), hue = levelColor(ceiling.level);
    const line = (rate, top, more) => traces.push({ legendgroup: ceiling.level, x: [x0, top / rate], y: [x0 * rate, top], mode: "lines", hoverinfo: "name", ...more });
    const own = ceiling.usable_bytes_per_s;
    line(ceiling.bytes_per_s, roof.peak_flop_per_s, { name: `${nameOfLevel(ceiling.level)} ${withPrefix(ceiling.bytes_per_s, "B/s", 3)}`, line: { color: hue, dash: own ? "dash" : "solid", width: 1.6 }, marker: { symbol: MARKS[i] } });
    if (own) line(own, usable, { name: `${nameOfLevel(ceiling.level)} usable ${withPrefix(own, "B/s", 3)}`, showlegend: false, line: { color: hue, width: 2 } });
  }
  const flat = (name, rate, more) => traces.push({ name, x: [x0, x1], y: [rate, rate], mode: "lines", hoverinfo: "name", showlegend: false, line: { color: color("ink"), width: 1.6, ...more } });
  const labels = [];
  const roofName = (rate, text) => labels.push({ x: x0 * 1.15, y: rate, text, color: color("quiet"), size: 11, isLine: true });
  flat("peak", roof.peak_flop_per_s, { dash: usable < roof.peak_flop_per_s ? "dash" : "solid" });
  roofName(roof.peak_flop_per_s, `peak ${withPrefix(roof.peak_flop_per_s, `${roof.unit}/s`, 3)}`);
  if (usable < roof.peak_flop_per_s) { flat("usable", usable, { width: 2 }); roofName(usable, `usable ${withPrefix(usable, `${roof.unit}/s`, 3)}`); }
  if (roof.vector_per_s) { flat("vector unit", roof.vector_per_s, { color: color(D.palette.bounds.vector), dash: "dot" }); roofName(roof.vector_per_s, `vector unit ${withPrefix(roof.vector_per_s, `${roof.unit}/s`, 3)}`); }
  for (const level of new Set(roof.points.map((point) => point.level))) {
    const mine = roof.points.filter((point) => point.level === level), i = Math.max(0, number(level));
    traces.push({
      name: `per byte at ${nameOfLevel(level)}`, legendgroup: level, showlegend: false, x: mine.map((p) => p.flop_per_byte), y: mine.map((p) => p.flop_per_s), mode: "markers",
      marker: { color: levelColor(level), symbol: MARKS[i % MARKS.length], size: mine.map((p) => 7 + 16 * Math.sqrt(p.time_s / whole)), opacity: 0.85, line: { width: 1, color: color("paper") } },
      text: mine.map((p) => `<b>${escapeHtml(p.operator)}</b>, ${plainNumber(100 * p.time_s / whole, 3)} % of the ${account.roofline.shares_of}<br>${plainNumber(p.flop_per_byte, 3)} ${roof.unit}/B at ${nameOfLevel(level)}, ${withPrefix(p.flop_per_s, `${roof.unit}/s`, 3)}`), hovertemplate: "%{text}<extra></extra>",
    });
  }
  // The operators that take longest, named at their point of the farthest level.
  for (const point of roof.named) labels.push({ x: point.flop_per_byte, y: point.flop_per_s, text: escapeHtml(point.operator), size: 11 });
  const log = (ends) => ends.map((end) => Math.log10(end));
  return { traces, labels, height: 380, margin: { l: 56, r: 12, t: 62, b: 46 }, showlegend: true,
    xaxis: axis({ type: "log", range: log([x0, x1]), dtick: 1, tickformat: "~s", title: { text: `Work per byte that crosses the level (${roof.unit}/B)` } }),
    yaxis: axis({ type: "log", range: log([y0, y1]), dtick: 1, tickformat: "~s", title: { text: `${roof.unit}/s` } }) };
}
