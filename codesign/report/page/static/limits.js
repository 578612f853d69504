// Tighter limits: the exact front as a filter of stored points (docs/exact-fronts.md), from which
// cards, front and bands are drawn while a limit is tightened. Points are in lexicographic order of
// minimized objectives and kept metrics, so of equal ones the first is the least in what is kept.
const STEPS = 120, REST_MS = 150; // after the last move, charts get their labels
let T = null; // the stored points
let within = null; // { front, picks } while a limit is tightened
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

// What one chooses from: codesign.search.pareto.fold, the cheapest first.
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
const looseText = (slider) => (slider.campaign === null ? "any" : `${slider.isMost ? "≤" : "≥"} ${metricText(slider.campaign, slider.metric)} asked`);
const limitText = (slider) => (isTighter(slider.name) ? `${slider.isMost ? "≤" : "≥"} ${metricText(boundOf(slider.name), slider.metric)}` : looseText(slider));
function slidersHtml(sliders) {
  return sliders.map((slider) => `<div class="limit"><label for="limit-${slider.name}">${escapeHtml(slider.metric.title)} ${side(slider)}</label><input type="range" id="limit-${slider.name}" min="${slider.min}" max="${slider.max}" step="${slider.step}" data-loosest="${slider.loosest}" value="${isTighter(slider.name) ? boundOf(slider.name) : slider.loosest}" aria-valuetext="${escapeHtml(limitText(slider))}"><output for="limit-${slider.name}">${escapeHtml(limitText(slider))}</output></div>`).join("");
}

// Why a design takes less die edge than its memories have: the space lets a family take none.
const noteWithin = (name, i) => (name === "shoreline_mm" && T.uncharged[i] ? `${T.uncharged[i]} not charged` : "");
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
const hoverWithin = (i) => [T.ids[i] === null ? "" : `<b>${escapeHtml(labelOf(T.ids[i]))}</b>`, wrapped(T.words[i]), ...T.metrics.map((name) => `${metricOf[name].title}: ${metricText(columnOf(name)[i], metricOf[name])}`)].filter(Boolean).join("<br>");
// The front within the limits, the one without them, and what is recommended within.
function tracesWithin(pair, order) {
  const along = (a, b) => columnOf(pair[0])[a] - columnOf(pair[0])[b];
  const points = (ids, name, more) => {
    const sorted = [...ids].sort(along);
    return { ...order(name), x: sorted.map((i) => columnOf(pair[0])[i]), y: sorted.map((i) => columnOf(pair[1])[i]), customdata: sorted.map((i) => T.ids[i]), text: sorted.map(hoverWithin), hovertemplate: "%{text}<extra></extra>", mode: "markers", ...more };
  };
  const folded = new Set(within.front), dim = { color: color("dim") };
  foldedFront(within.front).forEach((i) => folded.delete(i));
  const sizes = (ids, big, small) => [...ids].sort(along).map((i) => (folded.has(i) ? small : big));
  return [
    frontTrace(pair, order, { ...order("without tighter limits"), line: { ...frontLine(pair), dash: "dot", ...dim }, marker: { size: 4, ...dim } }),
    points(within.front, "front", { mode: D.objectives.length === 2 ? "lines+markers" : "markers", line: frontLine(pair), marker: { size: sizes(within.front, 9, 4), opacity: sizes(within.front, 1, 0.45), color: color("ink"), line: { width: 1, color: color("paper") } } }),
    points(within.picks.map((pick) => pick.i), "recommended", { marker: recommendedMark([...within.picks].sort((a, b) => along(a.i, b.i))) }),
  ];
}

// A card of a design within the limits: what is stored of it, and what the limits cost it.
function costText(pick) {
  const before = D.picks.find((other) => other.key === pick.key) || D.picks[D.picks.length - 1];
  if (before.id === T.ids[pick.i]) return "The same design as without tighter limits.";
  const changes = D.objectives.map((name) => [name, columnOf(name)[pick.i] / value(before.id, name) - 1]).filter(([, share]) => Math.abs(share) > 0.0005);
  return `Without tighter limits: ${labelOf(before.id)}. Against it ${changes.map(([name, share]) => `${metricOf[name].title} ${signed(share)}`).join(", ") || "the same numbers"}.`;
}
// The limits that hold, those of the campaign that no slider tightens included.
function activeLimits() {
  const asked = D.limits.filter((item) => item.metric && metricOf[item.metric] && !isTighter(item.metric)).map((item) => [item.metric, item.bound]);
  const moved = T.limitable.filter(isTighter).map((name) => [name, boundOf(name)]);
  return [...moved, ...asked].filter(([name]) => columnOf(name)).map(([name, bound]) => ({ name, bound, words: `${metricOf[name].title} ${signOf(name) > 0 ? "≤" : "≥"} ${metricText(bound, metricOf[name])}` }));
}
const spreadOf = (name, i) => (T.ranges && T.ranges.values[name] ? T.ranges.values[name][i] : null);
function endsWithin(name, i) {
  const spread = spreadOf(name, i);
  return spread && [5, 95].map((level) => spread[T.ranges.levels.indexOf(level)]);
}
// Share of the draws in which a design keeps a limit, between quantiles in proportion.
function shareKeeping({ name, bound }, i) {
  const spread = spreadOf(name, i), levels = T.ranges.levels, k = spread.findIndex((value) => value > bound);
  const below = k < 0 ? 1 : k === 0 ? 0 : (levels[k - 1] + ((levels[k] - levels[k - 1]) * (bound - spread[k - 1])) / (spread[k] - spread[k - 1])) / 100;
  return signOf(name) > 0 ? below : 1 - below;
}
const aboutText = (share) => (share > COMMON ? "all" : share < 1 - COMMON ? "none" : `about ${percent(share, 2)}`);
function sureWithin(i, limits, before) {
  const ranged = limits.filter(({ name }) => spreadOf(name, i));
  const lines = ranged.map((limit) => `${limit.words}: kept in ${aboutText(shareKeeping(limit, i))} of ${T.ranges.samples} draws`);
  const certain = limits.filter(({ name }) => T.ranges && !spreadOf(name, i));
  if (certain.length) lines.push(`${listed(certain.map(({ words }) => words))}: moved by no range`);
  for (const verdict of (before && before.verdicts) || []) lines.push(`${capital(verdict.reading)}: ${changeWords(verdict.ratios)}`);
  return lines;
}
// What the words of all these cards mean, once.
function noteOfWithin() {
  const draws = T.ranges ? `Draws are over the ranges of technologies; small numbers: 5 to 95 % of ${T.ranges.samples} of them. ` : "";
  return `${draws}Whether another design is better in the draws or under other models is asked without tighter limits only.`;
}
function shortWithin(i, limits) {
  const ranged = limits.filter(({ name }) => spreadOf(name, i));
  return ranged.length ? `Kept in draws: ${ranged.map((limit) => `${limit.words} ${aboutText(shareKeeping(limit, i))}`).join(", ")}` : "";
}
// Limits of which little is left, by the rule of the other cards.
function closeWithin(i, limits) {
  const left = ({ name, bound }) => Math.abs(bound - columnOf(name)[i]) / Math.abs(bound);
  return limits.filter((limit) => left(limit) < DECIDES).map((limit) => (left(limit) > 0.0005 ? `${limit.words}: ${percent(left(limit), 2)} left` : `${limit.words}: at the limit`));
}
// How to explain a design that the page has nothing more of.
function commandOf(i) {
  const settings = T.parameters.filter((p) => p.free && p.values[p.codes[i]]).map((p) => ` --set ${p.name}=${p.values[p.codes[i]]}`);
  return `codesign evaluate --campaign ${D.name}${settings.join("")}`;
}
function cardWithin(pick) {
  const i = pick.i, id = T.ids[i], before = D.picks.find((other) => other.id === id), limits = activeLimits(), close = closeWithin(i, limits), account = accountOf(id);
  const ends = (name) => (before && before.ranges ? before.ranges.intervals[name] : endsWithin(name, i));
  return cardHtml({
    key: pick.key, title: PICK_TITLES[pick.key], reason: pick.reason, id, words: T.words[i], note: costText(pick), command: id === null ? commandOf(i) : "",
    figures: T.metrics.map((name) => [name, columnOf(name)[i], ends(name), noteWithin(name, i)]),
    limits: [account ? boundText(account) : "", ...close].filter(Boolean), sure: sureWithin(i, limits, before), short: [...close, shortWithin(i, limits)],
    badges: before ? changeBadges(before) : [],
  });
}

function startLimits() {
  T = D.tighter;
  $("limits-hint").textContent = T.hint;
  $("limits-exact").hidden = $("limits").hidden = !T.metrics;
  $("limits-notes").hidden = !T.metrics && !T.hint;
  if (!T.metrics) return;
  T.n = T.words.length;
  const known = new Map(range(0, D.designs.n_front).map((id) => [keyOf(id), id]));
  T.ids = range(0, T.n).map((i) => known.get(keyWithin(i)) ?? null);
  const sliders = T.limitable.filter((name) => new Set(columnOf(name)).size > 1).map(sliderOf);
  for (const name of Object.keys(state.bounds)) if (!sliders.some((slider) => slider.name === name)) delete state.bounds[name];
  const all = frontWithin({});
  $("limits").hidden = $("limits-exact").hidden = !sliders.length;
  if (!sliders.length) return;
  const titles = listed(sliders.map(({ metric }) => metric.title));
  $("limits-exact").textContent = `Exact for any limits, together or alone, on ${titles} that are no looser than the campaign's: the front is filtered from ${T.n.toLocaleString("en-US")} points, all that such limits can bring to it. A looser limit, or one on another metric, needs an enumeration of its own.${stepText(sliders)}${T.refused.length ? ` The batch size is chosen by limits on ${T.refused.join(", ")}; these have no slider.` : ""}`;
  $("limits-sliders").innerHTML = slidersHtml(sliders);
  $("limits-box").open = !isNarrow.matches || Object.keys(state.bounds).length > 0;
  const paint = () => {
    const isTight = sliders.some(({ name }) => isTighter(name)), front = isTight ? frontWithin(state.bounds) : all;
    within = isTight ? { front, picks: picksWithin(front) } : null;
    for (const slider of sliders) {
      const input = $(`limit-${slider.name}`);
      input.setAttribute("aria-valuetext", limitText(slider));
      input.nextElementSibling.textContent = limitText(slider);
    }
    $("limits-change").textContent = isTight ? changeText(sliders, front, all) : "";
    $("limits-reset").hidden = !isTight;
    document.querySelectorAll(".untightened").forEach((note) => { note.hidden = !isTight; });
    $("limits").dataset.front = front.join(" ");
    showCards();
  };
  paint();
  let due = false, rest = null;
  // While a slider moves, what is out of sight waits.
  const isInSight = (div) => { const box = div.getBoundingClientRect(); return box.bottom > 0 && box.top < window.innerHeight; };
  const redraw = (isHurried) => ["front-chart", "bands"].map($).filter((div) => !isHurried || isInSight(div)).forEach((div) => drawings.get(div)(isHurried));
  const repaint = () => {
    clearTimeout(rest);
    delete $("limits").dataset.settled;
    rest = setTimeout(() => { redraw(false); $("limits").dataset.settled = ""; }, REST_MS);
    if (due) return;
    due = true;
    requestAnimationFrame(() => { due = false; paint(); redraw(true); });
  };
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
}
