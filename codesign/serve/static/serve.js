// Two designs, changed by controls; the server answers for each change with words and charts.
(() => {
"use strict";
const $ = (id) => document.getElementById(id);
const SLOTS = ["A", "B"], HUES = { A: "blue", B: "vermilion" };
const designs = { A: null, B: null }; // the last answer for each
let D = null, slot = "A", answered = 0;
const escapeHtml = (text) => String(text).replace(/[&<>"]/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[sign]);
const isVariable = (parameter) => parameter.values.length + (parameter.can_be_absent ? 1 : 0) > 1;
const textOf = (parameter, code) => (code < 0 ? "none" : parameter.values[code]);

function controlHtml(parameter, k) {
  const label = `<label for="p${k}">${escapeHtml(parameter.title)}</label>`, least = parameter.can_be_absent ? -1 : 0;
  if (parameter.is_ordered && parameter.values.length > 2) {
    return `<div class="parameter">${label}<input type="range" id="p${k}" data-column="${k}" min="${least}" max="${parameter.values.length - 1}" step="1"><output for="p${k}" id="o${k}"></output></div>`;
  }
  const options = parameter.values.map((text, code) => `<option value="${code}">${escapeHtml(text)}</option>`).join("");
  return `<div class="parameter">${label}<select id="p${k}" data-column="${k}">${least < 0 ? `<option value="-1">none</option>` : ""}${options}</select></div>`;
}
function showControls() {
  const pools = [...new Set(D.parameters.map((parameter) => parameter.pool))];
  $("parameters").innerHTML = pools.map((pool) => {
    const rows = D.parameters.map((parameter, k) => (parameter.pool === pool && isVariable(parameter) ? controlHtml(parameter, k) : "")).join("");
    const legend = pool ? pool.replaceAll("_", " ") : pools.length > 1 ? "shared" : "choices";
    return rows && `<fieldset><legend>${escapeHtml(legend)}</legend>${rows}</fieldset>`;
  }).join("");
  $("start").innerHTML = D.starts.map((start, k) => `<option value="${k}">${escapeHtml(start.name)}</option>`).join("");
}
// The server may have moved choices: to their canonical order, or because one brought another to life.
function setControls(codes) {
  D.parameters.forEach((parameter, k) => {
    const control = $(`p${k}`);
    if (!control) return;
    const applies = codes[k] >= 0 || parameter.can_be_absent;
    control.disabled = !applies;
    if (document.activeElement !== control || control.dataset.sliding !== "yes") control.value = String(codes[k]);
    if (control.type !== "range") return;
    $(`o${k}`).textContent = applies ? textOf(parameter, codes[k]) : "–";
    control.setAttribute("aria-valuetext", textOf(parameter, codes[k]));
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
    $("timing").textContent = `Worked out in ${designs[name].milliseconds.toPrecision(3)} ms, on the screen after ${(performance.now() - began).toPrecision(3)} ms.`;
    document.documentElement.dataset.ready = String(answered += 1);
  } catch (error) {
    $("problem").hidden = false;
    $("problem").textContent = error instanceof TypeError ? "No answer: “codesign serve” has ended. Start it again and open the address that it prints." : `This change cannot be shown: ${error.message}`;
  } finally { isBusy = false; }
  if (waiting) { const next = waiting; waiting = null; await ask(...next); }
}
function show(name) {
  if (name === slot) setControls(designs[name].codes);
  document.documentElement.dataset.alone = designs.B ? "no" : "yes";
  SLOTS.forEach(showOutcome);
  showPlace();
  const isOpen = Boolean(document.querySelector(`#parts-${name} details[open]`));
  $(`parts-${name}`).innerHTML = designs[name].charts ? `<h2>Design ${name}</h2>${designs[name].charts}` : "";
  if (isOpen) $(`parts-${name}`).querySelectorAll("details").forEach((box) => { box.open = true; });
}
function changeText(figure, k) {
  const first = designs.A && designs.A.figures[k];
  if (!first || first.title !== figure.title || !first.value || first.value === figure.value) return "";
  const by = 100 * (figure.value / first.value - 1), isBetter = (by > 0) === (figure.sense === "maximize");
  return ` <span class="quiet">${by > 0 ? "+" : "−"}${Math.abs(by).toPrecision(3)} %${figure.sense ? (isBetter ? " better" : " worse") : ""}</span>`;
}
function showOutcome(name) {
  const answer = designs[name], box = $(`outcome-${name}`);
  if (!answer) { box.innerHTML = `<p class="hint">Choose ${name} beside “Design” to compare a second design.</p>`; return; }
  const figures = answer.figures.map((figure, k) => `<div class="${figure.sense ? "main-figure" : ""}"><dt>${escapeHtml(figure.title)}</dt><dd>${escapeHtml(figure.text)}${name === "B" ? changeText(figure, k) : ""}</dd></div>`).join("");
  const nearest = answer.nearest ? `<p>Nearest valid choice: ${escapeHtml(answer.nearest.text)} <button type="button" data-nearest="${name}">Take it</button></p>` : "<p>No valid design is near.</p>";
  const state = answer.broken.length ? `<div class="warning" role="status">It breaks ${escapeHtml(answer.broken.join(", "))}.${nearest}</div>` : `<p class="hint">${escapeHtml(answer.place)}</p>`;
  box.innerHTML = `<h3>${name} <span class="quiet">${escapeHtml(answer.words)}</span></h3><dl class="figures">${figures}</dl>${state}`;
  if (name === slot) $("brief").textContent = `${name}: ${answer.figures.filter((figure) => figure.sense).map((figure) => figure.text).join(", ")}${answer.broken.length ? `; breaks ${answer.broken.join(", ")}` : ""}`;
}
// Both designs on the chart of the front.
function showPlace() {
  const chart = $("place").querySelector("svg");
  if (!chart) return;
  chart.querySelectorAll(".slot").forEach((mark) => mark.remove());
  for (const name of SLOTS.filter((key) => designs[key] && designs[key].at)) {
    const [x, y] = designs[name].at, hue = `var(--${HUES[name]})`, dash = designs[name].broken.length ? "3 2" : "none";
    chart.insertAdjacentHTML("beforeend", `<g class="slot" data-slot="${name}" pointer-events="none"><rect x="${x - 8}" y="${y - 8}" width="16" height="16" fill="none" stroke="${hue}" stroke-width="2.5" stroke-dasharray="${dash}"/><text x="${name === "A" ? x + 12 : x - 12}" y="${y + 5}" text-anchor="${name === "A" ? "start" : "end"}" font-size="16" fill="var(--ink)">${name}</text></g>`);
  }
}
function chooseSlot(name) {
  slot = name;
  SLOTS.forEach(showOutcome);
  if (designs[name]) setControls(designs[name].codes);
  else ask(name, designs.A.codes);
}
function listenToControls() {
  $("parameters").addEventListener("input", (event) => {
    const control = event.target, column = Number(control.dataset.column), codes = [...designs[slot].codes];
    codes[column] = Number(control.value);
    control.dataset.sliding = "yes";
    if (control.type === "range") $(`o${column}`).textContent = textOf(D.parameters[column], codes[column]);
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
  $("place").addEventListener("click", (event) => {
    const mark = event.target.closest("[data-id]");
    if (mark) ask(slot, D.front.codes[Number(mark.dataset.id)]);
  });
  const tip = $("tip");
  document.addEventListener("pointerover", (event) => {
    const mark = event.target.closest("svg.chart [data-t]");
    tip.hidden = !mark;
    if (!mark) return;
    const box = mark.getBoundingClientRect();
    tip.textContent = mark.dataset.t;
    tip.style.transform = `translate(${Math.min(box.right + 8, innerWidth - tip.offsetWidth - 8)}px, ${Math.max(4, Math.min(box.top, innerHeight - tip.offsetHeight - 8))}px)`;
  });
}
async function begin() {
  D = await (await fetch("start.json")).json();
  $("campaign").textContent = D.campaign;
  document.title = `${D.name}: designs, live`;
  $("hatches").innerHTML = D.hatches;
  $("main").hidden = false;
  $("place").innerHTML = D.front ? D.front.svg : "";
  $("place-hint").textContent = D.front ? D.front.hint : "There is no front yet: “codesign run” or “codesign enumerate” gives one of a campaign.";
  showControls();
  listenToControls();
  await ask("A", D.starts[0].codes);
}
begin().catch((error) => {
  $("problem").hidden = false;
  $("problem").textContent = `The page cannot be shown: ${error.message}`;
  throw error;
});
})();
