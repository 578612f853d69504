// Why the recommended designs are what they are: parts, changes, prices, near misses.
// Of a pass, the time of each unit; else of the operators by what bounds them.
function timesOf(account) {
  if (!account.pass) return account.operators.map((row) => [row.bound, row.time_s, row.bound]);
  const units = Object.entries(account.pass.bounds).map(([bound, time]) => [`array and memories, bound by ${bound}`, time, bound]);
  return [...units, ["vector unit", account.pass.vector_s, "vector"]];
}
// By measure, the title, amount and role of each part: of a system, of all its machines' parts by pool.
const MEASURES = [
  ["Time", "s", "time_s", timesOf, "bounds"],
  ["Power at TDP", "W", "tdp_watts", (account) => account.power.map((row) => [row.title, row.tdp_watts, row.name]), "parts"],
  ["Area", "mm²", "area_mm2", (account) => (account.costs || []).map((row) => [row.title, row.area_mm2, row.component]), "parts"],
  ["Cost", "USD", "usd", (account) => (account.costs || []).map((row) => [row.title, row.usd, row.component]), "parts"],
];
const MOST_PARTS = 6;
// Machines of a pool add up, but in the time that they work side by side. An amount that is not known is
// NaN, and so is every sum with it.
function partsOf(account, amounts, isShared, roleOf) {
  const sums = new Map();
  const add = (own, prefix, count) => amounts(own).forEach(([title, amount, role]) => {
    if (amount === null || amount > 0) sums.set(prefix + title, (sums.get(prefix + title) || 0) + (amount === null ? NaN : count * amount));
    roleOf.set(prefix + title, role);
  });
  if (account.system) account.system.machines.forEach((item) => add(item.account, `${item.name}: `, isShared ? 1 : item.count));
  else add(account, "", 1);
  return sums;
}
function partsHtml([title, unit, , amounts, roles]) {
  const roleOf = new Map();
  const columns = D.picks.filter((pick) => accountOf(pick.id)).map((pick) => [pick, partsOf(accountOf(pick.id), amounts, roles === "bounds", roleOf)]).filter(([, sums]) => sums.size);
  if (!columns.length) return "";
  const isTime = roles === "bounds", accounts = columns.map(([pick]) => accountOf(pick.id)), isPass = isTime && accounts.every((account) => account.pass);
  const totals = columns.map(([, sums], k) => (isPass ? accounts[k].pass.pass_s : [...sums.values()].reduce((a, b) => a + b, 0)));
  const names = [...new Set(columns.flatMap(([, sums]) => [...sums.keys()]))];
  const known = (sums) => [...sums.values()].filter((amount) => amount > 0), knownTotals = columns.map(([, sums], k) => (totals[k] > 0 ? totals[k] : known(sums).reduce((a, b) => a + b, 0)));
  const amountOf = (sums, name) => (sums.has(name) ? sums.get(name) : 0);
  const largest = (name) => Math.max(...columns.map(([, sums], k) => (Number.isNaN(amountOf(sums, name)) ? Infinity : amountOf(sums, name) / knownTotals[k])));
  names.sort((a, b) => (largest(a) === largest(b) ? 0 : largest(b) - largest(a)));
  const shown = names.slice(0, MOST_PARTS), rest = names.slice(MOST_PARTS);
  const top = Math.max(...columns.flatMap(([, sums]) => known(sums)));
  const cell = (amount, name) => `<td class="number bar" style="--share: ${amount > 0 ? plainNumber((100 * amount) / top, 3) : 0}%; --hue: ${color(D.palette[roles][roleOf.get(name)] || "gray")}">${amount > 0 ? withUnit(amount, unit) : Number.isNaN(amount) ? "not known" : "–"}</td>`;
  const row = (name, list) => `<tr><th scope="row">${escapeHtml(name)}</th>${list.map((amount) => cell(amount, name)).join("")}</tr>`;
  const others = rest.length ? `<tr><th scope="row">${rest.length} other${rest.length === 1 ? "" : "s"}</th>${columns.map(([, sums]) => cell(rest.reduce((sum, name) => sum + amountOf(sums, name), 0), "")).join("")}</tr>` : "";
  const [by, first, sum] = isPass ? ["of each unit in one pass", "unit", "one pass"] : isTime ? ["by what bounds it, all operators", "bound", "sum of operators"] : ["by part", "part", "all"];
  const hint = isPass ? (accounts.some((account) => account.pass.is_side_by_side) ? "Array and memories work beside the vector unit, so a pass takes as long as the slower of the two." : "Array and memories and the vector unit work one after the other.") : isTime ? "Where units work at the same time, a pass takes less than this sum." : "";
  return `<div class="tile"><h3>${title} <span class="quiet">${by}</span></h3><table class="parts"><thead><tr><th scope="col">${first}</th>${columns.map(([pick]) => `<th scope="col" class="number">${PICK_TITLES[pick.key].toLowerCase()}</th>`).join("")}</tr></thead><tbody>${shown.map((name) => row(name, columns.map(([, sums]) => amountOf(sums, name)))).join("")}${others}<tr class="total"><th scope="row">${sum}</th>${totals.map((total) => `<td class="number">${Number.isNaN(total) ? "not known" : withUnit(total, unit)}</td>`).join("")}</tr></tbody></table>${hint ? `<p class="hint">${hint}</p>` : ""}</div>`;
}
const withUnit = (amount, unit) => (["s", "W"].includes(unit) ? withPrefix(amount, unit, 3) : `${plainNumber(amount, 3)} ${unit}`);

// One change of a design at a time.
const lossOf = (change) => Math.max(...D.objectives.filter((name) => name in change.change).map((name) => worseBy(name, change.change[name])), 0);
const worseBy = (name, share) => (metricOf[name].sense === "maximize" ? -share : share);
function changeRows(pick, all) {
  const order = (a, b) => (b.feasible - a.feasible) || lossOf(a) - lossOf(b) || a.words.localeCompare(b.words);
  const sorted = [...pick.changes].sort(order), seen = new Set();
  return all ? sorted : sorted.filter((change) => !seen.has(change.subject) && seen.add(change.subject));
}
const deltaHtml = (name, share) => (isNumber(share) ? `<td class="number ${Math.abs(share) < 0.0005 ? "" : worseBy(name, share) > 0 ? "worse" : "better"}">${Math.abs(share) < 0.0005 ? "=" : signed(share)}</td>` : `<td class="number">–</td>`);
let changedPick = null, everyChange = false;
function showChanges() {
  const pick = D.picks.find((item) => item.key === changedPick);
  const names = D.figures.filter((name) => [...D.objectives, "area_mm2", "unit_cost_usd", "energy_joules_per_token"].includes(name));
  $("changes").tHead.innerHTML = `<tr><th scope="col">change</th>${names.map((name) => `<th scope="col" class="number">${escapeHtml(metricOf[name].title)}</th>`).join("")}<th scope="col">limits</th></tr>`;
  $("changes").tBodies[0].innerHTML = changeRows(pick, everyChange).map((change) => {
    const broken = Object.entries(change.broken).map(([name, by]) => `${name} by ${percent(by, 2)}`).join(", ");
    return `<tr><td class="words">${escapeHtml(change.words)}</td>${names.map((name) => deltaHtml(name, change.change[name])).join("")}<td>${change.feasible ? "kept" : `breaks ${escapeHtml(broken || "a limit")}`}</td></tr>`;
  }).join("");
}
const radioHtml = (group, picks, checked) => picks.map((pick) => `<label><input type="radio" name="${group}" value="${pick.key}" ${pick.key === checked ? "checked" : ""}> ${PICK_TITLES[pick.key].toLowerCase()}</label>`).join("");
function startChanges() {
  const picks = D.picks.filter((pick) => pick.changes && pick.changes.length);
  $("change-box").hidden = !picks.length;
  if (!picks.length) return;
  changedPick = (picks.find((pick) => pick.key === "knee") || picks[0]).key;
  $("change-picks").innerHTML = radioHtml("changed", picks, changedPick);
  $("change-picks").addEventListener("change", (event) => { changedPick = event.target.value; showChanges(); });
  $("all-changes").addEventListener("click", () => { everyChange = !everyChange; $("all-changes").setAttribute("aria-pressed", everyChange); showChanges(); });
  showChanges();
}

// What 5 % more of a resource would buy.
function startPrices() {
  const all = (D.prices || []).filter((price) => price.of.some((item) => item.step > 0)), useless = all.filter((price) => !price.exact && price.of.every((item) => !(item.gain > 0)));
  const prices = all.filter((price) => !useless.includes(price));
  $("more-of").hidden = !all.length;
  if (!all.length) return;
  const speed = D.picks[D.picks.length - 1], name = D.objectives.find((item) => item !== D.cost);
  const more = metricOf[name], gained = more.sense === "maximize" ? "" : "−";
  $("more-of-hint").textContent = `Suppose that a resource limits a design at just the amount that it has. How much better could the best ${more.title} be with 5 % more of that resource${all.some((price) => metricOf[price.metric].unit === "degC") ? ", or 5 K more" : ""}${all.some((price) => metricOf[price.metric].sense === "maximize") ? ", or a life that is 5 % shorter" : ""}? All other limits stay as asked. ${D.is_exact ? `The answer is exact for ${metricOf[D.cost].title}; for the others it is` : "The answer is"} a lower bound, from the front and the ${D.n_looked_at.toLocaleString("en-US")} designs one change away from it.${useless.length ? ` More of these buys nothing that was found: ${listed(useless.map((price) => metricOf[price.metric].title))}.` : ""}`;
  $("prices").tHead.innerHTML = `<tr><th scope="col">resource</th>${D.picks.map((pick) => `<th scope="col" class="number">at the ${PICK_TITLES[pick.key].toLowerCase()}'s</th>`).join("")}</tr>`;
  $("prices").tBodies[0].innerHTML = prices.map((price) => {
    const metric = metricOf[price.metric];
    const cell = (item) => {
      if (!(item.step > 0)) return `<td class="number">none used</td>`;
      const amount = shortText(item.amount, metric), isNothing = item.gain <= 0.0005 * Math.abs(value(speed.id, name));
      const gain = isNothing ? (price.exact ? "nothing" : "nothing found") : `${price.exact ? "" : "at least "}${gained || "+"}${shortText(item.gain, more)}`;
      return `<td class="number"><b>${gain}</b><br><span class="quiet">from ${amount}${isNothing ? "" : `; ${unitStep(price.metric, item)}`}</span></td>`;
    };
    return `<tr><th scope="row">${escapeHtml(metric.title)}</th>${price.of.map(cell).join("")}</tr>`;
  }).join("");
  // In units in which people think: a watt, a millimetre, a gigabyte, a dollar.
  function unitStep(resource, item) {
    const metric = metricOf[resource], [size, word] = metric.unit === "B" ? [1e9, "GB"] : [1, metric.unit === "degC" ? "K" : unitText(metric.unit)];
    return `${plainNumber((item.gain / item.step) * size, 3)} ${more.unit} per ${word}`;
  }
}

// Values on no design of the whole front, each in the design that comes nearest to it.
function missHtml(miss) {
  const cells = D.objectives.map((name) => deltaHtml(name, miss.metrics[name] / value(miss.id, name) - 1)).join("");
  return `<tr data-absent="worse"><th scope="row">${valueHtml(miss)}</th>${cells}<td><a href="#chosen" data-take="${miss.id}">${escapeHtml(labelOf(miss.id))}</a></td><td class="words">${escapeHtml(miss.words)}</td></tr>`;
}
function namedHtml(id) {
  const broken = !D.designs.named_feasible[id - D.designs.n];
  const better = betterOnFront(id), best = better.length ? better.reduce((a, b) => (gapTo(a, id) > gapTo(b, id) ? a : b)) : null;
  const cells = D.objectives.map((name) => (best === null ? `<td class="number">–</td>` : deltaHtml(name, value(id, name) / value(best, name) - 1))).join("");
  const why = broken ? "breaks a limit" : best === null ? "nothing on the front is better in everything" : "";
  return `<tr><th scope="row">${escapeHtml(nameOf(id))}</th>${cells}<td>${best === null ? "" : `<a href="#chosen" data-pair="${id} ${best}">${escapeHtml(labelOf(best))}</a>`}</td><td class="words">${escapeHtml([why, D.designs.words[id]].filter(Boolean).join("; "))}</td></tr>`;
}
const valueHtml = (item) => `<span data-value>${escapeHtml(item.parameter)} ${escapeHtml(item.value)}</span>`;
// Numbers of designs, each a link to its details.
const MOST_IDS = 2;
const idsHtml = (ids) => ids.slice(0, MOST_IDS).map((id) => `<a href="#chosen" data-take="${id}">${escapeHtml(labelOf(id))}</a>`).join(", ") + (ids.length > MOST_IDS ? ` and ${(ids.length - MOST_IDS).toLocaleString("en-US")} more` : "");
const MOST_ROWS = 8; // as the style sheet has it
const gapTo = (front, id) => D.objectives.reduce((sum, name) => sum + worseBy(name, value(id, name) / value(front, name) - 1), 0);
function startNear() {
  const head = (first, last) => `<thead><tr><th scope="col">${first}</th>${D.objectives.map((name) => `<th scope="col" class="number">${escapeHtml(metricOf[name].title)}</th>`).join("")}<th scope="col">instead</th><th scope="col">${last}</th></tr></thead>`;
  const table = (title, hint, label, headHtml, rows) => {
    if (!rows.length) return "";
    const rest = rows.length > MOST_ROWS ? `<button type="button" data-all>Show all ${rows.length}</button>` : "";
    return `<h3>${title}</h3><p class="hint">${hint}</p><div class="scroll" role="region" tabindex="0" aria-label="${label}, scrolls sideways"><table class="short">${headHtml}<tbody>${rows.join("")}</tbody></table></div>${rest}`;
  };
  const named = range(D.designs.n, total()), even = [], worse = [];
  for (const miss of D.misses || []) (lossOf({ change: Object.fromEntries(D.objectives.map((name) => [name, miss.metrics[name] / value(miss.id, name) - 1])) }) <= D.tolerance ? even : worse).push(miss);
  const front = `${D.is_exact ? "exact " : ""}front`, n = kept().length, chosen = D.tolerance && n < D.designs.n_front ? `the ${n.toLocaleString("en-US")} designs to choose from` : "the front";
  const unlisted = D.n_unlisted ? ` (${D.n_unlisted.toLocaleString("en-US")} more, which equal these in every objective, are not listed)` : "";
  const nowhere = `None of the ${(D.n_front_designs || 0).toLocaleString("en-US")} designs on the ${front}${unlisted} has`;
  const evenText = even.length ? `<p data-absent="even">${nowhere} one of these, though they lose ${D.tolerance ? `at most ${percent(D.tolerance)}` : "nothing"} against ${chosen}: ${even.map(valueHtml).join(", ")}.</p>` : "";
  const foldedText = (D.folded_values || []).length ? `<h3>Values only in folded designs</h3><p class="hint">They are on the ${front}, but only in designs that are folded under a cheaper one, as they are better by at most ${percent(D.tolerance)}.</p><p data-folded>${D.folded_values.map((item) => `${valueHtml(item)} (${idsHtml(item.ids)})`).join(", ")}.</p>` : "";
  $("misses").innerHTML = table("Named designs", "Against the design of the front that is at least as good in everything and the most better.", "Named designs", head("design", "what it is"), named.map(namedHtml))
    + foldedText
    + table(`Values on no design of the ${front}`, `${nowhere} them. Of each value the design one change from ${chosen} that lacks least, against the one in its place. Designs further away were not looked at; “codesign explain-front ${escapeHtml(D.name)}” looks at all.`, "Near misses", head("value", "change of the design to choose"), worse.map(missHtml)) + evenText;
  $("near").hidden = !$("misses").innerHTML;
  $("near").addEventListener("click", (event) => {
    const { take, pair, all } = event.target.dataset;
    if (all !== undefined) { event.target.previousElementSibling.firstChild.classList.remove("short"); event.target.remove(); }
    if (take !== undefined) choose(Number(take), "A");
    if (pair) { const [b, a] = pair.split(" ").map(Number); state.B = b; choose(a, "A"); }
  });
}

function startWhy() {
  $("parts").innerHTML = MEASURES.map(partsHtml).join("");
  startChanges();
  $("why").hidden = !$("parts").innerHTML && $("change-box").hidden;
  startPrices();
  startNear();
}
