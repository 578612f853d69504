// Unpack the data, recall what the reader had chosen, then start the views.
async function unpacked(id) {
  const bytes = Uint8Array.from(atob($(id).textContent), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}
// A design is remembered by its settings, because its number changes while a campaign runs.
const KEPT = ["scope", "filter", "wide", "sortBy", "sortUp", "nShown", "limits", "follow"], MOST_REMEMBERED = 500;
const keyOf = (id) => (id >= D.designs.n ? labelOf(id) : D.designs.parameters.map((p) => p.codes[id] === undefined ? "" : p.values[p.codes[id]]).join("|"));
function remember() {
  const keys = (ids) => [...ids].slice(0, MOST_REMEMBERED).map(keyOf);
  const memory = { A: state.A === null ? null : keyOf(state.A), B: state.B === null ? null : keyOf(state.B), selected: keys(state.selected), unfolded: keys(state.unfolded), top: scrollY, boxTop: $("rows").parentElement.scrollTop, focus: document.activeElement.id };
  for (const key of KEPT) memory[key] = state[key];
  try { sessionStorage.setItem(`codesign ${D.name}`, JSON.stringify(memory)); } catch { /* not allowed here */ }
}
function recall() {
  [state.A, state.B] = D.start;
  if (innerWidth <= 600) state.B = null; // a phone shows one design at first
  let memory = null;
  try { memory = JSON.parse(sessionStorage.getItem(`codesign ${D.name}`)); } catch { /* nothing to recall */ }
  if (!memory) return null;
  const ids = new Map(range(0, total()).reverse().map((id) => [keyOf(id), id]));
  for (const key of KEPT) if (key in memory) state[key] = memory[key];
  for (const slot of ["A", "B"]) state[slot] = ids.get(memory[slot]) ?? null;
  for (const key of ["selected", "unfolded"]) state[key] = new Set(memory[key].map((item) => ids.get(item)).filter((id) => id !== undefined));
  return memory;
}
// After a reload everything is where it was; a reader is not interrupted.
function reloadWhileRunning(seconds) {
  const box = document.createElement("label");
  box.innerHTML = `<input type="checkbox" id="follow"> reload every ${seconds} s`;
  document.querySelector(".state").append(box);
  $("follow").checked = state.follow;
  $("follow").addEventListener("change", () => { state.follow = $("follow").checked; remember(); });
  let last = 0, due = false;
  for (const kind of ["keydown", "pointerdown", "pointermove", "wheel"]) window.addEventListener(kind, () => { last = Date.now(); }, { passive: true });
  setInterval(() => { due = true; }, 1000 * seconds);
  setInterval(() => { if (due && state.follow && Date.now() - last > 2000) { remember(); location.reload(); } }, 250);
}
// On paper every closed part but the table is open.
function startPrinting() {
  const opened = new Set();
  window.addEventListener("beforeprint", () => document.querySelectorAll("main details:not([open])").forEach((box) => { opened.add(box); box.open = true; }));
  window.addEventListener("afterprint", () => { opened.forEach((box) => { box.open = false; }); opened.clear(); });
}
async function start() {
  if (typeof DecompressionStream === "undefined") throw new Error("this browser is too old: Chrome 80, Firefox 113 or Safari 16.4 is needed");
  D = await unpacked("data");
  D.accounts = await unpacked("accounts");
  const memory = recall();
  ["header", "main"].forEach((name) => glueUnits(document.querySelector(name)));
  $("table").hidden = $("design").hidden = !total();
  for (const view of [startHover, startPointing, startLimits, startTable, startDesigns, startPrinting]) view();
  if (D.every_s) reloadWhileRunning(D.every_s);
  if (memory) {
    $("rows").parentElement.scrollTop = memory.boxTop || 0;
    if (memory.focus && $(memory.focus)) $(memory.focus).focus({ preventScroll: true });
    scrollTo(0, memory.top || 0);
  }
  document.documentElement.dataset.ready = "yes";
}
start().catch((error) => {
  $("problem").hidden = false;
  $("problem").textContent = `The page cannot be used in full: ${error.message}`;
  throw error;
});
