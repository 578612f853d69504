// State of the reader, what a pointer or a key says about a chart, and the selection.
const $ = (id) => document.getElementById(id);
const state = { A: null, B: null, selected: new Set(), unfolded: new Set(), scope: "front", filter: "", wide: false, sortBy: null, sortUp: true, nShown: 50, limits: {}, follow: true };
const listeners = [];
let D = null; // the data of the page
const range = (from, to) => Array.from({ length: Math.max(0, to - from) }, (_, i) => from + i);
const total = () => D.designs.n + D.designs.named.length;
const isFront = (id) => id < D.designs.n_front;
const isFolded = (id) => isFront(id) && D.under[id] !== id;
const foldedUnder = (id) => range(0, D.designs.n_front).filter((other) => other !== id && D.under[other] === id);
const count = (n) => n.toLocaleString("en-US");
const escapeHtml = (text) => String(text).replace(/[&<>"]/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[sign]);
// No line ends between a number and its unit.
const WITH_UNIT = /(\d[\d.,]* (?:[%°]|per s\b|[kKMGTPmµn]?(?:i?B|W|J|s|Hz|mm|USD|token(?:\/s)?)\b\/?))/;
function glueUnits(box) {
  const texts = document.createTreeWalker(box, NodeFilter.SHOW_TEXT, (node) => (node.parentElement.closest("svg, code, script, style, select") ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT));
  const nodes = [];
  while (texts.nextNode()) if (WITH_UNIT.test(texts.currentNode.data)) nodes.push(texts.currentNode);
  const glued = (text) => [Object.assign(document.createElement("span"), { className: "glued", textContent: text }), document.createElement("wbr")];
  for (const node of nodes) node.replaceWith(...node.data.split(WITH_UNIT).flatMap((text, i) => (i % 2 ? glued(text) : text)));
}

function labelOf(id) {
  if (id >= D.designs.n) return D.designs.named[id - D.designs.n];
  return isFront(id) ? `#${id + 1}` : `design ${id + 1}`;
}
function statusOf(id) {
  if (id >= D.designs.n) return "named";
  if (isFolded(id)) return `front, ${D.within} of ${labelOf(D.under[id])}`;
  if (isFront(id)) return "front";
  return id < D.designs.n_feasible ? "dominated" : "over a limit";
}
function hoverText(id) {
  const objectives = D.metrics.filter((metric) => metric.objective);
  const lines = objectives.map((metric) => `${metric.title}: ${D.designs.texts[metric.name][id]}`);
  return [`${labelOf(id)} ${statusOf(id)}`, D.designs.words[id], ...lines, D.designs.notes[id]].filter(Boolean).join("\n");
}

function changed(what) {
  remember();
  listeners.forEach((view) => view(what));
}
function take(id, slot) {
  state[slot] = id;
  changed("designs");
}
function select(ids) {
  state.selected = new Set(ids);
  changed("selected");
}

// The words on a mark of a chart: its own, or those of its design.
function wordsOf(mark) {
  if (mark.dataset.t) return mark.dataset.t;
  if (mark.dataset.id === undefined) return "";
  const number = Number(mark.dataset.id);
  return mark.classList.contains("g-tighter") ? pointText(number) : hoverText(number);
}
const designOf = (mark) => (mark.classList.contains("g-tighter") ? D.limits.points.ids[mark.dataset.id] : Number(mark.dataset.id));

function startHover() {
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.hidden = true;
  document.body.append(tip);
  const show = (mark, text) => {
    const box = mark.getBoundingClientRect();
    tip.textContent = text;
    tip.hidden = false;
    const left = Math.min(box.right + 8, innerWidth - tip.offsetWidth - 8);
    const top = Math.max(4, Math.min(box.top - 8, innerHeight - tip.offsetHeight - 8));
    tip.style.transform = `translate(${Math.max(4, left)}px, ${top}px)`;
  };
  document.addEventListener("pointerover", (event) => {
    const mark = event.target.closest("svg.chart [data-t], svg.chart [data-id]");
    if (mark) show(mark, wordsOf(mark)); else tip.hidden = true;
  });
  // By keyboard: arrows step along the marks of a chart, which are read aloud.
  document.querySelectorAll("svg.chart").forEach(reachable);
  document.addEventListener("keydown", (event) => {
    const chart = document.activeElement;
    if (!chart || !chart.matches("svg.chart")) return;
    const marks = [...chart.querySelectorAll("[data-t], [data-id]")].filter((mark) => mark.getClientRects().length);
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -10, ArrowDown: 10 }[event.key];
    if (step && marks.length) {
      chart.cursor = Math.max(0, Math.min(marks.length - 1, (chart.cursor ?? -step) + step));
      show(marks[chart.cursor], wordsOf(marks[chart.cursor]));
      $("announcement").textContent = `${chart.cursor + 1} of ${marks.length}: ${tip.textContent.replaceAll("\n", ", ")}`;
    } else if (event.key === "Escape") { tip.hidden = true; chart.blur(); return; }
    else if (!act(marks[chart.cursor], event.key)) return;
    event.preventDefault();
  });
}
function reachable(chart) {
  if (!chart.querySelector("[data-t], [data-id]")) return;
  chart.tabIndex = 0;
  chart.setAttribute("role", "application");
  chart.setAttribute("aria-roledescription", "chart");
}
// What a key does with the design under the cursor.
function act(mark, key) {
  const id = mark && mark.dataset.id !== undefined ? designOf(mark) : null;
  if (id === null || id === undefined) return false;
  if (["a", "A", "Enter"].includes(key)) take(id, "A");
  else if (["b", "B"].includes(key)) take(id, "B");
  else if (key === " ") toggle(id);
  else return false;
  return true;
}
function toggle(id) {
  if (!state.selected.delete(id)) state.selected.add(id);
  changed("selected");
}

// A click takes a design, a drag over the front selects those in the box.
function startPointing() {
  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-take]");
    if (link) { take(Number(link.dataset.take), "A"); return; }
    const mark = event.target.closest("svg.chart [data-id]");
    const id = mark && designOf(mark);
    if (mark && Number.isInteger(id)) take(id, event.shiftKey ? "B" : "A");
  });
  let from = null;
  const box = document.createElement("div");
  box.id = "selection";
  box.hidden = true;
  document.body.append(box);
  const area = (event) => ({ left: Math.min(from.clientX, event.clientX), right: Math.max(from.clientX, event.clientX), top: Math.min(from.clientY, event.clientY), bottom: Math.max(from.clientY, event.clientY) });
  $("front").addEventListener("pointerdown", (event) => {
    if (event.pointerType !== "touch" && event.target.closest("svg.chart")) { from = event; event.preventDefault(); }
  });
  window.addEventListener("pointermove", (event) => {
    if (!from) return;
    const { left, right, top, bottom } = area(event);
    Object.assign(box.style, { left: `${left}px`, top: `${top}px`, width: `${right - left}px`, height: `${bottom - top}px` });
    box.hidden = right - left < 5;
  });
  window.addEventListener("pointerup", (event) => {
    if (from && !box.hidden) {
      const { left, right, top, bottom } = area(event);
      const inside = (mark) => { const r = mark.getBoundingClientRect(), x = (r.left + r.right) / 2, y = (r.top + r.bottom) / 2; return r.width && x >= left && x <= right && y >= top && y <= bottom; };
      select([...$("front").querySelectorAll("[data-id]")].filter(inside).map(designOf).filter(Number.isInteger));
    }
    from = null;
    box.hidden = true;
  });
  $("clear").addEventListener("click", () => select([]));
}
function showMarks() {
  document.querySelectorAll("svg.chart [data-id]").forEach((mark) => {
    const id = designOf(mark);
    mark.classList.toggle("selected", state.selected.has(id));
    mark.classList.toggle("taken", id === state.A || id === state.B);
  });
  $("clear").hidden = !state.selected.size;
  $("clear").textContent = `Clear selection (${count(state.selected.size)})`;
}
