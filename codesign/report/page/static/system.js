// A system: its machines side by side with what joins them, and the way of one request.
const KIND_HATCHES = { prefill: "", decode: ".", "hand-over": "/", exchange: "x" };
const kindMarker = (kind, opacity = 1) => { return { color: color(D.palette.stages[kind] || "black"), opacity, pattern: { shape: KIND_HATCHES[kind] ?? "x", fillmode: "overlay", fgcolor: color("paper"), fgopacity: 0.75, size: 6, solidity: 0.3 } }; };

function addMachines(article, id, account, both, said) {
  const box = document.createElement("div"), system = account.system;
  article.append(box);
  const machine = (item) => `<div class="machine"><h4>${escapeHtml(item.title)}</h4><p class="hint">${escapeHtml(item.words)}</p><div class="chart"></div>${item.account.edge_words ? `<p class="hint">Edge for memory: ${escapeHtml(item.account.edge_words)}</p>` : ""}${levelsHtml(item.account)}</div>`;
  const link = (item) => `<div class="link"><span class="arrow" aria-hidden="true"></span><p><b>${escapeHtml(item.name)}</b> ${item.words.filter(Boolean).map(escapeHtml).join(", ")}</p></div>`;
  box.innerHTML = `<h3>System</h3><div class="system">${system.machines.map((item, k) => machine(item) + (system.links[k] ? link(system.links[k]) : "")).join("")}</div>`;
  box.querySelectorAll(".chart").forEach((chart, k) => {
    const item = system.machines[k], own = item.account;
    if (own.levels.length < 2 && !own.edge_mm) { chart.remove(); return; }
    const length = Math.max(...both.flatMap((each) => each.system.machines.map((other) => blocks(other.account).length)));
    draw(chart, () => diagramFigure(id, own, length, `${item.name}_`), `Memory hierarchy of the ${item.name} machines of ${said}`);
  });
}

// A trace for each kind of stage: a trace of several colors and hatches is drawn with warnings.
const byKind = (bars, opacity, values) => [...new Set(bars.map((bar) => bar.kind))].map((kind) => ({
  type: "bar", orientation: "h", name: kind.replaceAll("_", " "), showlegend: false, width: 0.55, marker: kindMarker(kind, opacity),
  ...values(range(0, bars.length).filter((k) => bars[k].kind === kind)),
}));
const stageAxis = (bars) => axis({ categoryorder: "array", categoryarray: bars.map((bar) => bar.name), autorange: "reversed", fixedrange: true });

// Bars of one request up to a time; a hand-over beside a prefill is pale until nothing else is done.
function wayFigure(bars, end, isFirst) {
  const y = bars.map((bar) => bar.name), stops = bars.map((bar) => Math.min(isFirst ? bar.first_step_end_s : bar.end_s, end));
  const least = 0.004 * end; // what is shorter is drawn as a line
  const text = bars.map((bar) => `${escapeHtml(bar.name)}: ${withPrefix(bar.start_s, "s", 3)} to ${withPrefix(bar.end_s, "s", 3)}; ${escapeHtml(bar.text)}`);
  const trace = (base, length, opacity) => byKind(bars, opacity, (mine) => ({ y: mine.map((k) => y[k]), base: mine.map((k) => base[k]), x: mine.map((k) => length[k]), hovertext: mine.map((k) => text[k]), hoverinfo: "text" }));
  const starts = bars.map((bar, k) => Math.min(bar.exposed_s, stops[k] - least)).map((start) => Math.max(0, start));
  const traces = [
    ...trace(bars.map((bar) => bar.start_s), bars.map((bar) => bar.exposed_s - bar.start_s), 0.35),
    ...trace(starts, starts.map((start, k) => Math.max(least, stops[k] - start)), 1),
  ];
  const annotations = isFirst ? [] : bars.map((bar) => {
    const fits = bar.end_s < end / 2;
    return { x: bar.end_s, y: bar.name, text: escapeHtml(bar.text), showarrow: false, xanchor: fits ? "left" : "right", xshift: fits ? 4 : -4, bgcolor: color("paper"), font: { size: 11, color: color("ink") }, borderpad: 1 };
  });
  return { traces, annotations, barmode: "overlay", height: 70 + 34 * bars.length, dragmode: false, margin: { l: 10, r: 16, t: 6, b: 34 },
    xaxis: axis({ range: [0, 1.03 * end], tickformat: secondsTicks(end), ticksuffix: "s", nticks: 5, fixedrange: true }), yaxis: stageAxis(bars) };
}

function busyFigure(bars) {
  const shares = bars.map((bar) => 100 * bar.utilization);
  const traces = byKind(bars, 1, (mine) => ({ y: mine.map((k) => bars[k].name), x: mine.map((k) => shares[k]), text: mine.map((k) => `${plainNumber(shares[k], 3)} %`), textposition: "outside", cliponaxis: false, constraintext: "none", hoverinfo: "none" }));
  return { traces, height: 70 + 34 * bars.length, dragmode: false, margin: { l: 10, r: 46, t: 6, b: 34 },
    xaxis: axis({ range: [0, 112], ticksuffix: " %", tickvals: [0, 50, 100], fixedrange: true }), yaxis: stageAxis(bars) };
}

function addWay(article, account, both, said) {
  const box = document.createElement("div"), { bars, second_token_s: second, limit } = account.system;
  article.append(box);
  const end = maximum(both.map((item) => maximum(item.system.bars.map((bar) => bar.end_s))));
  const first = maximum(both.map((item) => item.system.second_token_s));
  const part = (title) => `<h4>${title}</h4><div class="chart"></div>`;
  box.innerHTML = `<h3>One request that waits for nobody</h3>${second ? part("To its second token") : ""}${part("The whole request")}${part(`Share of the time busy: ${escapeHtml(limit)}`)}`;
  const charts = [...box.querySelectorAll(".chart")];
  if (second) draw(charts.shift(), () => wayFigure(bars, first, true), `Time of a request to its second token in ${said}`);
  draw(charts[0], () => wayFigure(bars, end, false), `Time of a request in ${said}`);
  draw(charts[1], () => busyFigure(bars), `Share of the time in which pools and links of ${said} are busy`);
}

// Machines, time line, then the breakdowns of each pool's machine.
const OF_MACHINES = ["roofline", "time", "sides", "traffic", "formats"];
function addSystem(article, id, account, both, said) {
  addMachines(article, id, account, both, said);
  addWay(article, account, both, said);
  account.system.machines.forEach(({ name, account: own }, k) => {
    const peers = both.map((item) => item.system.machines[k].account);
    for (const key of OF_MACHINES) {
      const part = PARTS[key](id, own, peers);
      addPart(article, part && { ...part, title: `${part.title}: a ${name} machine` }, said);
    }
    const power = own.power.length && { title: `Power by component: a ${name} machine`, figure: () => powerFigure(own, peers), after: own.power_notes.map((note) => `<p class="warning">${escapeHtml(note)}</p>`).join("") };
    addPart(article, power, said);
  });
  article.style.gridRow = `span ${4 + (OF_MACHINES.length + 1) * account.system.machines.length}`;
}
