// Unpack, then show.
async function unpacked(id) {
  const letters = atob($(id).textContent);
  const bytes = Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

function reloadWhileRunning(seconds) {
  const box = document.createElement("label");
  box.innerHTML = `<input type="checkbox" id="follow" checked> reload every ${seconds} s`;
  document.querySelector(".state").append(box);
  setInterval(() => { if ($("follow").checked) { remember(); location.reload(); } }, 1000 * seconds);
}

async function start() {
  if (typeof DecompressionStream === "undefined") throw new Error("this browser is too old for the page: Chrome 80, Firefox 113 or Safari 16.4 is needed");
  D = JSON.parse(await unpacked("data"));
  metricOf = Object.fromEntries(D.metrics.map((metric) => [metric.name, metric]));
  const script = document.createElement("script");
  script.textContent = await unpacked("library");
  document.head.append(script);
  // Charts need their width, so the page shows before they are drawn.
  $("main").hidden = false;
  $("nav").hidden = false;
  const top = recall();
  for (const view of [startFront, startTable, startLines, startChosen, startOptimizers]) {
    view();
    await new Promise((done) => setTimeout(done)); // the browser shows what there is so far
  }
  watchLook();
  if (D.every_s) reloadWhileRunning(D.every_s);
  if (top) window.scrollTo(0, top);
  document.documentElement.dataset.ready = "yes";
}
start().catch((error) => {
  $("problem").hidden = false;
  $("problem").textContent = `The charts cannot be shown: ${error.message}`;
  throw error;
});
