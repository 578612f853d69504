// The designs as a table: sorted, filtered, copied, downloaded.
const SCOPES = {
  front: ["the front", () => range(0, D.designs.n_front).filter((id) => !isFolded(id)).flatMap((id) => (state.unfolded.has(id) ? [id, ...foldedUnder(id)] : [id]))],
  whole: ["the whole front, nothing hidden", () => range(0, D.designs.n_front)],
  selected: ["selected designs", () => [...state.selected].sort((a, b) => a - b)],
  named: ["named designs", () => range(D.designs.n, total())],
  all: ["all designs of the page", () => range(0, total())],
};
const ARROWS = { ascending: " ▲", descending: " ▼", none: "" };
const MAIN = ["batch_size", "tokens_per_joule_tdp"];

// "hbf tdp<500": every word must occur, every limit must hold.
function readFilter(text) {
  const tests = [], problems = [], names = D.metrics.map((metric) => metric.name);
  for (const term of text.trim().toLowerCase().split(/\s+/).filter(Boolean)) {
    const limit = term.match(/^([a-z_]+)(<=|>=|<|>)(.*)$/);
    if (!limit) { tests.push((id) => D.designs.words[id].toLowerCase().includes(term) || labelOf(id).toLowerCase() === term); continue; }
    const [, word, sign, number] = limit, bound = Number(number);
    const name = names.find((item) => item === word) || names.find((item) => item.startsWith(word)) || names.find((item) => item.includes(word));
    if (!name || number === "" || Number.isNaN(bound)) { problems.push(name ? `“${number}” is no number` : `no metric is called “${word}”: ${names.slice(0, 4).join(", ")}, …`); continue; }
    const holds = { "<": (v) => v < bound, "<=": (v) => v <= bound, ">": (v) => v > bound, ">=": (v) => v >= bound }[sign];
    tests.push((id) => D.designs.values[name][id] !== null && holds(D.designs.values[name][id]));
  }
  return { keep: (id) => tests.every((test) => test(id)), problem: problems.join("; ") };
}
function columns() {
  const metrics = D.metrics.filter((metric) => state.wide || metric.objective || MAIN.includes(metric.name));
  const settings = state.wide ? D.designs.parameters.filter((p) => p.values.length > 1) : [];
  return [
    { title: "#", raw: (id) => id, text: labelOf },
    { title: "design", raw: (id) => D.designs.words[id], text: (id) => D.designs.words[id], cell: "words" },
    ...metrics.map(({ name, title, meaning }) => ({ title, hint: meaning, cell: "number", raw: (id) => D.designs.values[name][id], text: (id) => D.designs.texts[name][id] })),
    ...settings.map((p) => ({ title: p.title, raw: (id) => p.codes[id], text: (id) => p.values[p.codes[id]] || "–" })),
    { title: "status", raw: statusOf, text: statusOf },
    { title: "found by", raw: (id) => D.designs.found_by[id], text: (id) => D.designs.found_by[id] },
  ];
}
function tableIds() {
  const filter = readFilter(state.filter), ids = SCOPES[state.scope][1]().filter(filter.keep);
  const by = columns().find((column) => column.title === state.sortBy);
  if (by) {
    const sign = state.sortUp ? 1 : -1, isAbsent = (v) => v === null || v === undefined || v === "";
    ids.sort((a, b) => {
      const [x, y] = [by.raw(a), by.raw(b)];
      if (isAbsent(x) || isAbsent(y)) return isAbsent(x) - isAbsent(y) || a - b;
      return (x < y ? -sign : x > y ? sign : 0) || a - b;
    });
  }
  return { ids, problem: filter.problem };
}
function rowHtml(id) {
  const slots = ["A", "B"].map((slot) => `<button type="button" data-slot="${slot}" data-number="${id}" aria-pressed="${state[slot] === id}" aria-label="Take ${escapeHtml(labelOf(id))} as design ${slot}">${slot}</button>`).join(" ");
  const n = state.scope === "front" && isFront(id) ? foldedUnder(id).length : 0;
  const unfold = n ? ` <button type="button" data-unfold="${id}" aria-expanded="${state.unfolded.has(id)}">+${count(n)} ${D.within}</button>` : "";
  const cells = columns().map((column) => `<td class="${column.cell || ""}">${escapeHtml(column.text(id))}${column.cell === "words" ? unfold : ""}</td>`).join("");
  return `<tr class="${state.selected.has(id) ? "selected" : ""}"><td><input type="checkbox" data-select="${id}" aria-label="Select ${escapeHtml(labelOf(id))}" ${state.selected.has(id) ? "checked" : ""}></td><td class="slots">${slots}</td>${cells}</tr>`;
}
function showTable() {
  const { ids, problem } = tableIds(), focused = document.activeElement && { ...document.activeElement.dataset };
  const head = columns().map((column) => {
    const sorted = column.title === state.sortBy ? (state.sortUp ? "ascending" : "descending") : "none";
    return `<th scope="col" aria-sort="${sorted}" class="${column.cell || ""}" title="${escapeHtml(column.hint || "")}"><button type="button" data-sort="${escapeHtml(column.title)}">${escapeHtml(column.title)}${ARROWS[sorted]}</button></th>`;
  }).join("");
  $("rows").tHead.innerHTML = `<tr><th scope="col"><span class="unseen">selected</span><span aria-hidden="true">✓</span></th><th scope="col"><span class="unseen">compare</span></th>${head}</tr>`;
  $("rows").tBodies[0].innerHTML = ids.slice(0, state.nShown).map(rowHtml).join("");
  const rest = Math.max(0, ids.length - state.nShown);
  $("more").hidden = !rest;
  if (rest) $("more").textContent = `Show ${rest > 200 ? `200 of the other ${count(rest)}` : `the other ${count(rest)}`}`;
  $("table-count").textContent = problem || `${count(ids.length)} design${ids.length === 1 ? "" : "s"}.`;
  // A reader who came by keyboard stays where they were.
  const key = ["unfold", "sort", "select", "slot"].find((name) => focused && focused[name] !== undefined);
  const number = key === "slot" ? `[data-number="${focused.number}"]` : "";
  const target = key && $("rows").querySelector(`[data-${key}="${CSS.escape(focused[key])}"]${number}`);
  if (target) target.focus({ preventScroll: true });
}
function csvText(ids) {
  const quote = (cell) => (/[",\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell), { parameters, values } = D.designs;
  const head = ["design", "status", "words", ...parameters.map((p) => p.name), ...Object.keys(values), "found_by", "evaluation"];
  const line = (id) => [labelOf(id), statusOf(id), D.designs.words[id], ...parameters.map((p) => p.values[p.codes[id]]), ...Object.values(values).map((column) => column[id] ?? ""), D.designs.found_by[id], D.designs.evaluation[id] ?? ""];
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
    const box = document.createElement("textarea");
    box.value = text;
    document.body.append(box);
    box.select();
    document.execCommand("copy");
    box.remove();
  }
}
function startTable() {
  $("scope").innerHTML = Object.entries(SCOPES).filter(([key]) => key !== "named" || D.designs.named.length).map(([key, [title]]) => `<option value="${key}">${title}</option>`).join("");
  if (!D.designs.n_front && state.scope === "front") state.scope = "all";
  $("scope").value = state.scope;
  $("filter").value = state.filter;
  $("wide").checked = state.wide;
  const update = (change) => { Object.assign(state, change); remember(); showTable(); };
  $("scope").addEventListener("change", () => update({ scope: $("scope").value, nShown: 50 }));
  $("filter").addEventListener("input", () => update({ filter: $("filter").value, nShown: 50 }));
  $("wide").addEventListener("change", () => update({ wide: $("wide").checked }));
  $("more").addEventListener("click", () => update({ nShown: state.nShown + 200 }));
  $("select-shown").addEventListener("click", () => select(tableIds().ids));
  $("download").addEventListener("click", () => download(csvText(tableIds().ids), `${D.name}.csv`));
  $("copy").addEventListener("click", async () => {
    const { ids } = tableIds();
    await copy(csvText(ids));
    $("table-count").textContent = `${count(ids.length)} design${ids.length === 1 ? "" : "s"} copied.`;
  });
  $("rows").addEventListener("click", (event) => {
    const { sort, slot, number, unfold } = event.target.dataset;
    if (sort) update({ sortUp: state.sortBy === sort ? !state.sortUp : true, sortBy: sort });
    if (slot) take(Number(number), slot);
    if (unfold) { if (!state.unfolded.delete(Number(unfold))) state.unfolded.add(Number(unfold)); update({}); }
  });
  $("rows").addEventListener("change", (event) => { if (event.target.dataset.select) toggle(Number(event.target.dataset.select)); });
  listeners.push(showTable);
  showTable();
}
