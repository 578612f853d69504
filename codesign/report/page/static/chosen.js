// Two designs side by side: what differs, and each in full.
const accountOf = (id) => (id === null ? null : D.accounts[String(id)] || null);
const optionText = (id) => `${labelOf(id)} · ${D.designs.words[id]}`;

function comparisonRows() {
  const [a, b] = [state.A, state.B];
  const has = (id) => id !== null;
  const settings = D.designs.parameters.map((p) => ({ name: p.title, texts: [a, b].map((id) => (has(id) ? setting(p, id) || "–" : "")), ratio: "" }));
  const metrics = Object.keys(D.designs.metrics).map((name) => {
    const metric = metricOf[name], [x, y] = [a, b].map((id) => (has(id) ? value(id, name) : null));
    const ratio = isNumber(x) && isNumber(y) && x > 0 ? y / x : null;
    const better = ratio === null || ratio === 1 ? "" : (ratio > 1) === (metric.sense === "maximize") ? "better" : "worse";
    return { name: metric.title, texts: [x, y].map((v) => metricText(v, metric)), ratio: ratio === null ? "" : `× ${plainNumber(ratio, 3)}`, note: metric.objective ? better : "", isNumber: true };
  });
  return [...metrics, ...settings];
}

function showComparison() {
  const both = state.A !== null && state.B !== null;
  $("compare-box").hidden = !both;
  if (!both) return;
  const only = $("only-different").checked;
  const rows = comparisonRows().filter((row) => !only || row.texts[0] !== row.texts[1]);
  $("compare").tHead.innerHTML = `<tr><th scope="col"></th><th scope="col" class="number">A: ${escapeHtml(labelOf(state.A))}</th><th scope="col" class="number">B: ${escapeHtml(labelOf(state.B))}</th><th scope="col" class="number">B of A</th></tr>`;
  $("compare").tBodies[0].innerHTML = rows.map((row) => `<tr class="${!only && row.texts[0] !== row.texts[1] ? "different" : ""}"><td>${row.note ? "★ " : ""}${escapeHtml(row.name)}</td>${row.texts.map((text) => `<td class="number">${escapeHtml(text)}</td>`).join("")}<td class="number">${row.ratio} ${row.note || ""}</td></tr>`).join("");
}

// The parts of a design; the same ones in the same order for both, so that they stand level.
const PARTS = {
  hierarchy: (id, account, both) => account.levels.length && {
    title: "Memory hierarchy", after: levelsHtml(account),
    figure: () => diagramFigure(id, account, Math.max(...both.map((item) => blocks(item).length))),
  },
  roofline: (id, account, both) => account.roofline && {
    title: "Roofline", figure: () => rooflineFigure(account, both),
    hint: "Every operator once per memory level it uses, at that level's bytes; larger takes longer. Ceilings are peaks.",
  },
  time: (id, account, both) => account.operators.some((row) => row.time_s > 0) && {
    title: "Time by operator and what bounds it", figure: () => timeFigure(account, both),
  },
  power: (id, account, both) => account.power.length && {
    title: "Power by component", figure: () => powerFigure(account, both), hint: energyText(id),
  },
  traffic: (id, account, both) => account.operators.length && {
    title: "Traffic by memory level", figure: () => trafficFigure(account, both),
  },
  ...Object.fromEntries([0, 1, 2, 3].map((k) => [`swings${k}`, (id, account) => {
    const name = D.objectives.filter((item) => account.swings[item])[k];
    return name && {
      title: `What moves ${metricOf[name].title}`, figure: () => swingFigure(id, account, name),
      hint: "One number of a memory technology at a time, over the range that its source gives.",
    };
  }])),
};

function addPart(article, part) {
  const box = document.createElement("div");
  article.append(box);
  if (!part) return;
  box.innerHTML = `<h3>${escapeHtml(part.title)}</h3>${part.hint ? `<p class="hint">${escapeHtml(part.hint)}</p>` : ""}<div class="chart"></div>${part.after || ""}`;
  draw(box.querySelector(".chart"), part.figure);
}

function showSlot(slot) {
  const article = $(`slot-${slot}`), id = state[slot];
  forget(article);
  if (id === null) { article.innerHTML = `<p class="hint">No design ${slot} yet: click a point, or take one from the list.</p>`; return; }
  const account = accountOf(id);
  const facts = D.objectives.map((name) => `${metricOf[name].title} ${metricText(value(id, name), metricOf[name])}`).join(", ");
  article.innerHTML = `<div><h3>${slot}: ${escapeHtml(labelOf(id))} <span class="quiet">${statusOf(id)}</span></h3><p>${escapeHtml(D.designs.words[id])}<br>${escapeHtml(facts)}</p></div>`;
  if (!account) {
    article.insertAdjacentHTML("beforeend", `<p class="hint">${Object.keys(D.accounts).length ? "The page has no diagram of this design; it has those of the designs in the lists above. “codesign evaluate” explains any design." : "This evaluator does not explain its designs."}</p>`);
    return;
  }
  const both = [accountOf(state.A), accountOf(state.B)].filter(Boolean);
  for (const part of Object.values(PARTS)) addPart(article, part(id, account, both));
  article.insertAdjacentHTML("beforeend", `<details><summary>Assumptions</summary><ul class="notes">${account.notes.map((note) => `<li>${escapeHtml(note)}</li>`).join("")}</ul></details>`);
}

// A component's share of the average power is its share of the energy.
function energyText(id) {
  const joules = value(id, "energy_joules_per_token");
  return isNumber(joules) ? `A component's share of the average power is its share of the energy, ${withPrefix(joules, "J")} per token.` : "";
}

function fillPickers() {
  const explained = Object.keys(D.accounts).map(Number).sort((a, b) => a - b);
  for (const slot of ["A", "B"]) {
    const ids = [...new Set([...explained, state.A, state.B].filter((id) => id !== null))].sort((a, b) => a - b);
    $(`pick-${slot}`).innerHTML = `<option value="">none</option>${ids.map((id) => `<option value="${id}">${escapeHtml(optionText(id))}</option>`).join("")}`;
    $(`pick-${slot}`).value = state[slot] === null ? "" : String(state[slot]);
  }
  const n = explained.filter((id) => !isNamed(id)).length;
  $("chosen-hint").textContent = n ? `Diagrams and breakdowns are here for ${n === D.designs.n_front ? `all ${n}` : `${n} of ${D.designs.n_front.toLocaleString("en-US")}, evenly spread,`} designs of the front${explained.length > n ? " and for the named designs" : ""}.` : "This evaluator does not explain its designs; settings and metrics can be compared.";
}

function showChosen() {
  fillPickers();
  showComparison();
  ["A", "B"].forEach(showSlot);
}

function startChosen() {
  for (const slot of ["A", "B"]) {
    $(`pick-${slot}`).addEventListener("change", (event) => {
      state[slot] = event.target.value === "" ? null : Number(event.target.value);
      changed("chosen");
    });
  }
  $("swap").addEventListener("click", () => { [state.A, state.B] = [state.B, state.A]; changed("chosen"); });
  $("only-different").addEventListener("change", showComparison);
  listen((what) => { if (what === "chosen") showChosen(); });
  showChosen();
}
