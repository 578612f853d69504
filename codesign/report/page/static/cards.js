// The first screen: recommended designs, what limits them, how sure they are.
const PICK_TITLES = { frugal: "Frugal", knee: "Knee", fastest: "Fastest", best: "Best" };
const MOST_FIGURES = 7, DECIDES = 0.1, COMMON = 0.995;
const pickOf = (id) => D.picks.find((pick) => pick.id === id);
const percent = (share, digits = 3) => (share > 0 && share < 0.001 ? "< 0.1 %" : `${plainNumber(100 * share, digits)} %`);
const signed = (share) => `${share >= 0 ? "+" : "−"}${plainNumber(Math.abs(100 * share), Math.abs(share) >= 0.0995 ? 2 : 1)} %`;
const shareText = (share) => (share > COMMON ? "all" : percent(share));

// The ends of an interval in the unit in which the number is printed.
function rangeText(ends, number, metric) {
  const unit = shortText(number, metric).split(" ")[1] || "";
  const texts = ends.map((end) => shortText(end, metric).split(" "));
  return texts.every(([, own]) => (own || "") === unit) ? `${texts[0][0]}–${texts[1][0]}` : texts.map((parts) => parts.join(" ")).join(" – ");
}
function figureHtml(name, number, ends, note) {
  const metric = metricOf[name], wide = ends && Math.abs(ends[1] - ends[0]) > 0.005 * Math.abs(number);
  const range = wide ? ` <span class="quiet">${rangeText(ends, number, metric)}</span>` : "";
  return `<div class="${metric.objective ? "main-figure" : ""}"><dt>${escapeHtml(metric.title)}</dt><dd>${escapeHtml(shortText(number, metric))}${range}${note ? ` <span class="quiet">${escapeHtml(note)}</span>` : ""}</dd></div>`;
}

// What a design's time goes to, from its account.
function boundText(account) {
  if (account.system) return account.system.limit;
  if (account.pass) return passText(account.pass);
  const sums = {};
  for (const row of account.operators) if (row.time_s > 0) sums[row.bound] = (sums[row.bound] || 0) + row.time_s;
  const all = Object.values(sums).reduce((a, b) => a + b, 0);
  const parts = Object.entries(sums).sort((a, b) => b[1] - a[1]).filter(([, time]) => time > 0.02 * all).map(([bound, time]) => `${bound} ${percent(time / all, 2)}`);
  return all ? `operators' time: ${parts.join(", ")}` : "";
}
const seconds = (time) => withPrefix(time, "s", 3);
// Units that work side by side are each busy for a share of the pass; the busiest one limits it.
function passText({ pass_s, matrix_s, vector_s, bounds }) {
  const busy = (name, time) => `${name} busy ${percent(time / pass_s)}`;
  const by = Object.entries(bounds).sort((a, b) => b[1] - a[1]).filter(([, time]) => time > 0.02 * matrix_s);
  const parts = by.map(([bound, time]) => (by.length > 1 ? `${bound} ${percent(time / matrix_s, 2)}` : bound));
  const units = [[`${busy("array and memories", matrix_s)} (bound by ${parts.join(", ")})`, matrix_s], [busy("vector unit", vector_s), vector_s]];
  return `${seconds(pass_s)} a pass: ${units.filter(([, time]) => time > 0).sort((a, b) => b[1] - a[1]).map(([text]) => text).join(", ")}`;
}
const shortPass = ({ pass_s, matrix_s, vector_s }) => `Busy: ${[["array + memories", matrix_s], ["vector unit", vector_s]].sort((a, b) => b[1] - a[1]).filter(([, time]) => time > 0).map(([name, time]) => `${name} ${percent(time / pass_s)}`).join(", ")}`;
function limitLines(pick, account, isShort) {
  const lines = account ? [isShort && account.pass ? shortPass(account.pass) : boundText(account)] : [];
  for (const { words, left } of pick.close || []) lines.push(left > 0.0005 ? `${words}: ${percent(left, 2)} left` : `${words}: at the limit`);
  return lines.filter(Boolean);
}
// What another reading makes of a number: "50× lower", "+3 %".
const FAR = 2;
function ratioText(name, ratio) {
  const factor = Math.max(ratio, 1 / ratio);
  return `${metricOf[name].title} ${factor >= FAR ? `${plainNumber(factor, 2)}× ${ratio > 1 ? "higher" : "lower"}` : signed(ratio - 1)}`;
}
const moved = (ratios, by) => Object.entries(ratios).filter(([, ratio]) => Math.abs(ratio - 1) > by).map(([name, ratio]) => ratioText(name, ratio));
const changeWords = (ratios) => moved(ratios, 0.001).join(", ") || "the same numbers";
// Those with which a design is compared: all to choose from, or where that takes long the recommended ones.
const comparedText = (n) => (n > Math.max(1, D.picks.length) ? `the ${n.toLocaleString("en-US")} designs to choose from` : `the ${n} recommended designs`);
const holds = (verdict) => verdict.feasible && verdict.best;
function choiceText(verdict) {
  if (!verdict.feasible) return "the choice changes, as it breaks a limit";
  return verdict.best ? "the choice holds" : `the choice changes, another of ${comparedText(verdict.n)} is better`;
}
function worstText({ beyond, limit, n, n_keeping, numbers }) {
  const state = beyond === null ? `no value for ${limit}` : beyond > 0 ? `${percent(beyond, 2)} beyond ${limit}` : "limits kept";
  return `All ${numbers} uncertain numbers at their worst ends: ${state}${n > 1 ? ` (by ${n_keeping === n ? "all" : `${n_keeping} of`} ${n})` : ""}`;
}
const capital = (text) => text.slice(0, 1).toUpperCase() + text.slice(1);
function sureLines(pick) {
  const lines = [];
  if (pick.ranges) {
    const { samples, kept, best } = pick.ranges;
    lines.push(worstText(pick.ranges), `${samples} draws over their ranges: limits kept in ${shareText(kept)}, the choice holds in ${shareText(best)}`);
  }
  for (const verdict of pick.verdicts || []) lines.push(`${capital(verdict.reading)}: ${choiceText(verdict)}; ${changeWords(verdict.ratios)}`);
  return lines.concat((D.omitted || []).map((text) => `Not asked: ${text}`));
}
// How sure in one line, for little room.
function shortSure(pick) {
  const verdicts = pick.verdicts || [], names = (list) => list.map(({ name }) => name).join(", ");
  const kept = verdicts.filter(holds), lost = verdicts.filter((verdict) => !holds(verdict));
  const held = [pick.ranges ? `${shareText(pick.ranges.best)}${pick.ranges.best > COMMON ? "" : " of"} draws` : "", names(kept)].filter(Boolean);
  return [held.length ? `Choice holds: ${held.join(", ")}` : "", lost.length ? `Changes: ${names(lost)}` : ""].filter(Boolean).join(". ");
}
// What the words of all cards mean, once.
function sureNote() {
  const { ranges, verdicts = [] } = D.picks[0] || {}, notes = [];
  const n = Math.max(ranges ? ranges.n : 0, ...verdicts.map((verdict) => verdict.n)), few = verdicts.filter((verdict) => verdict.n < n);
  if (n > 1) notes.push(`A choice holds if it keeps its limits and no other of ${comparedText(n)}${few.length ? ` (${few.map((item) => `${item.reading}: of ${comparedText(item.n)}`).join(", ")})` : ""} is at least as good in everything.`);
  for (const { reading, assumes } of verdicts) if (assumes) notes.push(`${capital(reading)}: ${assumes}.`);
  if (ranges) notes.push(`Small numbers: 5 to 95 % of ${ranges.samples} draws over the ranges of ${ranges.numbers} numbers; a figure without them is moved by less than 0.5 %.`);
  return notes.join(" ");
}
function badges(pick, account) {
  const own = account ? (account.system ? account.system.machines.flatMap((item) => item.account.busy || []) : account.busy || []) : [];
  const found = own.map(({ name, share }) => [`${name} busy ${percent(share, 3)} of the time`, "It needs more time than the phase has: the model overlaps it, or leaves it out of the time."]);
  for (const verdict of pick.verdicts || []) {
    const far = moved(verdict.ratios, DECIDES), why = verdict.assumes ? `It assumes: ${verdict.assumes}.` : "";
    if (!holds(verdict)) found.push([`${verdict.reading}: the choice changes`, why]);
    else if (far.length) found.push([`${verdict.reading}: ${far.join(", ")}`, `${why} The choice holds.`.trim()]);
  }
  return found;
}
// What other readings make of its numbers, whatever else there is to choose.
function changeBadges(pick) {
  return (pick.verdicts || []).map(({ reading, ratios, assumes }) => [reading, moved(ratios, DECIDES), assumes]).filter(([, far]) => far.length)
    .map(([reading, far, assumes]) => [`${reading}: ${far.join(", ")}`, assumes ? `It assumes: ${assumes}.` : ""]);
}
const badgeHtml = (list) => list.map(([text, why]) => `<span class="badge" title="${escapeHtml(why)}">⚠ ${escapeHtml(text)}</span>`).join(" ");

const listHtml = (title, lines) => (lines.length ? `<h4>${title}</h4><ul>${lines.map((line) => `<li>${escapeHtml(line)}</li>`).join("")}</ul>` : "");
// A card: { key, title, reason, id, words, note, command, figures: [[metric, value, ends, note]], limits, sure, short, badges }.
function cardHtml(card) {
  const main = card.figures.filter(([name]) => metricOf[name].objective), rest = card.figures.filter(([name]) => !metricOf[name].objective);
  const figures = (list) => (list.length ? `<dl class="figures">${list.map((figure) => figureHtml(...figure)).join("")}</dl>` : "");
  const hasPage = isNumber(card.id), label = hasPage ? escapeHtml(labelOf(card.id)) : "";
  const link = hasPage ? `<a class="card-link" href="#chosen" data-take="${card.id}" aria-label="Details of ${label}" title="Details of ${label}">${label} ›</a>` : "";
  const command = card.command ? `<p class="card-links">Its details: <code>${escapeHtml(card.command)}</code></p>` : "";
  const more = `${card.note ? `<p>${escapeHtml(card.note)}</p>` : ""}<div class="badges">${badgeHtml(card.badges)}</div><ul class="short-words">${card.short.filter(Boolean).map((line) => `<li>${escapeHtml(line)}</li>`).join("")}</ul><details class="card-more"><summary>Figures, how sure</summary>${figures(rest)}${listHtml("What limits it", card.limits)}${listHtml("How sure", card.sure)}${command}</details>`;
  return `<article class="card" style="--pick: ${color(D.palette.picks[card.key] || "blue")}"><div class="card-head"><h3>${escapeHtml(card.title)} <span class="quiet">${escapeHtml(card.reason)}</span></h3>${link}</div><p class="card-words ${hasPage ? "long-words" : ""}">${escapeHtml(card.words)}</p>${hasPage ? `<p class="short-words">${escapeHtml(D.designs.words[card.id])}</p>` : ""}${figures(main)}${more}</article>`;
}
function cardOf(pick) {
  const account = accountOf(pick.id), ends = pick.ranges ? pick.ranges.intervals : {};
  const shown = D.figures.filter((name) => isNumber(value(pick.id, name))).slice(0, MOST_FIGURES);
  return {
    key: pick.key, title: PICK_TITLES[pick.key], reason: pick.reason, id: pick.id, words: pick.words,
    figures: shown.map((name) => [name, value(pick.id, name), ends[name]]), limits: limitLines(pick, account), sure: sureLines(pick), short: [...limitLines(pick, account, true), shortSure(pick)], badges: badges(pick, account),
  };
}

// The recommended designs: of the whole front in full, within tighter limits as far as it is stored.
function showCards() {
  $("cards").innerHTML = (within ? within.picks.map(cardWithin) : D.picks.map((pick) => cardHtml(cardOf(pick)))).join("");
  $("cards-note").textContent = within ? noteOfWithin() : sureNote();
  if (!isNarrow.matches) document.querySelectorAll(".card-more").forEach((box) => { box.open = true; });
}
function startCards() {
  showCards();
  $("cards").addEventListener("click", (event) => {
    const id = event.target.dataset.take;
    if (id !== undefined) choose(Number(id), "A");
  });
}
