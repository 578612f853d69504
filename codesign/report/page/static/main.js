// Unpack, then show.
const QUIET_MS = 2000;
async function unpacked(id) {
  const letters = atob($(id).textContent);
  const bytes = Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

function reloadWhileRunning(seconds) {
  const box = document.createElement("label");
  box.innerHTML = `<input type="checkbox" id="follow"> reload every ${seconds} s`;
  document.querySelector(".state").append(box);
  $("follow").checked = state.follow;
  $("follow").addEventListener("change", () => { state.follow = $("follow").checked; remember(); });
  // Nobody is torn from what they are doing.
  let last = 0, due = false;
  for (const kind of ["keydown", "pointerdown", "pointermove", "wheel"]) window.addEventListener(kind, () => { last = Date.now(); }, { passive: true });
  setInterval(() => { due = true; }, 1000 * seconds);
  setInterval(() => { if (due && state.follow && Date.now() - last > QUIET_MS) { remember(); location.reload(); } }, 250);
}

// After a reload everything is where it was.
function comeBack(kept) {
  $("rows").parentElement.scrollTop = kept.boxTop || 0;
  const focused = kept.focus && $(kept.focus);
  if (focused) focused.focus({ preventScroll: true });
  window.scrollTo(0, kept.top || 0);
}

async function start() {
  if (typeof DecompressionStream === "undefined") throw new Error("this browser is too old for the page: Chrome 80, Firefox 113 or Safari 16.4 is needed");
  D = JSON.parse(await unpacked("data"));
  D.accounts = JSON.parse(await unpacked("accounts"));
  metricOf = Object.fromEntries(D.metrics.map((metric) => [metric.name, metric]));
  const script = document.createElement("script");
  script.textContent = await unpacked("library");
  document.head.append(script);
  // Charts need their width, so the page shows before they are drawn.
  $("main").hidden = false;
  const kept = recall();
  for (const view of [startCards, startLimits, startWhy, startFront, startChoices, startLines, startTable, startChosen, startOptimizers]) {
    view();
    await new Promise((done) => setTimeout(done)); // the browser shows what there is so far
  }
  document.querySelectorAll("#nav a").forEach((link) => { link.hidden = document.querySelector(link.hash).hidden; });
  setNext(state.next);
  watchLook();
  if (D.every_s) reloadWhileRunning(D.every_s);
  if (kept) comeBack(kept);
  document.documentElement.dataset.ready = "yes";
}
start().catch((error) => {
  $("problem").hidden = false;
  $("problem").textContent = `The charts cannot be shown: ${error.message}`;
  throw error;
});
