// The designs as a table: sorted, filtered, copied, downloaded.
const KEY_METRICS = ["batch_size", "tokens_per_joule_tdp"];

const SCOPES = {
  front: ["the front", () => kept().flatMap((id) => (state.unfolded.has(id) ? [id, ...foldedUnder(id)] : [id]))],
  whole: ["the whole front, nothing folded", () => range(0, D.designs.n_front)],
  selected: ["what is selected", () => [...state.selected].sort((a, b) => a - b)],
  named: ["named designs", () => range(D.designs.n, total())],
  all: ["all designs of the page", () => range(0, total())],
};

const metricNamed = (word, names) => names.find((item) => item === word) || names.find((item) => item.startsWith(word)) || names.find((item) => item.includes(word));

// "hbf tdp<500": every word must occur, every limit must hold.
function readFilter(text) {
  const tests = [], problems = [];
  for (const term of text.trim().toLowerCase().split(/\s+/).filter(Boolean)) {
    const limit = term.match(/^([a-z_]+)(<=|>=|<|>)(.*)$/);
    if (!limit) { tests.push((id) => D.designs.words[id].toLowerCase().includes(term) || labelOf(id).toLowerCase() === term); continue; }
    const [, word, sign, number] = limit;
    const names = Object.keys(D.designs.metrics);
    const name = metricNamed(word, names);
    const bound = Number(number);
    if (!name || number === "" || Number.isNaN(bound)) { problems.push(name ? `“${number}” is no number` : `no metric is called “${word}”: ${names.slice(0, 4).join(", ")}, …`); continue; }
    const holds = { "<": (v) => v < bound, "<=": (v) => v <= bound, ">": (v) => v > bound, ">=": (v) => v >= bound }[sign];
    tests.push((id) => isNumber(value(id, name)) && holds(value(id, name)));
  }
  return { keep: (id) => tests.every((test) => test(id)), problem: problems.join("; ") };
}

function columns() {
  const metrics = Object.keys(D.designs.metrics);
  const main = metrics.filter((name) => D.objectives.includes(name));
  const order = [...D.objectives.filter((name) => main.includes(name)), ...metrics.filter((name) => !main.includes(name))];
  const shown = state.wide ? order : order.filter((name) => main.includes(name) || KEY_METRICS.includes(name));
  const metricColumns = shown.map((name) => ({ title: metricOf[name].title, hint: metricOf[name].meaning, number: true, raw: (id) => value(id, name), text: (id) => metricText(value(id, name), metricOf[name]) }));
  const settings = state.wide ? D.designs.parameters.filter((p) => p.values.length > 1).map((p) => ({ title: p.title, number: false, raw: (id) => p.codes[id], text: (id) => setting(p, id) || "–" })) : [];
  const words = { title: "design", number: false, raw: (id) => D.designs.words[id], text: (id) => D.designs.words[id], cell: "words" };
  // On a phone the words have a line of their own under each row.
  const first = isNarrow.matches ? metricColumns : [words, ...metricColumns];
  return [
    { title: "#", number: false, raw: (id) => id, text: labelOf, cell: "nowrap" },
    ...first, ...settings,
    { title: "status", number: false, raw: statusOf, text: (id) => statusOf(id), cell: "nowrap" },
    { title: "found by", number: false, raw: (id) => D.designs.optimizer[id], text: (id) => (isEnumerated(id) ? "enumeration" : D.designs.optimizer[id] || "–"), cell: "nowrap" },
  ];
}

function tableIds() {
  const filter = readFilter(state.filter);
  const ids = SCOPES[state.scope][1]().filter(filter.keep);
  const by = columns().find((column) => column.title === state.sortBy);
  if (by) {
    const sign = state.sortUp ? 1 : -1;
    const key = (id) => { const v = by.raw(id); return v === null || v === undefined || v === "" ? null : v; };
    ids.sort((a, b) => {
      const [x, y] = [key(a), key(b)];
      if (x === null || y === null) return (x === null) - (y === null) || a - b; // absent ones last
      return (x < y ? -sign : x > y ? sign : 0) || a - b;
    });
  }
  return { ids, problem: filter.problem };
}

function headHtml() {
  const cell = (column) => {
    const sorted = column.title === state.sortBy ? (state.sortUp ? "ascending" : "descending") : "none";
    const arrow = { ascending: " ▲", descending: " ▼", none: "" }[sorted];
    return `<th scope="col" aria-sort="${sorted}" class="${column.number ? "number" : ""}" title="${escapeHtml(column.hint || "")}"><button type="button" data-sort="${escapeHtml(column.title)}">${escapeHtml(column.title)}${arrow}</button></th>`;
  };
  return `<tr><th scope="col"><span class="unseen">selected</span><span aria-hidden="true">✓</span></th><th scope="col">compare</th>${columns().map(cell).join("")}</tr>`;
}

// What is folded under a design, to be shown below it.
function unfoldHtml(id) {
  const text = state.scope === "front" ? foldedText(id) : "";
  return text && ` <button type="button" data-unfold="${id}" aria-expanded="${state.unfolded.has(id)}">${text}</button>`;
}

function rowHtml(id) {
  const pick = ["A", "B"].map((slot) => `<button type="button" data-slot="${slot}" data-id="${id}" aria-pressed="${state[slot] === id}" aria-label="Take ${escapeHtml(labelOf(id))} as design ${slot}">${slot}</button>`).join(" ");
  const cells = columns().map((column) => `<td class="${column.number ? "number" : column.cell || "nowrap"}">${escapeHtml(column.text(id))}${column.cell === "words" ? unfoldHtml(id) : ""}</td>`).join("");
  const ticked = state.selected.has(id);
  const line = isNarrow.matches ? `<tr class="words${ticked ? " selected" : ""}"><td colspan="${columns().length + 2}"><div>${escapeHtml(D.designs.words[id])}${unfoldHtml(id)}</div></td></tr>` : "";
  return `<tr class="${ticked ? "selected" : ""}"><td><input type="checkbox" data-select="${id}" aria-label="Select ${escapeHtml(labelOf(id))}" ${ticked ? "checked" : ""}></td><td class="nowrap">${pick}</td>${cells}</tr>${line}`;
}

function showTable() {
  const { ids, problem } = tableIds();
  const focused = document.activeElement && document.activeElement.dataset ? { ...document.activeElement.dataset } : {};
  $("rows").tHead.innerHTML = headHtml();
  $("rows").tBodies[0].innerHTML = ids.slice(0, state.nShown).map(rowHtml).join("");
  const rest = ids.length - Math.min(ids.length, state.nShown);
  $("more").hidden = rest === 0;
  $("more").textContent = `Show ${Math.min(rest, 4 * PAGE)} more of ${rest.toLocaleString("en-US")}`;
  $("table-count").textContent = problem || `${ids.length.toLocaleString("en-US")} designs.`;
  // Whoever came by keyboard stays where they were.
  const again = focused.unfold ? `[data-unfold="${focused.unfold}"]` : focused.sort ? `[data-sort="${CSS.escape(focused.sort)}"]` : focused.select ? `[data-select="${focused.select}"]` : focused.slot ? `[data-slot="${focused.slot}"][data-id="${focused.id}"]` : null;
  const target = again && $("rows").querySelector(again);
  if (target) target.focus({ preventScroll: true });
}

function csvText(ids) {
  const quote = (cell) => (/[",\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell);
  const metrics = Object.keys(D.designs.metrics), parameters = D.designs.parameters;
  const head = ["design", "status", "words", ...parameters.map((p) => p.name), ...metrics, "optimizer", "seed", "evaluation"];
  const line = (id) => [labelOf(id), statusOf(id), D.designs.words[id], ...parameters.map((p) => setting(p, id)), ...metrics.map((name) => value(id, name) ?? ""), D.designs.optimizer[id], D.designs.seed[id] ?? "", D.designs.evaluation[id] ?? ""];
  return [head, ...ids.map(line)].map((cells) => cells.map((cell) => quote(String(cell))).join(",")).join("\n") + "\n";
}

function download(text, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

async function copy(text) {
  try { await navigator.clipboard.writeText(text); } catch {
    // Not every browser lets a local file write to the clipboard that way.
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

// An example that means something here: a limit on the first objective, amid its values.
function exampleFilter() {
  const name = D.objectives[0], short = name.split("_")[0];
  const known = Object.keys(D.designs.metrics), values = range(0, D.designs.n_front).map((id) => value(id, name)).filter(isNumber);
  if (!values.length) return;
  const word = metricNamed(short, known) === name ? short : name;
  const limit = `${word}${metricOf[name].sense === "maximize" ? ">" : "<"}${Number(values.sort((a, b) => a - b)[values.length >> 1].toPrecision(2))}`;
  $("filter").placeholder = `${D.designs.words[0].toLowerCase().split(/[ ,]/)[0]} ${limit}`;
  $("filter-example").textContent = limit;
}

function startTable() {
  const table = $("rows");
  const named = D.designs.named.length > 0;
  $("scope").innerHTML = Object.entries(SCOPES).filter(([key]) => ({ named, whole: range(0, D.designs.n_front).some(isFolded) })[key] ?? true).map(([key, [text]]) => `<option value="${key}">${text}</option>`).join("");
  if (!D.designs.n_front && state.scope === "front") state.scope = "all";
  $("scope").value = state.scope;
  $("filter").value = state.filter;
  $("wide").checked = state.wide;
  exampleFilter();
  const set = (key, found) => { state[key] = found; state.nShown = PAGE; remember(); showTable(); };
  $("scope").addEventListener("change", () => set("scope", $("scope").value));
  $("filter").addEventListener("input", () => set("filter", $("filter").value));
  $("wide").addEventListener("change", () => set("wide", $("wide").checked));
  $("more").addEventListener("click", () => { state.nShown += 4 * PAGE; showTable(); });
  $("select-shown").addEventListener("click", () => select(tableIds().ids));
  $("download").addEventListener("click", () => download(csvText(tableIds().ids), `${D.name}.csv`));
  $("copy").addEventListener("click", async () => {
    const { ids } = tableIds();
    await copy(csvText(ids));
    $("table-count").textContent = `${ids.length.toLocaleString("en-US")} designs copied.`;
  });
  table.addEventListener("click", (event) => {
    const { sort, slot, id, unfold } = event.target.dataset;
    if (sort) { state.sortUp = state.sortBy === sort ? !state.sortUp : true; state.sortBy = sort; remember(); showTable(); }
    if (slot) choose(Number(id), slot);
    if (unfold) { const ids = state.unfolded; if (!ids.delete(Number(unfold))) ids.add(Number(unfold)); remember(); showTable(); }
  });
  table.addEventListener("change", (event) => {
    const id = Number(event.target.dataset.select);
    if (event.target.checked) state.selected.add(id); else state.selected.delete(id);
    changed("selected");
  });
  isNarrow.addEventListener("change", showTable);
  listen(showTable);
  showTable();
}
