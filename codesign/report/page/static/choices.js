// The choices along the front as a bar code: one row per parameter, bands over the cost.
// With two objectives a design is the choice from its cost up to that of the next; with more, each takes an equal part.
function barcodeHtml({ two, costs, rows, labels, band }) {
  const n = costs.length, metric = metricOf[D.cost], limit = D.limits.find((item) => item.metric === D.cost);
  const end = two ? Math.max(limit ? limit.bound : 0, costs[n - 1] * 1.08) : n, start = two ? costs[0] : 0;
  const from = (k) => (two ? costs[k] : k), to = (k) => (k + 1 < n ? from(k + 1) : end);
  const left = (x) => (100 * (x - start)) / (end - start);
  const html = rows.map(({ title, values, codes }) => {
    const bands = [];
    codes.forEach((code, k) => {
      const last = bands[bands.length - 1];
      if (last && last.code === code) last.to = to(k); else bands.push({ code, k, from: from(k), to: to(k) });
    });
    const parts = bands.map(({ code, k, ...ends }, place) => {
      const text = values[code] || "–";
      const words = `${title} ${text}${two ? `, ${metric.title} ${metricText(ends.from, metric)} to ${metricText(ends.to, metric)}` : ""}`;
      return `<span class="band ${place % 2 ? "odd" : ""}" ${band(k)} data-said="${escapeHtml(`${text} from ${two ? shortText(ends.from, metric) : labels[k]}`)}" title="${escapeHtml(words)}" style="left: ${left(ends.from).toFixed(3)}%; width: ${(left(ends.to) - left(ends.from)).toFixed(3)}%"><span>${escapeHtml(text)}</span></span>`;
    }).join("");
    const said = bands.map((item) => `${values[item.code] || "none"} from ${two ? metricText(item.from, metric) : labels[item.k]}`).join(", ");
    return `<div class="band-name">${escapeHtml(title)}</div><div class="bands" role="img" aria-label="${escapeHtml(`${title}: ${said}`)}">${parts}</div><div class="band-said"></div>`;
  }).join("");
  const ticks = labels.map((label, k) => `<span data-tick style="left: ${left(from(k)).toFixed(3)}%">${escapeHtml(two ? shortText(costs[k], metric) : label)}</span>`).join("");
  return `<div class="barcode">${html}<div class="band-name">${two ? escapeHtml(metric.title) : "design"}</div><div class="band-ticks">${ticks}</div></div>`;
}
// The designs to choose from, of the whole front or within tighter limits, the cheapest first.
function toChooseFrom() {
  if (within) return { ids: foldedFront(within.front), n: within.front.length, parameters: T.parameters, costOf: (i) => columnOf(D.cost)[i], page: (i) => T.ids[i], label: (i) => T.words[i] };
  return { ids: kept().sort((a, b) => value(a, D.cost) - value(b, D.cost)), n: D.designs.n_front, parameters: D.designs.parameters, costOf: (id) => value(id, D.cost), page: (id) => id, label: labelOf };
}
function bandsHtml() {
  const { ids, n, parameters, costOf, page, label } = toChooseFrom();
  if (ids.length < 2) return `<p class="hint">There are fewer than two designs to choose from.</p>`;
  const two = D.objectives.length === 2, title = escapeHtml(metricOf[D.cost].title), codesOf = (p) => new Set(ids.map((id) => p.codes[id]));
  const rows = parameters.filter((p) => codesOf(p).size > 1).map((p) => ({ title: p.title, values: p.values, codes: ids.map((id) => p.codes[id]) }));
  const same = parameters.filter((p) => p.values.length && codesOf(p).size === 1 && setting(p, ids[0]));
  const bars = barcodeHtml({ two, costs: ids.map(costOf), rows, labels: ids.map(label), band: (k) => (page(ids[k]) === null ? "" : `data-band="${page(ids[k])}"`) });
  const shared = same.length ? `<p class="hint">The same in all ${ids.length.toLocaleString("en-US")} designs to choose from: ${same.map((p) => `${escapeHtml(p.title)} ${escapeHtml(setting(p, ids[0]))}`).join(", ")}.</p>` : "";
  return `<p class="hint">${two ? `From left to right ${title} grows; a band ends where another value takes over in the ${ids.length.toLocaleString("en-US")} designs to choose from${ids.length < n ? " (designs folded under them may have other values)" : ""}.` : `The designs to choose from, by ${title}.`} Click a band for the design where it begins.</p>${bars}${shared}`;
}
// Ticks that would meet the one before are left out; names that do not fit their band stand below it.
function tidyBars(box) {
  let end = -Infinity;
  for (const tick of box.querySelectorAll("[data-tick]")) {
    tick.hidden = false;
    const box = tick.getBoundingClientRect();
    tick.hidden = box.left < end + 4;
    if (!tick.hidden) end = box.right;
  }
  for (const text of box.querySelectorAll(".band > span")) {
    text.style.visibility = "visible";
    if (text.offsetWidth > text.parentElement.clientWidth) text.style.visibility = "hidden";
  }
  for (const row of box.querySelectorAll(".bands")) {
    const unnamed = [...row.children].filter((item) => item.firstChild.style.visibility === "hidden");
    row.nextElementSibling.textContent = unnamed.map((item) => item.dataset.said).join(", ");
  }
}
function startChoices() {
  const paint = () => { $("bands").innerHTML = bandsHtml(); tidyBars($("bands")); };
  paint();
  drawings.set($("bands"), paint);
  $("bands").addEventListener("click", (event) => { const band = event.target.closest("[data-band]"); if (band) choose(Number(band.dataset.band)); });
  const tabs = ["bands", "lines"];
  const show = (name) => tabs.forEach((tab) => {
    $(tab).hidden = tab !== name;
    $(`tab-${tab}`).setAttribute("aria-selected", tab === name);
    $(`tab-${tab}`).tabIndex = tab === name ? 0 : -1;
    if (tab === name) redrawWithin($(tab));
  });
  tabs.forEach((tab, k) => {
    $(`tab-${tab}`).addEventListener("click", () => show(tab));
    $(`tab-${tab}`).addEventListener("keydown", (event) => {
      if (!["ArrowLeft", "ArrowRight"].includes(event.key)) return;
      show(tabs[1 - k]);
      $(`tab-${tabs[1 - k]}`).focus();
    });
  });
}
