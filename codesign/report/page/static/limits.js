// Moved limits and other changes of the question: their positions are looked up in the table of answers.
let answer = null; // the answer while a limit is moved
let drawn = new Set(); // its points, and the marks of each point of any answer
const marks = new Map();
// Every slider grows to the right: a limit "at most" is tighter on the left, one "at least" on the right.
const isUpper = (slider) => slider.title.endsWith(" at most");
const isChoice = (slider) => !slider.bounds.length; // of memories, formats, prompts or constants
const turned = (slider, place) => (isUpper(slider) && !isChoice(slider) ? slider.texts.length - 1 - place : place);
const sliderKey = (limits) => Object.keys(limits).map(Number).sort((a, b) => a - b).map((i) => `${i}:${limits[i]}`).join(",");
// Answers are for one change, and for some pairs.
const canMove = (i, moved) => !moved.length || (moved.length === 1 && range(0, D.limits.sliders[i].texts.length).some((place) => sliderKey({ ...state.limits, [i]: place }) in D.limits.table));
function pointText(k) {
  const { words, titles, texts } = D.limits.points;
  return [words[k], ...titles.map((title, j) => `${title}: ${texts[j][k]}`)].join("\n");
}

function showLimits() {
  const { sliders, table, answers } = D.limits, moved = Object.keys(state.limits).map(Number);
  answer = moved.length ? answers[table[sliderKey(state.limits)]] : null;
  sliders.forEach((slider, i) => {
    const place = state.limits[i] ?? slider.place, isMoved = place !== slider.place;
    const input = $(`limit-${i}`), text = isMoved || place ? `${slider.texts[place]}${isMoved ? "" : " as asked"}` : "no further limit";
    input.value = turned(slider, place);
    input.disabled = !isMoved && !canMove(i, moved);
    if (isChoice(slider)) return;
    input.setAttribute("aria-valuetext", text);
    input.parentElement.querySelector("output").textContent = text;
  });
  const names = moved.map((i) => `${sliders[i].title.replace(/ at (most|least)$/, "")} ${sliders[i].texts[state.limits[i]]}`);
  $("limits-change").innerHTML = answer ? `${escapeHtml(`${names.join(", ")}: ${answer.text || "The answer stays as it is."}`)} <button type="button" id="limits-reset">Reset the limits</button>${answerHtml()}` : "";
  glueUnits($("limits-change"));
  document.documentElement.classList.toggle("tightened", Boolean(answer));
  const shown = new Set(answer ? answer.front : []), folded = new Set(answer ? answer.folded.map((place) => answer.front[place]) : []);
  $("front").querySelectorAll(".g-moved").forEach((line) => line.classList.toggle("shown", names.includes(line.dataset.t)));
  const picked = new Set(answer ? answer.picks.map((pick) => pick.point) : []);
  for (const k of new Set([...drawn, ...shown])) {
    for (const mark of marks.get(String(k)) || []) {
      mark.classList.toggle("shown", shown.has(k));
      mark.classList.toggle("folded", folded.has(k));
      mark.classList.toggle("pick", picked.has(k));
    }
  }
  drawn = shown;
}
// The recommended designs within the limits.
function answerHtml() {
  const { words, titles, texts, ids, commands } = D.limits.points;
  if (!answer.picks.length) return "";
  const capital = (key) => key[0].toUpperCase() + key.slice(1);
  const head = answer.picks.map(({ key, reason, point }) => `<th scope="col">${ids[point] === null ? escapeHtml(capital(key)) : `<a href="#design" data-take="${ids[point]}">${escapeHtml(capital(key))}</a>`}<br><span class="quiet">${escapeHtml(reason)}</span></th>`).join("");
  const row = (title, cell, kind) => `<tr><th scope="row">${escapeHtml(title)}</th>${answer.picks.map(({ point }) => `<td class="${kind}">${escapeHtml(cell(point))}</td>`).join("")}</tr>`;
  const missing = answer.picks.some(({ point }) => ids[point] === null && commands[point]) ? row("details", (k) => (ids[k] === null ? commands[k] : `#${ids[k] + 1}`), "words") : "";
  return `<div class="scroll" role="region" tabindex="0" aria-label="Recommended within the limits"><table id="within"><thead><tr><td></td>${head}</tr></thead><tbody>${row("design", (k) => words[k], "words")}${titles.map((title, j) => row(title, (k) => texts[j][k], "number")).join("")}${missing}</tbody></table></div>`;
}
function startLimits() {
  const { sliders } = D.limits;
  for (const [i, place] of Object.entries(state.limits)) if (!sliders[i] || place >= sliders[i].texts.length) state.limits = {};
  const choice = (slider, i) => `<div class="choice"><label for="limit-${i}">${escapeHtml(slider.title)}</label><select id="limit-${i}">${slider.texts.map((text, place) => `<option value="${place}">${escapeHtml(text)}</option>`).join("")}</select></div>`;
  const limit = (slider, i) => `<div class="limit"><label for="limit-${i}">${escapeHtml(slider.title)}</label><output for="limit-${i}"></output><input type="range" id="limit-${i}" min="0" max="${slider.texts.length - 1}" step="1"><span class="end">${isUpper(slider) ? "tighter" : "looser"}</span><span class="end">${isUpper(slider) ? "looser" : "tighter"}</span></div>`;
  $("front").querySelectorAll(".g-tighter").forEach((mark) => marks.set(mark.dataset.id, [...(marks.get(mark.dataset.id) || []), mark]));
  $("sliders").innerHTML = sliders.map((slider, i) => (isChoice(slider) ? "" : limit(slider, i))).join("");
  $("choices-moved").innerHTML = sliders.map((slider, i) => (isChoice(slider) ? choice(slider, i) : "")).join("");
  $("limits").addEventListener("input", (event) => {
    const i = Number(event.target.id.slice(6)), place = turned(sliders[i], Number(event.target.value));
    if (place === sliders[i].place) delete state.limits[i]; else state.limits[i] = place;
    if (!(sliderKey(state.limits) in D.limits.table)) state.limits = { [i]: place };
    showLimits();
    remember();
  });
  $("limits").addEventListener("click", (event) => {
    if (event.target.id !== "limits-reset") return;
    state.limits = {};
    showLimits();
    remember();
  });
  showLimits();
}
