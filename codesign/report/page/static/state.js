// What the reader has chosen; views listen to it. It outlives a reload of the page.
const $ = (id) => document.getElementById(id);
const PAGE = 50; // rows at first
const state = { A: null, B: null, next: "A", selected: new Set(), unfolded: new Set(), scope: "front", filter: "", wide: false, log: null, sortBy: null, sortUp: true, nShown: PAGE, follow: true, bounds: {} };
const listeners = [];
let D = null; // the campaign
let metricOf = {};
const range = (from, to) => Array.from({ length: Math.max(0, to - from) }, (_, i) => from + i);
const isNarrow = matchMedia("(max-width: 600px)");

const total = () => D.designs.n + D.designs.named.length;
const isFront = (id) => id < D.designs.n_front;
// On the front, nearly as good as a cheaper design: folded under it. Numbers stay those of the front.
const isFolded = (id) => isFront(id) && D.under[id] !== id;
const kept = () => range(0, D.designs.n_front).filter((id) => !isFolded(id));
const foldedUnder = (id) => (isFront(id) ? range(0, D.designs.n_front).filter((other) => other !== id && D.under[other] === id) : []);
const foldedText = (id) => { const n = foldedUnder(id).length; return n ? `+${n.toLocaleString("en-US")} ${D.within}` : ""; };
const isEnumerated = (id) => D.designs.optimizer[id] === "exact";
const isNamed = (id) => id >= D.designs.n;
const nameOf = (id) => D.designs.named[id - D.designs.n];
const value = (id, metric) => (D.designs.metrics[metric] || [])[id];
const titleOf = (name) => metricOf[name].title;
const setting = (parameter, id) => parameter.values[parameter.codes[id]];

function labelOf(id) {
  if (isNamed(id)) return nameOf(id);
  return isFront(id) ? `#${id + 1}` : `design ${id + 1}`;
}

// The design of the front that has the same objectives as one that is not listed there.
const tieOf = (id) => range(0, D.designs.n_front).find((other) => D.objectives.every((name) => value(other, name) === value(id, name)));

function statusOf(id) {
  if (isNamed(id)) return D.designs.named_feasible[id - D.designs.n] ? "named" : "named, over a limit";
  if (isFolded(id)) return `front, ${D.within} of ${labelOf(D.under[id])}`;
  if (isFront(id)) return "front";
  if (id >= D.designs.n_feasible) return "over a limit";
  const tie = tieOf(id);
  return tie === undefined ? "dominated" : `equal to ${labelOf(tie)}`;
}

function hoverText(id) {
  const lines = [`<b>${escapeHtml(labelOf(id))}</b> ${statusOf(id)}`, wrapped(D.designs.words[id])];
  for (const name of D.objectives) {
    lines.push(`${metricOf[name].title}: ${metricText(value(id, name), metricOf[name])}`);
  }
  const broken = D.designs.broken[id - D.designs.n_feasible];
  if (broken && !isNamed(id)) lines.push(wrapped(`breaks ${broken}`));
  if (!isNamed(id)) {
    lines.push(isEnumerated(id) ? "found by enumeration, by no search" : `first by ${escapeHtml(D.designs.optimizer[id])}, seed ${D.designs.seed[id]}, evaluation ${D.designs.evaluation[id]}`);
  }
  return lines.join("<br>");
}

function listen(view) { listeners.push(view); }
function changed(what) {
  remember();
  listeners.forEach((view) => view(what));
}
function choose(id, slot = state.next) {
  state[slot] = id;
  if (slot === "A" && state.B === null) setNext("B");
  changed("chosen");
}
function setNext(slot) {
  state.next = slot;
  document.querySelector(`input[name="next"][value="${slot}"]`).checked = true;
}
function select(ids) {
  state.selected = new Set(ids);
  changed("selected");
}

// Of the table: what is shown, in which order, how many rows; and whether the page follows a run.
const KEPT = ["scope", "filter", "wide", "log", "next", "sortBy", "sortUp", "nShown", "follow", "bounds"];
// A design is remembered by its settings, because its number changes while a campaign runs.
const MOST_REMEMBERED = 500;
const keyOf = (id) => (isNamed(id) ? nameOf(id) : D.designs.parameters.map((p) => setting(p, id)).join("|"));
function remember() {
  const kept = {
    A: state.A === null ? null : keyOf(state.A), B: state.B === null ? null : keyOf(state.B),
    selected: [...state.selected].slice(0, MOST_REMEMBERED).map(keyOf), unfolded: [...state.unfolded].map(keyOf),
    ...Object.fromEntries(KEPT.map((key) => [key, state[key]])), top: window.scrollY,
    boxTop: $("rows").parentElement.scrollTop, focus: document.activeElement.id,
  };
  try { sessionStorage.setItem(`codesign ${D.name}`, JSON.stringify(kept)); } catch { /* not allowed here */ }
}
// What a reader who comes for the first time sees: the knee beside a published design.
function firstChoice() {
  if (D.picks.length) state.A = (D.picks.find((pick) => pick.key === "knee") || D.picks[0]).id;
  if (D.designs.named.length) state.B = D.designs.n;
}
function recall() {
  firstChoice();
  let kept = null;
  try { kept = JSON.parse(sessionStorage.getItem(`codesign ${D.name}`)); } catch { /* nothing to recall */ }
  if (!kept) return;
  const ids = new Map();
  for (let id = total() - 1; id >= 0; id -= 1) ids.set(keyOf(id), id);
  const known = (key) => (ids.has(key) ? ids.get(key) : null);
  KEPT.forEach((key) => { if (key in kept) state[key] = kept[key]; });
  Object.assign(state, { A: known(kept.A), B: known(kept.B) });
  for (const key of ["selected", "unfolded"]) state[key] = new Set(kept[key].map(known).filter((id) => id !== null));
  return kept;
}
