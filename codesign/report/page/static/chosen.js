// Two designs side by side, each in full.
const accountOf = (id) => (id === null ? null : D.accounts[String(id)] || null);
const optionText = (id) => `${labelOf(id)} · ${D.designs.words[id]}`;

// The parts of a design; the same ones in the same order for both, so that they stand level.
const PARTS = {
  // A single memory that takes no edge has nothing to be drawn to scale.
  hierarchy: (id, account, both) => account.levels.length && {
    title: account.levels.length > 1 ? "Memory hierarchy" : "Memory", after: levelsHtml(account),
    figure: (account.levels.length > 1 || account.edge_mm) && (() => diagramFigure(id, account, Math.max(...both.map((item) => blocks(item).length)))),
  },
  roofline: (id, account, both) => account.roofline && {
    title: "Roofline", figure: () => rooflineFigure(account, both),
    hint: "Every operator once per memory level it uses, at that level's bytes; larger takes longer. Dashed: peaks; solid: the most that the model gives any operator." + offRoofText(account),
  },
  time: (id, account, both) => account.operators.some((row) => row.time_s > 0) && {
    title: "Time by operator and what bounds it", figure: () => timeFigure(account, both), hint: shareHint(account),
  },
  sides: (id, account, both) => hasSides(account) && {
    title: "Compute and memory time by operator", figure: () => sidesFigure(account, both),
    hint: "The largest ones. The evaluator gives no operator a time of its own; how both sides add up is under Assumptions.",
  },
  power: (id, account, both) => account.power.length && {
    title: "Power by component", figure: () => powerFigure(account, both), hint: energyText(id),
    after: account.power_notes.map((note) => `<p class="warning">${escapeHtml(note)}</p>`).join(""),
  },
  traffic: (id, account, both) => trafficRows(account).some((row) => row.parts.some(([, moved]) => moved > 0)) && {
    title: "Traffic by memory level", figure: () => trafficFigure(account, both),
  },
  formats: (id, account) => account.formats.length && {
    title: "What the formats cost in accuracy", after: formatsHtml(account),
    hint: "Basis: measured on a model, published by others, or estimated by a rule or from parts.",
  },
  ...Object.fromEntries([0, 1, 2, 3].map((k) => [`swings${k}`, (id, account) => {
    const name = D.objectives.filter((item) => account.swings[item])[k];
    return name && {
      title: `What moves ${metricOf[name].title}`, figure: () => swingFigure(id, account, name),
      hint: "One number of a memory technology at a time, over the range that its source gives.",
    };
  }])),
};

function formatsHtml(account) {
  const cells = account.formats.map((row) => `<tr><th scope="row">${escapeHtml(row.measure)}</th>${["value", "interval"].map((key) => `<td>${escapeHtml(row[key])}</td>`).join("")}<td title="${escapeHtml(row.source)}">${escapeHtml(row.basis)}</td></tr>`);
  return `<table class="parts"><thead><tr><th>measure</th><th>value</th><th>interval</th><th>basis</th></tr></thead><tbody>${cells.join("")}</tbody></table>`;
}

function addPart(article, part, said) {
  const box = document.createElement("div");
  article.append(box);
  if (!part) return;
  box.innerHTML = `<h3>${escapeHtml(part.title)}</h3>${part.hint ? `<p class="hint">${escapeHtml(part.hint)}</p>` : ""}${part.figure ? `<div class="chart"></div>` : ""}${part.after || ""}`;
  if (part.figure) draw(box.querySelector(".chart"), part.figure, `${part.title} of ${said}`);
}

function showSlot(slot) {
  const article = $(`slot-${slot}`), id = state[slot];
  forget(article);
  if (id === null) { article.innerHTML = `<p class="hint">No design ${slot} yet: click a point, or take one from the list.</p>`; return; }
  const account = accountOf(id);
  const facts = D.objectives.map((name) => `${metricOf[name].title} ${metricText(value(id, name), metricOf[name])}`).join(", ");
  article.innerHTML = `<div><h3>${slot}: ${escapeHtml(labelOf(id))} <span class="quiet">${statusOf(id)}</span></h3><p>${escapeHtml(D.designs.words[id])}<br>${escapeHtml(facts)}</p>${badgeHtml(badges(pickOf(id) || {}, account))}${standingHtml(id)}</div>`;
  if (!account) {
    article.insertAdjacentHTML("beforeend", unexplainedHtml(id));
    return;
  }
  const both = [accountOf(state.A), accountOf(state.B)].filter(Boolean);
  const said = `design ${slot}, ${labelOf(id)}`;
  if (account.system) addSystem(article, id, account, both, said);
  else for (const part of Object.values(PARTS)) addPart(article, part(id, account, both), said);
  article.insertAdjacentHTML("beforeend", `<details class="assumptions"><summary>Assumptions</summary><ul class="notes">${account.notes.map((note) => `<li>${escapeHtml(note)}</li>`).join("")}</ul></details>`);
}

const isNoWorse = (other, id, name) => (metricOf[name].sense === "maximize" ? value(other, name) >= value(id, name) : value(other, name) <= value(id, name));
const betterOnFront = (id) => range(0, D.designs.n_front).filter((other) => D.objectives.every((name) => isNoWorse(other, id, name)));
// Why a design is not on the front.
const MOST_BETTER = 3;
function standingHtml(id) {
  if (isFolded(id)) {
    const host = D.under[id], cost = metricOf[D.cost], [mine, theirs] = [id, host].map((one) => metricText(value(one, D.cost), cost));
    return `<p class="hint">It is ${D.within} of ${labelOf(host)}, which is cheaper: ${escapeHtml(cost.title)} ${theirs} instead of ${mine}.</p>`;
  }
  if (isFront(id) && foldedText(id)) return `<p class="hint">${foldedText(id)}: designs of the front that cost no less and are hardly better.</p>`;
  if (isNamed(id) || isFront(id)) return "";
  const broken = D.designs.broken[id - D.designs.n_feasible];
  if (broken) return `<p class="warning">It breaks ${escapeHtml(broken)}.</p>`;
  const better = betterOnFront(id);
  if (!better.length) return ""; // the front of the page was thinned
  const tie = tieOf(id);
  if (tie !== undefined) return `<p class="hint">It equals ${labelOf(tie)} of the front in every objective.</p>`;
  const rest = better.length - MOST_BETTER;
  return `<p class="warning">It is dominated: ${better.slice(0, MOST_BETTER).map(labelOf).join(", ")}${rest > 0 ? ` and ${rest.toLocaleString("en-US")} more` : ""} of the front ${better.length === 1 ? "is" : "are"} at least as good in every objective.</p>`;
}

// What the page does not have of a design, and how to come by it.
function unexplainedHtml(id) {
  if (!D.explains) return `<p class="hint">The evaluator of this campaign does not explain its designs, so there is no diagram and no breakdown; settings and metrics are in the table above.</p>`;
  const add = `“codesign report ${escapeHtml(D.name)} --design ${isNamed(id) ? escapeHtml(nameOf(id)) : id + 1}” writes the page with them.`;
  return `<p class="hint">Settings and metrics of this design are in the table above. Its diagram, roofline and breakdowns are not on this page. ${add}</p>`;
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
  $("chosen-hint").textContent = explained.length ? hintText(explained) : "This evaluator does not explain its designs; settings and metrics can be compared.";
}

// Of which designs there are diagrams.
function hintText(explained) {
  const n = explained.filter(isFront).length, of = D.designs.n_front.toLocaleString("en-US");
  const front = n === D.designs.n_front ? `all ${of} designs of the front` : `${n.toLocaleString("en-US")} of ${of} designs of the front, evenly spread`;
  const rest = explained.some((id) => !isFront(id) && !isNamed(id)) ? "those that were asked for" : "";
  const named = explained.some(isNamed) ? "the named designs" : "";
  return `Diagrams and breakdowns are here for ${[n ? front : "no design of the front", named, rest].filter(Boolean).join(", for ")}. “codesign report ${D.name} --design NUMBER” adds those of any other.`;
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
  // On a phone one of the two is in sight.
  $("turn").addEventListener("change", (event) => { $("slots").dataset.turn = event.target.value; redrawWithin($("slots")); });
  listen((what) => { if (what === "chosen") showChosen(); });
  showChosen();
}
