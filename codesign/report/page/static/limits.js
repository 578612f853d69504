// Tighter limits: the exact front as a filter of stored points (docs/exact-fronts.md), with the
// recommended designs and the choices that come of it. Points are in lexicographic order of
// minimized objectives and kept metrics, so of equal ones the first is the least in what is kept.
const STEPS = 120;
let T = null; // the stored points
const signOf = (name) => (metricOf[name].sense === "minimize" ? 1 : -1);
const columnOf = (name) => T.values[name];
const boundOf = (name) => state.bounds[name];
const isTighter = (name) => isNumber(boundOf(name));

// Positions of the front within bounds, as KeptFront.within has them.
function frontWithin(bounds) {
  const limited = Object.keys(bounds).filter((name) => isNumber(bounds[name])).map((name) => [columnOf(name), signOf(name), signOf(name) * bounds[name]]);
  const objectives = D.objectives.map((name) => [columnOf(name), signOf(name)]);
  const front = [];
  for (let i = 0; i < T.n; i += 1) {
    if (!limited.every(([column, sign, bound]) => sign * column[i] <= bound)) continue;
    // In this order only an earlier point is better everywhere, or equal.
    if (!front.some((k) => objectives.every(([column, sign]) => sign * column[k] <= sign * column[i]))) front.push(i);
  }
  return front;
}

// What one chooses from: codesign.pareto.fold, the cheapest first.
function foldedFront(front) {
  const others = D.objectives.filter((name) => name !== D.cost), least = (i, name) => signOf(name) * columnOf(name)[i];
  const walk = [...front].sort((a, b) => [D.cost, ...others].reduce((order, name) => order || least(a, name) - least(b, name), 0));
  const near = (a, b, name) => least(a, name) - least(b, name) <= D.tolerance * Math.min(Math.abs(least(a, name)), Math.abs(least(b, name)));
  const chosen = [];
  for (const i of walk) if (!D.tolerance || !chosen.some((k) => D.objectives.every((name) => near(k, i, name)))) chosen.push(i);
  return chosen;
}

// Knees and the design that stands in for one, by the rules of knees_of and picks_of.
const APART = 0.1, MOST_KNEES = 3;
function middleOf(points, ends) {
  const low = D.objectives.map((name) => Math.min(...points.map((i) => signOf(name) * columnOf(name)[i])));
  const span = D.objectives.map((name, j) => Math.max(...points.map((i) => signOf(name) * columnOf(name)[i])) - low[j]);
  const varies = D.objectives.map((_, j) => j).filter((j) => span[j] > 0);
  const shares = points.map((i) => varies.map((j) => (signOf(D.objectives[j]) * columnOf(D.objectives[j])[i] - low[j]) / span[j]));
  const distance = shares.map((list) => (1 - list.reduce((a, b) => a + b, 0)) / Math.sqrt(varies.length));
  const knees = [];
  for (const k of points.map((_, k) => k).filter((k) => distance[k] > 1e-12).sort((a, b) => distance[b] - distance[a])) {
    if (knees.length < MOST_KNEES && varies.length > 1 && knees.every((other) => Math.max(...shares[k].map((share, j) => Math.abs(share - shares[other][j]))) >= APART)) knees.push(k);
  }
  const knee = knees.find((k) => !ends.includes(points[k]));
  if (knee !== undefined) return [points[knee], "most gained before it becomes dear"];
  const inner = points.map((_, k) => k).filter((k) => !ends.includes(points[k]));
  if (!inner.length) return [null, ""];
  const worst = (k) => Math.max(...shares[k]);
  return [points[inner.reduce((best, k) => (worst(k) < worst(best) ? k : best))], "the front has no knee: the most even"];
}
const bestWords = (name) => `${metricOf[name].sense === "maximize" ? "highest" : "lowest"} ${metricOf[name].title}`;
function picksWithin(front) {
  if (!front.length) return [];
  const points = foldedFront(front).sort((a, b) => a - b);
  const least = (i, name) => signOf(name) * columnOf(name)[i];
  const best = (first) => points.reduce((a, b) => ([first, ...[...D.objectives].reverse()].reduce((order, name) => order || least(b, name) - least(a, name), 0) < 0 ? b : a));
  if (D.objectives.length === 1) return [{ key: "best", i: best(D.objectives[0]), reason: bestWords(D.objectives[0]) }];
  const speed = D.objectives.find((name) => name !== D.cost), ends = [best(D.cost), best(speed)];
  const [middle, reason] = middleOf(points, ends);
  const picks = [{ key: "frugal", i: ends[0], reason: bestWords(D.cost) }, ...(middle === null ? [] : [{ key: "knee", i: middle, reason }]), { key: "fastest", i: ends[1], reason: bestWords(speed) }];
  if (picks.every((pick) => pick.i === picks[0].i)) return [{ key: "best", i: picks[0].i, reason: "best in every objective" }];
  return picks.filter((pick, k) => !picks.slice(0, k).some((other) => other.i === pick.i));
}

// Names in a sentence: "throughput, TDP and area".
const listed = (names) => (names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`);

// A slider from the least value that any stored design has to where it limits nothing.
function sliderOf(name) {
  const column = columnOf(name), low = Math.min(...column), high = Math.max(...column), isMost = signOf(name) > 0;
  const limit = D.limits.find((item) => item.metric === name), metric = metricOf[name];
  const rough = Math.max((high - low) / STEPS, T.steps[name] || 0), ten = 10 ** Math.floor(Math.log10(rough)), step = [1, 2, 5, 10].map((k) => k * ten).find((s) => s >= rough);
  const places = Math.max(0, -Math.floor(Math.log10(step))), tidy = (x) => Number(x.toFixed(places));
  const [min, max] = isMost ? [tidy(Math.ceil(low / step) * step), tidy(Math.ceil(high / step) * step)] : [tidy(Math.floor(low / step) * step), tidy(Math.floor(high / step) * step)];
  return { name, metric, min, max, step: tidy(step), isMost, loosest: isMost ? max : min, campaign: limit ? limit.bound : null };
}
const side = (slider) => (slider.isMost ? "at most" : "at least");
const looseText = (slider) => (slider.campaign === null ? "any" : `${slider.isMost ? "≤" : "≥"} ${metricText(slider.campaign, slider.metric)}, the campaign's`);
const limitText = (slider) => (isTighter(slider.name) ? `${slider.isMost ? "≤" : "≥"} ${metricText(boundOf(slider.name), slider.metric)}` : looseText(slider));
function slidersHtml(sliders) {
  return sliders.map((slider) => `<div class="limit"><label for="limit-${slider.name}">${escapeHtml(slider.metric.title)} ${side(slider)}</label><input type="range" id="limit-${slider.name}" min="${slider.min}" max="${slider.max}" step="${slider.step}" data-loosest="${slider.loosest}" value="${isTighter(slider.name) ? boundOf(slider.name) : slider.loosest}" aria-valuetext="${escapeHtml(limitText(slider))}"><output for="limit-${slider.name}">${escapeHtml(limitText(slider))}</output></div>`).join("");
}

// Why a design takes less die edge than its memories have: the space lets a family take none.
function noteWithin(name, i) {
  const family = T.parameters.find((p) => p.name === "uncharged_edge");
  return name === "shoreline_mm" && family && family.values[family.codes[i]] ? `${family.values[family.codes[i]]} not charged` : "";
}
// Which of them count in whole steps.
function stepText(sliders) {
  const texts = sliders.filter(({ name }) => T.steps[name]).map(({ name, metric }) => `${metric.title} counts in whole steps of ${metricText(T.steps[name], metric)}, rounded to the worse side`);
  return texts.length ? ` ${texts.join("; ")}.` : "";
}

// What the limits change in the fastest design, in words.
function givesWay(from, to) {
  return T.parameters.filter((p) => p.codes[from] !== p.codes[to]).map((p) => {
    const [old, now] = [from, to].map((i) => p.values[p.codes[i]] || "none").map((text) => T.short[text] ?? text);
    return `${p.title} ${old} gives way to ${now}`;
  });
}
function changeText(sliders, front, all) {
  const tight = sliders.filter(({ name }) => isTighter(name));
  if (!tight.length) return `Without tighter limits, ${all.length.toLocaleString("en-US")} designs are on the front.`;
  const words = tight.map((slider) => `${slider.metric.title} ${limitText(slider)}${slider.campaign === null ? "" : ` (${metricText(Math.abs(slider.campaign - boundOf(slider.name)), slider.metric)} ${slider.isMost ? "less" : "more"})`}`).join(", ");
  if (!front.length) return `${words}: no design keeps these limits together. ${reachText(tight)}`;
  const speed = D.objectives.find((name) => name !== D.cost) || D.objectives[0], metric = metricOf[speed];
  const fastest = (ids) => picksWithin(ids).reduce((last, pick) => (["fastest", "best"].includes(pick.key) ? pick.i : last), ids[0]);
  const [before, after] = [fastest(all), fastest(front)], [old, now] = [before, after].map((i) => columnOf(speed)[i]);
  const count = `${front.length.toLocaleString("en-US")} designs on the front, of ${all.length.toLocaleString("en-US")} without them`;
  if (old === now) return `${words}: the fastest recommended design keeps ${metricText(now, metric)}; ${count}.`;
  const changes = givesWay(before, after);
  return `${words} ${tight.length > 1 ? "cost" : "costs"} ${metricText(Math.abs(now - old), metric)} of ${metric.title}: the fastest recommended design has ${metricText(now, metric)} instead of ${metricText(old, metric)}. In it ${changes.join("; ") || "no parameter changes"}. ${count[0].toUpperCase()}${count.slice(1)}.`;
}
// How far each limit alone would have to give.
function reachText(tight) {
  return tight.map((slider) => {
    const front = frontWithin({ ...state.bounds, [slider.name]: null });
    if (!front.length) return "";
    const within = range(0, T.n).filter((i) => tight.every((other) => other === slider || signOf(other.name) * columnOf(other.name)[i] <= signOf(other.name) * boundOf(other.name)));
    const values = within.map((i) => columnOf(slider.name)[i]);
    return `Within the others, ${slider.metric.title} is ${metricText(slider.isMost ? Math.min(...values) : Math.max(...values), slider.metric)} at best.`;
  }).filter(Boolean).join(" ");
}

const keyWithin = (i) => T.parameters.map((p) => p.values[p.codes[i]] || "").join("|");
const hoverWithin = (i) => [wrapped(T.words[i]), ...T.metrics.map((name) => `${metricOf[name].title}: ${metricText(columnOf(name)[i], metricOf[name])}`)].join("<br>");
function limitsFigure(front, all, picks) {
  const pairs = panels(), axes = {}, traces = [], labels = [], width = $("limits-chart").clientWidth;
  const columns = Math.min(pairs.length, width >= 1150 ? 3 : width >= 720 ? 2 : 1), lines = Math.ceil(pairs.length / columns);
  pairs.forEach(([x, y], p) => {
    const at = p ? p + 1 : "", column = p % columns, line = Math.floor(p / columns), gap = 0.09, w = (1 - gap * (columns - 1)) / columns, h = (1 - 0.16 * (lines - 1)) / lines;
    axes[`xaxis${at}`] = metricAxis(x, "x", { anchor: `y${at}`, domain: [column * (w + gap), column * (w + gap) + w] });
    axes[`yaxis${at}`] = metricAxis(y, "y", { anchor: `x${at}`, domain: [Math.max(0, 1 - line * (h + 0.16) - h), 1 - line * (h + 0.16)] });
    const shape = metricOf[x].sense === "minimize" ? "hv" : "vh", isLine = D.objectives.length === 2;
    const trace = (ids, more) => {
      const sorted = [...ids].sort((a, b) => columnOf(x)[a] - columnOf(x)[b]);
      return { x: sorted.map((i) => columnOf(x)[i]), y: sorted.map((i) => columnOf(y)[i]), customdata: sorted.map((i) => T.ids[i]), text: sorted.map(hoverWithin), hovertemplate: "%{text}<extra></extra>", mode: isLine ? "lines+markers" : "markers", xaxis: `x${at}`, yaxis: `y${at}`, legendgroup: more.name, showlegend: p === 0, ...more };
    };
    traces.push(trace(all, { name: "without tighter limits", line: { shape, dash: "dot", width: 1.3, color: color("dim") }, marker: { size: 4, color: color("dim") } }));
    traces.push(trace(front, { name: "front", line: { shape, width: 1.5, color: color("blue") }, marker: { size: 7, color: color("blue"), line: { width: 1, color: color("paper") } } }));
    traces.push(trace(picks.map((pick) => pick.i), { name: "recommended", mode: "markers", meta: "mark", marker: { symbol: "circle-open", size: 15, color: color("ink"), line: { width: 2 } } }));
    for (const pick of picks) labels.push({ x: columnOf(x)[pick.i], y: columnOf(y)[pick.i], axis: at, text: PICK_TITLES[pick.key] });
  });
  return { traces, labels, ...axes, height: lines * (width < 720 ? 330 : 400), margin: { l: 60, r: 16, t: 46, b: 50 } };
}

function barsWithin(front) {
  const ids = foldedFront(front), two = D.objectives.length === 2, costs = ids.map((i) => columnOf(D.cost)[i]);
  if (ids.length < 2) return "";
  const rows = T.parameters.map((p) => ({ title: p.title, values: p.values, codes: ids.map((i) => p.codes[i]) }));
  return barcodeHtml({ two, costs, rows: rows.filter((row) => new Set(row.codes).size > 1), labels: ids.map((i) => T.words[i]), band: () => "" });
}

function startLimits() {
  T = D.tighter;
  $("limits-hint").textContent = T.hint;
  $("limits").hidden = !T.metrics && !T.hint;
  $("limits-box").hidden = !T.metrics;
  if (!T.metrics) return;
  T.n = T.words.length;
  const known = new Map(range(0, D.designs.n_front).map((id) => [keyOf(id), id]));
  T.ids = range(0, T.n).map((i) => known.get(keyWithin(i)) ?? null);
  const sliders = T.limitable.filter((name) => new Set(columnOf(name)).size > 1).map(sliderOf);
  for (const name of Object.keys(state.bounds)) if (!sliders.some((slider) => slider.name === name)) delete state.bounds[name];
  const all = frontWithin({});
  $("limits-box").hidden = !sliders.length;
  if (!sliders.length) return;
  const titles = listed(sliders.map(({ metric }) => metric.title));
  $("limits-exact").textContent = `Exact for any limits, together or alone, on ${titles} that are no looser than the campaign's: the front is filtered from ${T.n.toLocaleString("en-US")} points, all that such limits can bring to it. A looser limit, or one on another metric, needs an enumeration of its own.${stepText(sliders)}${T.refused.length ? ` The batch size is chosen by limits on ${T.refused.join(", ")}; these have no slider.` : ""}`;
  $("limits-sliders").innerHTML = slidersHtml(sliders);
  let front = all, picks = [];
  const paint = () => {
    front = frontWithin(state.bounds);
    picks = picksWithin(front);
    for (const slider of sliders) {
      const input = $(`limit-${slider.name}`);
      input.setAttribute("aria-valuetext", limitText(slider));
      input.nextElementSibling.textContent = limitText(slider);
    }
    $("limits-change").textContent = changeText(sliders, front, all);
    $("limits-reset").disabled = !sliders.some(({ name }) => isTighter(name));
    $("limits-cards").innerHTML = picks.map((pick) => cardHtml({ key: pick.key, title: PICK_TITLES[pick.key], reason: pick.reason, id: T.ids[pick.i], words: T.words[pick.i], figures: T.metrics.map((name) => [name, columnOf(name)[pick.i], null, noteWithin(name, pick.i)]) })).join("");
    document.querySelectorAll("#limits-cards details").forEach((box) => { box.open = true; });
    $("limits-bars").innerHTML = barsWithin(front);
    $("limits-choices").hidden = !$("limits-bars").innerHTML;
    $("limits").dataset.front = front.join(" ");
  };
  paint();
  const chart = $("limits-chart");
  if (D.objectives.length > 1) draw(chart, () => limitsFigure(front, all, picks), "The front within the limits, and without tighter ones.");
  let due = false;
  const repaint = () => {
    if (due) return;
    due = true;
    requestAnimationFrame(() => { due = false; paint(); tidyBars($("limits-bars")); if (drawings.has(chart)) drawings.get(chart)(); });
  };
  drawings.set($("limits-bars"), () => tidyBars($("limits-bars")));
  tidyBars($("limits-bars"));
  $("limits-sliders").addEventListener("input", (event) => {
    const slider = sliders.find(({ name }) => event.target.id === `limit-${name}`), bound = Number(event.target.value);
    if (bound === slider.loosest) delete state.bounds[slider.name]; else state.bounds[slider.name] = bound;
    remember();
    repaint();
  });
  $("limits-reset").addEventListener("click", () => {
    state.bounds = {};
    for (const slider of sliders) $(`limit-${slider.name}`).value = slider.loosest;
    remember();
    repaint();
  });
  $("limits-cards").addEventListener("click", (event) => { const id = event.target.dataset.take; if (id !== undefined) choose(Number(id), "A"); });
}
