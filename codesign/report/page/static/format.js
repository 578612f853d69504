// How numbers are printed: as in the terminal, an SI prefix where the unit takes one.
const PREFIXES = [
  [1e24, "Y"], [1e21, "Z"], [1e18, "E"], [1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"],
  [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"], [1e-12, "p"],
];
const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

// A format is dear to make, and the same few are used again and again.
const formats = new Map();
function grouped(value, places) {
  if (!formats.has(places)) formats.set(places, new Intl.NumberFormat("en-US", { maximumFractionDigits: places }));
  return formats.get(places).format(value);
}

function plainNumber(value, digits = 4) {
  if (!isNumber(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 1e-3 || size >= 1e9) return value.toPrecision(digits).replace(/\.?0+(e|$)/, "$1");
  const places = Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
  return grouped(value, Math.min(places, 20));
}

function withPrefix(value, unit, digits = 4) {
  if (!isNumber(value)) return "–";
  const size = Math.abs(value);
  if (unit === "s" && size >= 1) return `${plainNumber(value, digits)} s`; // nobody reads ks
  const [scale, prefix] = PREFIXES.find(([scale]) => size >= scale) ||
    (size === 0 ? [1, ""] : PREFIXES[PREFIXES.length - 1]);
  const shown = value / scale;
  const places = shown === 0 ? 0 : Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(shown))));
  const text = grouped(shown, Math.min(places, 20));
  return `${text} ${prefix}${unit}`.trim();
}

// How an axis from 0 to end prints seconds, each with its "s": 500ms, 5,000s.
const secondsTicks = (end) => (end < 1 ? "~s" : ",~r");

function metricText(value, metric) {
  if (!isNumber(value)) return "–";
  if (metric.percent) return `${plainNumber(100 * value, 3)} %`;
  if (metric.prefix) return withPrefix(value, unitText(metric.unit));
  return `${plainNumber(value)} ${unitText(metric.unit)}`.trim();
}
// With the three digits that a card or a label has room for, and an account is good for.
const shortText = (value, metric) => metricText(isNumber(value) ? Number(value.toPrecision(3)) : value, metric);
const unitText = (unit) => unit.replace(/\^2\b/, "²").replace(/^degC$/, "°C").replace(/^year$/, "years");

const escapeHtml = (text) => String(text).replace(/[&<>"]/g, (sign) =>
  ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[sign]);

// Long texts over several lines, for hovers; such a break is no pause.
const SOFT_BREAK = "<br soft>";
function wrapped(text, width = 44) {
  const lines = [""];
  for (const word of escapeHtml(text).split(" ")) {
    const last = lines[lines.length - 1];
    if (last && last.length + word.length >= width) lines.push(word);
    else lines[lines.length - 1] = last ? `${last} ${word}` : word;
  }
  return lines.join(SOFT_BREAK);
}
