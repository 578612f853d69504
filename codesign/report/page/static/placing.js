// Labels that never overprint one another: each takes the first free place around its point.
const LABEL_FONT = 12, LABEL_GAP = 3;
const ruler = document.createElement("canvas").getContext("2d");
function textSize(text, size = LABEL_FONT) {
  ruler.font = `${size}px system-ui, sans-serif`;
  const lines = text.split("<br>");
  return { w: Math.max(...lines.map((line) => ruler.measureText(line.replace(/<[^>]*>/g, "")).width)) + 6, h: lines.length * size * 1.3 + 4 };
}
const meets = (a, b) => a.x0 < b.x1 + LABEL_GAP && b.x0 < a.x1 + LABEL_GAP && a.y0 < b.y1 + LABEL_GAP && b.y0 < a.y1 + LABEL_GAP;
// Around the point, nearer places first; beyond the first ring a line leads to the point.
const RINGS = [14, 32, 56, 86, 122, 164].flatMap((r) => [[1, -0.35], [-1, -0.35], [0, -1], [0, 1], [1, -1], [-1, -1], [1, 1], [-1, 1]].map(([dx, dy]) => ({ dx: dx * r, dy: dy * r, r })));

// What names a line may stand anywhere along it, which is better than far from it.
const ALONG = [0.25, 0.5, 0.75], ABOVE_BELOW = [-14, 14];
function placesOf(label, area) {
  if (!label.isLine) return RINGS;
  const near = RINGS.filter(({ r }) => r === RINGS[0].r), far = RINGS.filter(({ r }) => r !== RINGS[0].r);
  return [...near, ...ALONG.flatMap((share) => ABOVE_BELOW.map((dy) => ({ dx: 0, dy, r: 14, along: share * area.w }))), ...far];
}

function placeLabels(labels, area, avoid = []) {
  const taken = [...avoid], placed = [];
  for (const label of labels) {
    const { w, h } = textSize(label.text, label.size);
    const box = ({ dx, dy, along = 0 }) => {
      const x = label.px + along + dx + (dx > 0 ? w / 2 : dx < 0 ? -w / 2 : 0), y = label.py + dy + (dx === 0 ? (dy > 0 ? h / 2 : -h / 2) : 0);
      return { x0: x - w / 2, x1: x + w / 2, y0: y - h / 2, y1: y + h / 2, x, y };
    };
    const inside = (b) => b.x0 >= 0 && b.x1 <= area.w && b.y0 >= 0 && b.y1 <= area.h;
    const place = placesOf(label, area).find((ring) => { const b = box(ring); return inside(b) && !taken.some((other) => meets(b, other)); });
    if (!place) continue; // no room: the hover says it
    const b = box(place);
    taken.push(b);
    placed.push({ label, dx: b.x - label.px, dy: b.y - label.py, isFar: place.r > 14 });
  }
  return placed;
}

const STEP_PX = 10;
function stepBoxes(trace, xAxis, yAxis) {
  const boxes = [], pixel = (k) => [xAxis.d2p(trace.x[k]), yAxis.d2p(trace.y[k])];
  const along = ([x0, y0], [x1, y1]) => {
    const n = Math.min(400, Math.max(1, Math.ceil((Math.abs(x1 - x0) + Math.abs(y1 - y0)) / STEP_PX)));
    for (let i = 0; i <= n; i += 1) { const x = x0 + ((x1 - x0) * i) / n, y = y0 + ((y1 - y0) * i) / n; boxes.push({ x0: x - 1, x1: x + 1, y0: y - 1, y1: y + 1 }); }
  };
  for (let k = 1; k < trace.x.length; k += 1) {
    const from = pixel(k - 1), to = pixel(k), corner = { hv: [to[0], from[1]], vh: [from[0], to[1]] }[trace.line.shape] || to;
    along(from, corner);
    along(corner, to);
  }
  return boxes;
}

// The labels of a drawn chart as annotations, placed anew after every change of its axes.
function labelChart(div, labels, base) {
  const full = div._fullLayout;
  const shown = labels.filter((label) => isNumber(label.x) && isNumber(label.y));
  const annotations = [...base];
  for (const name of new Set(shown.map((label) => label.axis || ""))) {
    const x = full[`xaxis${name}`], y = full[`yaxis${name}`];
    if (!x || !y) continue;
    const place = (label) => ({ ...label, px: x.d2p(label.x), py: y.d2p(label.y) });
    const own = shown.filter((label) => (label.axis || "") === name).map(place).filter((label) => label.px >= -1 && label.px <= x._length + 1 && label.py >= -1 && label.py <= y._length + 1);
    // Neither points nor lines may be overprinted.
    const steps = (div.data || []).filter((trace) => (trace.xaxis || "x") === `x${name}` && /lines/.test(trace.mode) && trace.visible !== "legendonly").flatMap((trace) => stepBoxes(trace, x, y));
    const points = own.filter((label) => !label.isLine).map((label) => ({ x0: label.px - 6, x1: label.px + 6, y0: label.py - 6, y1: label.py + 6 }));
    for (const { label, dx, dy, isFar } of placeLabels(own, { w: x._length, h: y._length }, [...points, ...steps])) {
      const ends = (axis, v) => (axis.type === "log" ? Math.log10(v) : v);
      annotations.push({ name: "label", x: ends(x, label.x), y: ends(y, label.y), xref: `x${name}`, yref: `y${name}`, text: label.text, ax: dx, ay: dy, showarrow: true, arrowhead: 0, arrowwidth: isFar ? 1 : 0.01, arrowcolor: isFar ? color("quiet") : "rgba(0,0,0,0)", standoff: 5, font: { size: label.size || LABEL_FONT, color: label.color || color("ink") }, bgcolor: `${color("paper")}b8`, borderpad: 1, captureevents: false });
    }
  }
  return Plotly.relayout(div, { annotations });
}
