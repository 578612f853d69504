// Two designs side by side: their charts, and what differs.
function showSlot(slot) {
  const id = state[slot], box = $(`slot-${slot}`);
  box.hidden = id === null;
  if (id === null) { box.innerHTML = ""; return; }
  const objectives = D.metrics.filter((metric) => metric.objective).map(({ name, title }) => `${title} ${D.designs.texts[name][id]}`).join(", ");
  const note = D.designs.notes[id] ? `<p class="warning">${escapeHtml(D.designs.notes[id])}</p>` : "";
  box.innerHTML = `<h3>${slot}: ${escapeHtml(labelOf(id))} <span class="quiet">${escapeHtml(statusOf(id))}</span></h3><p>${escapeHtml(D.designs.words[id])}<br>${escapeHtml(objectives)}</p>${note}${D.accounts[id] || `<p class="hint">${escapeHtml(D.missing)}</p>`}`;
  box.querySelectorAll("svg.chart").forEach(reachable);
  box.querySelectorAll("[role=region]").forEach((table) => { table.ariaLabel += `, design ${slot}`; });
}
function comparedRows(ids) {
  const metrics = D.metrics.map(({ name, title, subject, sense, objective, unit }) => {
    const [a, b] = ids.map((id) => (id === null ? null : D.designs.values[name][id]));
    let change = "", kind = "";
    if (typeof a === "number" && typeof b === "number" && a !== b && a) {
      const by = 100 * (b / a - 1);
      change = unit === "°C" ? `${b > a ? "+" : "−"}${Math.abs(b - a).toPrecision(2)} K` : `${by > 0 ? "+" : "−"}${Math.abs(by).toPrecision(Math.abs(by) < 10 ? 2 : 3)} %`;
      if (sense) kind = (b > a) === (sense === "maximize") ? "better" : "worse";
    }
    return { subject, name: `${objective ? "★ " : ""}${title}`, texts: ids.map((id) => (id === null ? "" : D.designs.texts[name][id])), change, kind };
  });
  const settings = D.designs.parameters.map((p) => ({ subject: "Choices", name: p.title, texts: ids.map((id) => (id === null ? "" : p.values[p.codes[id]] || "–")), change: "", kind: "" }));
  return [...metrics, ...settings].filter((row) => row.texts.some((text) => text && text !== "–"));
}
function showComparison() {
  const slots = ["A", "B"].filter((slot) => state[slot] !== null), ids = slots.map((slot) => state[slot]), two = ids.length > 1;
  $("compare-box").hidden = !ids.length;
  $("compare-title").textContent = two ? "What differs" : "Every metric and setting";
  const rows = comparedRows(ids).filter((row) => !two || row.texts[0] !== row.texts[1]), width = ids.length + 1 + two;
  const body = ["Speed", "Power", "Memory", "Choices", "Cost", "Other"].map((subject) => {
    const own = rows.filter((row) => row.subject === subject);
    return own.length && `<tbody><tr class="subject"><th scope="rowgroup" colspan="${width}">${subject}</th></tr>${own.map((row) => `<tr><td>${escapeHtml(row.name)}</td>${row.texts.map((text) => `<td class="number">${escapeHtml(text)}</td>`).join("")}${two ? `<td class="number ${row.kind}">${row.change}</td>` : ""}</tr>`).join("")}</tbody>`;
  }).filter(Boolean).join("");
  $("compare").innerHTML = `<thead><tr><td></td>${slots.map((slot) => `<th scope="col" class="number">${slot}: ${escapeHtml(labelOf(state[slot]))}</th>`).join("")}${two ? `<th scope="col" class="number">B against A</th>` : ""}</tr></thead>${body}`;
}
function showDesigns() {
  const explained = Object.keys(D.accounts).map(Number);
  for (const slot of ["A", "B"]) {
    const ids = [...new Set([...explained, state.A, state.B].filter((id) => id !== null))].sort((a, b) => a - b);
    $(`pick-${slot}`).innerHTML = `<option value="">none</option>${ids.map((id) => `<option value="${id}">${escapeHtml(`${labelOf(id)} · ${D.designs.words[id]}`)}</option>`).join("")}`;
    $(`pick-${slot}`).value = state[slot] === null ? "" : String(state[slot]);
    showSlot(slot);
  }
  showComparison();
}
function startDesigns() {
  for (const slot of ["A", "B"]) $(`pick-${slot}`).addEventListener("change", (event) => take(event.target.value === "" ? null : Number(event.target.value), slot));
  listeners.push((what) => { if (what === "designs") showDesigns(); });
  listeners.push(showMarks);
  showDesigns();
  showMarks();
}
