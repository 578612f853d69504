// Two designs, changed by controls; the server answers for each change.
const SLOTS = ["A", "B"], SLOT_ID = { A: 0, B: 1 };
const SLOT_MARKS = { A: ["square-open", "blue"], B: ["star-diamond-open", "vermilion"] };
const designs = { A: null, B: null }; // the last answer for each
let slot = "A", asked = 0;

const isVariable = (parameter) => parameter.values.length + (parameter.can_be_absent ? 1 : 0) > 1;
const textOf = (parameter, code) => (code < 0 ? "none" : parameter.values[code]);

// What drawings of pages read of a design: its settings, words and metrics.
function fillDocument() {
  D.designs.parameters = D.parameters.map((parameter, k) => ({
    name: parameter.name, title: parameter.title, values: [...parameter.values, ""],
    codes: SLOTS.map((name) => { const code = designs[name] ? designs[name].codes[k] : -1; return code < 0 ? parameter.values.length : code; }),
  }));
  D.designs.metrics = Object.fromEntries(D.metrics.map(({ name }) => [name, SLOTS.map((key) => (designs[key] ? designs[key].metrics[name] : null))]));
  D.designs.words = SLOTS.map((name) => (designs[name] ? designs[name].words : ""));
}

function showControls() {
  const pools = [...new Set(D.parameters.map((parameter) => parameter.pool))];
  $("parameters").innerHTML = pools.map((pool) => {
    const rows = D.parameters.map((parameter, k) => [parameter, k]).filter(([parameter]) => parameter.pool === pool && isVariable(parameter)).map(([parameter, k]) => controlHtml(parameter, k)).join("");
    const legend = pool ? pool.replaceAll("_", " ") : pools.length > 1 ? "shared" : "choices";
    return rows && `<fieldset><legend>${escapeHtml(legend)}</legend>${rows}</fieldset>`;
  }).join("");
  $("start").innerHTML = D.starts.map((start, k) => `<option value="${k}">${escapeHtml(start.name)}</option>`).join("");
}
function controlHtml(parameter, k) {
  const label = `<label for="p${k}">${escapeHtml(parameter.title)}</label>`, least = parameter.can_be_absent ? -1 : 0;
  if (parameter.is_ordered && parameter.values.length > 2) {
    return `<div class="parameter">${label}<input type="range" id="p${k}" data-column="${k}" min="${least}" max="${parameter.values.length - 1}" step="1"><output for="p${k}" id="o${k}"></output></div>`;
  }
  const options = range(least, parameter.values.length).map((code) => `<option value="${code}">${escapeHtml(textOf(parameter, code))}</option>`).join("");
  return `<div class="parameter">${label}<select id="p${k}" data-column="${k}">${options}</select></div>`;
}
// The server may have moved choices: to their canonical order, or because one brought another to life.
function setControls(codes) {
  D.parameters.forEach((parameter, k) => {
    const control = $(`p${k}`);
    if (!control) return;
    const applies = codes[k] >= 0 || parameter.can_be_absent;
    control.disabled = !applies;
    if (document.activeElement !== control || control.type !== "range" || control.dataset.sliding !== "yes") control.value = String(codes[k]);
    if (control.type === "range") {
      $(`o${k}`).textContent = applies ? textOf(parameter, codes[k]) : "–";
      control.setAttribute("aria-valuetext", textOf(parameter, codes[k]));
    }
  });
}

// One question at a time; of the choices made meanwhile the last one counts.
let isBusy = false, waiting = null;
async function ask(name, codes) {
  if (isBusy) { waiting = [name, codes]; return; }
  isBusy = true;
  const began = performance.now();
  try {
    const reply = await fetch("design", { method: "POST", body: JSON.stringify({ codes }) });
    if (!reply.ok) throw new Error(await reply.text());
    designs[name] = await reply.json();
    $("problem").hidden = true;
    show(name);
    const drawn = performance.now() - began;
    $("timing").textContent = `Worked out in ${plainNumber(designs[name].milliseconds, 3)} ms, on the screen after ${plainNumber(drawn, 3)} ms.`;
    document.documentElement.dataset.ready = String(asked += 1);
  } catch (error) {
    $("problem").hidden = false;
    $("problem").textContent = error instanceof TypeError ? "No answer: “codesign serve” has ended. Start it again and open the address that it prints." : `This change cannot be shown: ${error.message}`;
  } finally { isBusy = false; }
  if (waiting) { const next = waiting; waiting = null; await ask(...next); }
}

function show(name) {
  fillDocument();
  if (name === slot) setControls(designs[name].codes);
  document.documentElement.dataset.alone = designs.B ? "no" : "yes";
  SLOTS.forEach(showOutcome);
  drawings.get($("place"))?.();
  SLOTS.forEach(showParts);
}

function showOutcome(name) {
  const answer = designs[name], box = $(`outcome-${name}`);
  if (!answer) { box.innerHTML = `<p class="hint">Choose ${name} beside “Design” to compare a second design.</p>`; return; }
  const other = designs[name === "A" ? "B" : "A"];
  const wanted = [...D.objectives, "batch_size", "time_to_first_token_s", "time_per_output_token_s", "energy_joules_per_token", "area_mm2", "unit_cost_usd"].filter((key, k, all) => metricOf[key] && isNumber(answer.metrics[key]) && all.indexOf(key) === k);
  const change = (key) => {
    const theirs = other && other.metrics[key], mine = answer.metrics[key];
    if (name === "A" || !isNumber(theirs) || !theirs || mine === theirs) return "";
    const percent = 100 * (mine / theirs - 1), isBetter = (percent > 0) === (metricOf[key].sense === "maximize");
    return ` <span class="quiet">${percent > 0 ? "+" : "−"}${plainNumber(Math.abs(percent), 3)} % ${D.objectives.includes(key) ? (isBetter ? "better" : "worse") : ""}</span>`;
  };
  const figures = wanted.map((key) => `<div class="${D.objectives.includes(key) ? "main-figure" : ""}"><dt>${escapeHtml(metricOf[key].title)}</dt><dd>${escapeHtml(metricText(answer.metrics[key], metricOf[key]))}${change(key)}</dd></div>`).join("");
  const nearest = answer.nearest ? `<p>Nearest valid choice: ${escapeHtml(answer.nearest.text)} <button type="button" data-nearest="${name}">Take it</button></p>` : "<p>No valid design is near.</p>";
  const broken = answer.broken.length ? `<div class="warning" role="status">It breaks ${escapeHtml(answer.broken.join(", "))}.${nearest}</div>` : `<p class="hint">${escapeHtml(answer.place)}</p>`;
  if (name === slot) $("brief").textContent = `${name}: ${D.objectives.map((key) => metricText(answer.metrics[key], metricOf[key])).join(", ")}${answer.broken.length ? `; breaks ${answer.broken.join(", ")}` : ""}`;
  box.innerHTML = `<h3>${name} <span class="quiet">${escapeHtml(answer.words)}</span></h3><dl class="figures">${figures}</dl>${broken}`;
}

// The front, the limits on it, and both designs.
function placeFigure() {
  const [y, x] = D.objectives.length > 1 ? [D.objectives[0], D.objectives[D.objectives.length - 1]] : [D.objectives[0], null];
  const column = (name) => D.front.points[D.objectives.indexOf(name)];
  const traces = [];
  if (D.front && x) {
    const order = range(0, D.front.codes.length).sort((a, b) => column(x)[a] - column(x)[b]), along = (values) => order.map((k) => values[k]);
    traces.push({ name: D.front.is_exact ? "exact front" : "front that was found", x: along(column(x)), y: along(column(y)), customdata: order, mode: D.objectives.length === 2 ? "lines+markers" : "markers", line: { shape: metricOf[x].sense === "minimize" ? "hv" : "vh", color: color("gray"), width: 1.3 }, marker: { size: 6, color: color("gray") },
      text: order.map((k) => `front ${D.front.numbers[k]}<br>${wrapped(D.front.words[k])}<br>${escapeHtml(metricOf[y].title)} ${metricText(column(y)[k], metricOf[y])}<br>${escapeHtml(metricOf[x].title)} ${metricText(column(x)[k], metricOf[x])}`), hovertemplate: "%{text}<extra></extra>" });
  }
  for (const name of SLOTS.filter((key) => designs[key] && designs[key].account)) {
    const [symbol, hue] = SLOT_MARKS[name], metrics = designs[name].metrics, isValid = !designs[name].broken.length;
    traces.push({ name: `design ${name}${isValid ? "" : ", breaks a limit"}`, meta: "mark", x: [x ? metrics[x] : 0], y: [metrics[y]], mode: "markers+text", text: [name], textposition: name === "A" ? "middle right" : "middle left", textfont: { size: 16, color: color("ink") }, marker: { symbol: isValid ? symbol : "x-open", size: 16, color: color(hue), line: { width: 2.5 } }, hovertemplate: `design ${name}<extra></extra>` });
  }
  const upright = metricAxis(y, "y", { rangemode: "tozero" });
  return { traces, height: 320, showlegend: true, xaxis: x ? metricAxis(x, "x", { rangemode: "tozero" }) : { visible: false }, yaxis: { ...upright, title: { ...upright.title, standoff: 12 } } };
}

// One pass: the operators on each unit, one after the other, colored by what bounds them.
const LEAST_SHARE = 0.1; // of the axis, for a name on the bar
function lineFigure(account, both) {
  const bars = account.line, end = maximum(both.flatMap((item) => item.line.map((bar) => bar.end_s)));
  const traces = [...new Set(bars.map((item) => item.bound))].map((bound) => {
    const mine = bars.filter((item) => item.bound === bound);
    return boundBar(bound, {
      name: bound, orientation: "h", width: 0.6, y: mine.map((item) => item.unit), base: mine.map((item) => item.start_s), x: mine.map((item) => item.end_s - item.start_s),
      hovertext: mine.map((item) => `${escapeHtml(item.name.replaceAll("_", " "))}, bound by ${bound}: ${withPrefix(item.start_s, "s", 3)} to ${withPrefix(item.end_s, "s", 3)}`), hoverinfo: "text",
    });
  });
  const units = [...new Set(bars.map((item) => item.unit))];
  const annotations = bars.filter((item) => item.end_s - item.start_s > LEAST_SHARE * end).map((item) => ({ x: (item.start_s + item.end_s) / 2, y: item.unit, text: wrapped(item.name.replaceAll("_", " "), 10), showarrow: false, bgcolor: color("paper"), font: { size: 10, color: color("ink") }, borderpad: 1 }));
  return { traces, annotations, barmode: "overlay", height: 90 + 56 * units.length, showlegend: true, dragmode: false, margin: { l: 10, r: 20, t: 34, b: 34 },
    xaxis: axis({ range: [0, 1.03 * end], tickformat: secondsTicks(end), ticksuffix: "s", nticks: 6, fixedrange: true }), yaxis: axis({ categoryorder: "array", categoryarray: units, autorange: "reversed", fixedrange: true }) };
}

// All that is drawn of a design, in the order of the page.
function partsOf(name, account, both) {
  const id = SLOT_ID[name];
  const line = account.line.length && { title: "Time line of one pass", figure: () => lineFigure(account, both), hint: "Operators of all layers together, one after the other, as they are counted; messages between devices are not drawn." };
  if (!account.system) return [...Object.entries(PARTS).map(([key, part]) => [key, part(id, account, both)]), ["line", line]].filter(([, part]) => part);
  const systems = both.filter((item) => item.system), { bars, machines, limit } = account.system;
  const end = maximum(systems.map((item) => maximum(item.system.bars.map((bar) => bar.end_s))));
  const parts = [["way", { title: "One request that waits for nobody", figure: () => wayFigure(bars, end, false) }], ["busy", { title: `Share of the time busy: ${limit}`, figure: () => busyFigure(bars) }]];
  machines.forEach((machine, k) => {
    const peers = systems.map((item) => item.system.machines[k].account);
    for (const key of ["hierarchy", "roofline", "time", "power", "formats"]) {
      const part = key === "hierarchy"
        ? machine.account.levels.length > 1 && { title: "Memory hierarchy", figure: () => diagramFigure(id, machine.account, Math.max(...peers.map((item) => blocks(item).length)), `${machine.name}_`), after: levelsHtml(machine.account) }
        : PARTS[key](id, machine.account, peers);
      if (part) parts.push([`${k} ${key}`, { ...part, title: `${part.title}: ${machine.title}` }]);
    }
  });
  return parts;
}

const ORDER = ["roofline", "power", "line", "time", "hierarchy"];
const placeOf = (key) => { const k = ORDER.indexOf(key); return k < 0 ? ORDER.length : k; };
const later = [];
function showParts(name) {
  const article = $(`parts-${name}`), answer = designs[name];
  if (!answer || !answer.account) { forget(article); article.innerHTML = ""; return; }
  const both = SLOTS.map((key) => designs[key] && designs[key].account).filter(Boolean);
  const parts = partsOf(name, answer.account, both).sort((a, b) => (answer.account.system ? 0 : placeOf(a[0]) - placeOf(b[0])));
  const keys = parts.map(([key, part]) => `${key}${part.figure ? "" : " text"}`).join("|");
  if (article.dataset.keys !== keys) {
    forget(article);
    article.innerHTML = `<h2>Design ${name}</h2>${parts.map(([key, part]) => `<div data-part="${key}"><h3></h3><p class="hint"></p>${part.figure ? `<div class="chart"></div>` : ""}<div class="after"></div></div>`).join("")}`;
    article.dataset.keys = keys;
  }
  parts.forEach(([key, part]) => {
    const box = [...article.children].find((child) => child.dataset.part === key);
    box.querySelector("h3").textContent = part.title;
    box.querySelector(".hint").textContent = part.hint || "";
    box.querySelector(".after").innerHTML = part.after || "";
    if (!part.figure) return;
    const chart = box.querySelector(".chart"), top = box.getBoundingClientRect().top;
    const paint = () => draw(chart, part.figure, `${part.title} of design ${name}`);
    if (top < window.innerHeight) paint();
    else later.push(paint);
  });
  clearTimeout(showParts.timer);
  showParts.timer = setTimeout(paintLater);
}
// What is below the screen follows, a chart at a time, and stops for the next change.
function paintLater() {
  if (isBusy || !later.length) return;
  later.shift()();
  showParts.timer = setTimeout(paintLater);
}

function chooseSlot(name) {
  slot = name;
  SLOTS.forEach(showOutcome);
  if (designs[name]) setControls(designs[name].codes);
  else ask(name, designs.A.codes);
}

function listenToControls() {
  $("parameters").addEventListener("input", (event) => {
    const control = event.target, codes = [...designs[slot].codes];
    codes[Number(control.dataset.column)] = Number(control.value);
    control.dataset.sliding = "yes";
    if (control.type === "range") $(`o${control.dataset.column}`).textContent = textOf(D.parameters[Number(control.dataset.column)], Number(control.value));
    later.length = 0;
    ask(slot, codes);
  });
  $("parameters").addEventListener("change", (event) => { event.target.dataset.sliding = ""; if (!isBusy && designs[slot]) setControls(designs[slot].codes); });
  $("parameters").addEventListener("submit", (event) => event.preventDefault());
  $("start").addEventListener("change", () => ask(slot, D.starts[Number($("start").value)].codes));
  document.querySelectorAll('input[name="slot"]').forEach((radio) => radio.addEventListener("change", () => chooseSlot(radio.value)));
  $("outcomes").addEventListener("click", (event) => {
    const name = event.target.dataset.nearest;
    if (name) ask(name, designs[name].nearest.codes);
  });
}

async function begin() {
  D = await (await fetch("start.json")).json();
  D.designs = { n: 0, n_front: 0, n_feasible: 0, named: SLOTS, named_feasible: [true, true], broken: [], parameters: [], metrics: {}, words: [] };
  Object.assign(D, { under: [], knees: [], picks: [], accounts: {} });
  metricOf = Object.fromEntries(D.metrics.map((metric) => [metric.name, metric]));
  $("campaign").textContent = `${D.name}, evaluated by ${D.evaluator}${D.limits.length ? `, within ${D.limits.join(", ")}` : ""}`;
  document.title = `${D.name}: designs, live`;
  $("main").hidden = false;
  $("place-hint").textContent = D.front ? `${D.front.is_exact ? "Nothing in the space is better than this front." : "The best that was found so far; “codesign enumerate” gives the exact front."} Click a point to take it as the design that the controls change.` : "There is no front yet: “codesign run” or “codesign enumerate” gives one of a campaign.";
  showControls();
  listenToControls();
  await ask("A", D.starts[0].codes);
  await draw($("place"), placeFigure, "Designs against the front");
  $("place").on("plotly_click", ({ points: [hit] }) => { if (Number.isInteger(hit.customdata)) ask(slot, D.front.codes[hit.customdata]); });
  watchLook();
}
begin().catch((error) => {
  $("problem").hidden = false;
  $("problem").textContent = `The page cannot be shown: ${error.message}`;
  throw error;
});
