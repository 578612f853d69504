// What differs between two designs, by subject, in percent.
const SUBJECTS = [
  ["Speed", (m) => /token\/s|^s$|FLOP\/s|1\/s/.test(m.unit) || /^(batch|compute_util)/.test(m.name)],
  ["Power", (m) => /^(W|J|degC|token\/J)|W\/mm|J\//.test(m.unit)],
  ["Memory", (m) => /^B|^mm$/.test(m.unit) || /^bandwidth_util/.test(m.name)],
  ["Cost", (m) => /USD|kg|mm\^2|year/.test(m.unit)],
  ["Other", () => true],
];
const subjectOf = (metric) => SUBJECTS.find(([, test]) => test(metric))[0];

// Neither more nor less of it is better by itself.
const isNeutral = (metric) => metric.percent || /^uncharged_/.test(metric.name);
// In percent; of temperatures in kelvin, and against nothing in the metric's unit.
function differenceText(x, y, metric) {
  if (!isNumber(x) || !isNumber(y)) return "";
  if (x === y) return "=";
  const sign = y > x ? "+" : "−";
  if (metric.unit === "degC") return `${sign}${plainNumber(Math.abs(y - x), 2)} K`;
  return x === 0 ? `${sign}${shortText(Math.abs(y - x), metric)}` : signed(y / x - 1);
}

function comparisonRows() {
  const slots = [state.A, state.B];
  const metrics = Object.keys(D.designs.metrics).map((name) => {
    const metric = metricOf[name], [x, y] = slots.map((id) => (id === null ? null : value(id, name)));
    const isEqual = x === y, better = !isNumber(x) || !isNumber(y) || isEqual || isNeutral(metric) ? "" : (y > x) === (metric.sense === "maximize") ? "better" : "worse";
    return { subject: subjectOf(metric), name: metric.title, values: [x, y], unit: metric.unit, texts: [x, y].map((v) => metricText(v, metric)), change: differenceText(x, y, metric), better, isObjective: metric.objective };
  });
  const settings = D.designs.parameters.map((p) => ({ subject: "Choices", name: p.title, texts: slots.map((id) => (id === null ? "" : setting(p, id) || "–")), change: "", better: "" }));
  // A metric that only repeats another, such as the phase time of a prefill, is left out.
  const repeats = (row, k) => !row.isObjective && metrics.some((other, i) => (other.isObjective || i < k) && other !== row && other.unit === row.unit && row.unit && row.values.every((v, slot) => v && v === other.values[slot]));
  return [...metrics.filter((row, k) => !repeats(row, k)), ...settings];
}

function showComparison() {
  const both = state.A !== null && state.B !== null;
  const slots = ["A", "B"].filter((slot) => state[slot] !== null);
  $("compare-box").hidden = !slots.length;
  if (!slots.length) return;
  // One design alone has no differences; its settings and metrics are still worth a table.
  $("compare-title").textContent = both ? "Differences" : `Settings and metrics of design ${slots[0]}`;
  $("only-different").parentElement.hidden = !both;
  const only = both && $("only-different").checked;
  const shown = slots.map((slot) => (slot === "A" ? 0 : 1));
  const rows = comparisonRows().filter((row) => (both ? !only || row.texts[0] !== row.texts[1] : !["", "–"].includes(row.texts[shown[0]])));
  const table = $("compare"), width = 1 + slots.length + (both ? 1 : 0);
  const rowHtml = (row) => `<tr class="${both && !only && row.texts[0] !== row.texts[1] ? "different" : ""}"><td>${row.isObjective ? "★ " : ""}${escapeHtml(row.name)}</td>${shown.map((k) => `<td class="number">${escapeHtml(row.texts[k])}</td>`).join("")}${both ? `<td class="number ${row.better}">${row.change}${row.better ? ` <span class="unseen">${row.better}</span>` : ""}</td>` : ""}</tr>`;
  const bodies = ["Speed", "Power", "Memory", "Choices", "Cost", "Other"].map((subject) => {
    const own = rows.filter((row) => row.subject === subject);
    return own.length ? `<tbody><tr class="subject"><th scope="rowgroup" colspan="${width}">${subject}</th></tr>${own.map(rowHtml).join("")}</tbody>` : "";
  });
  table.innerHTML = `<thead><tr><th scope="col">setting or metric</th>${slots.map((slot) => `<th scope="col" class="number">${slot}: ${escapeHtml(labelOf(state[slot]))}</th>`).join("")}${both ? `<th scope="col" class="number">B against A</th>` : ""}</tr></thead>${bodies.join("")}`;
}
