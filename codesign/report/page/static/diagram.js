// A memory hierarchy around its die: along the edge everything is to scale.
const levelColor = (name) => color(D.palette.parts[name] || "orange");

function levelText(level) {
  const parts = [level.technology, withPrefix(level.capacity_bytes, "B", 3), withPrefix(level.bandwidth_bytes_per_s, "B/s", 3)];
  if (level.shoreline_mm) parts.push(`${plainNumber(level.shoreline_mm, 3)} mm of edge`);
  if (level.uncharged_shoreline_mm) parts.push(`${plainNumber(level.uncharged_shoreline_mm, 3)} mm of edge, not charged`);
  if (isNumber(level.utilization)) parts.push(`port busy ${plainNumber(100 * level.utilization, 2)} %`);
  const held = Object.entries(level.holds_share || {}).filter(([, share]) => share > 0);
  if (held.length) parts.push(`holds ${held.map(([what, share]) => `${percent(share, 3)} of ${what}`).join(", ")}`);
  return parts.filter((part) => part && part !== "–").join(" · ");
}

// Where every block goes: x in mm along the edge, y in units of no meaning.
function blocks(account) {
  const edge = account.edge_mm, found = [];
  const isOnChip = (level) => level.name === "on_chip";
  const outside = account.levels.map((level, i) => ({ level, i })).filter(({ level }) => !isOnChip(level));
  const counted = outside.filter(({ level }) => level.shoreline_mm > 0);
  const free = outside.filter(({ level }) => !(level.shoreline_mm > 0));
  const total = (levels, key) => levels.reduce((sum, { level }) => sum + (level[key] || 0), 0);
  const used = total(counted, "shoreline_mm");
  const length = Math.max(edge || 0, used, total(free, "uncharged_shoreline_mm")) || 60;
  let x = 0;
  for (const { level, i } of counted) {
    const n = level.count, each = level.shoreline_mm / n;
    for (let k = 0; k < n; k += 1) found.push({ i, x0: x + k * each, x1: x + (k + 1) * each, y0: 0.06, y1: 1, label: k === 0 ? { text: level.title, at: x + level.shoreline_mm / 2 } : null });
    x += level.shoreline_mm;
  }
  // What takes none of that edge stands along the far side of the die, drawn broken; of any length
  // where the evaluator tells none.
  const share = length / Math.max(4, free.reduce((sum, { level }) => sum + level.count, 0));
  let at = 0;
  for (const { level, i } of free) {
    const n = level.count, each = level.uncharged_shoreline_mm / n || share;
    for (let k = 0; k < n; k += 1) found.push({ i, x0: at + (k + 0.06) * each, x1: at + (k + 0.94) * each, y0: -2.5, y1: -1.75, free: true, label: k === 0 ? { text: level.title, at: at + (n * each) / 2 } : null });
    at += n * each;
  }
  const chip = account.levels.findIndex(isOnChip);
  if (chip >= 0) found.push({ i: chip, x0: 0.55 * length, x1: 0.97 * length, y0: -1.5, y1: -0.22, label: { text: `on chip: ${withPrefix(account.levels[chip].capacity_bytes, "B", 3)}`, at: 0.76 * length } });
  return { found, length, used, edge, hasFree: free.length > 0 };
}

function diagramFigure(id, account, length, pool = "") {
  const plan = blocks(account);
  const span = Math.max(length || 0, plan.length);
  const ink = color("ink");
  const rect = (x0, x1, y0, y1, more) => ({ type: "rect", x0, x1, y0, y1, line: { color: ink, width: 1 }, ...more });
  const die = rect(0, plan.length, -1.65, 0, { fillcolor: color("raised"), line: { color: ink, width: 1.5 } });
  const compute = rect(0.03 * plan.length, 0.5 * plan.length, -1.5, -0.22, { fillcolor: color("blue"), opacity: 0.3 });
  const shapes = [die, compute, ...plan.found.map((b) => rect(b.x0, b.x1, b.y0, b.y1, { fillcolor: levelColor(account.levels[b.i].name), opacity: 0.55, line: { color: ink, width: 1, dash: b.free ? "dot" : "solid" } }))];
  const say = (x, y, text, more) => ({ x, y, text, showarrow: false, font: { size: 11, color: ink }, ...more });
  const word = (name) => { const p = D.designs.parameters.find((item) => item.name === pool + name); return p ? setting(p, id) : ""; };
  const array = [word("pe_array"), word("vector_length") && `VLEN ${word("vector_length")}`].filter(Boolean).join("<br>") || "compute";
  const annotations = plan.found.filter((b) => b.label).map((b) => say(b.label.at, (b.y0 + b.y1) / 2, escapeHtml(b.label.text), { bgcolor: color("paper"), opacity: 0.9, borderpad: 1 }));
  annotations.push(say(0.265 * plan.length, -0.86, escapeHtml(array).replace("&lt;br&gt;", "<br>")));
  if (plan.edge) {
    shapes.push({ type: "line", x0: 0, x1: plan.edge, y0: 1.22, y1: 1.22, line: { color: ink, width: 1 } });
    for (let mm = 0; mm <= plan.edge + 1e-9; mm += 10) {
      shapes.push({ type: "line", x0: mm, x1: mm, y0: 1.16, y1: 1.28, line: { color: ink, width: 1 } });
      annotations.push(say(mm, 1.42, String(mm), { font: { size: 10, color: color("quiet") } }));
    }
    if (!pool) annotations.push(say(0, 1.78, `Edge for memory: ${account.edge_words}`, { xanchor: "left" }));
  }
  if (plan.hasFree && plan.edge) annotations.push(say(0, -2.72, "dotted: not charged to that edge", { xanchor: "left", font: { size: 10, color: color("quiet") } }));
  const middle = plan.found.map((b) => [(b.x0 + b.x1) / 2, (b.y0 + b.y1) / 2, b.i]);
  const traces = [{
    x: middle.map((m) => m[0]), y: middle.map((m) => m[1]), mode: "markers", marker: { size: 30, opacity: 0 }, showlegend: false,
    text: middle.map((m) => wrapped(`${account.levels[m[2]].title}: ${levelText(account.levels[m[2]])}`)), hovertemplate: "%{text}<extra></extra>",
  }];
  const low = plan.hasFree ? -2.95 : -1.8;
  return {
    traces, shapes, annotations, height: plan.hasFree === Boolean(plan.edge) ? (plan.edge ? 270 : 130) : 210, dragmode: false, margin: { l: 8, r: 8, t: 6, b: 4 },
    xaxis: axis({ visible: false, range: [-0.01 * span, 1.01 * span], fixedrange: true }), yaxis: axis({ visible: false, range: [low, plan.edge ? 2.05 : plan.used ? 1.15 : 0.1], fixedrange: true }),
  };
}

const levelsHtml = (account) => `<ul class="levels">${account.levels.map((level) => `<li><span class="swatch" style="background:${levelColor(level.name)}"></span><span><b>${escapeHtml(level.title)}</b> ${escapeHtml(levelText(level))}</span></li>`).join("")}</ul>`;
