// One look for all charts, from the palette of the style sheet. Every series has a color and a
// marker, dash or hatch of its own.
const drawings = new Map();
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const SERIES = ["blue", "vermilion", "green", "purple", "orange", "sky", "black"];
const DASHES = ["solid", "dash", "dashdot", "dot", "longdash", "longdashdot", "2px,6px"];
const MARKS = ["circle", "square", "diamond", "triangle-up", "cross", "star", "hexagon"];
const HATCHES = ["", "/", "x", ".", "-", "\\", "+"];
const seriesColor = (i) => color(SERIES[i % SERIES.length]);
const isTouch = matchMedia("(pointer: coarse)").matches;

function axis(more) {
  const line = { gridcolor: color("grid"), linecolor: color("rule"), zerolinecolor: color("grid") };
  const named = more.title ? { title: { font: { size: 12 }, ...more.title } } : {};
  return { ...line, automargin: true, tickfont: { size: 11 }, ...more, ...named };
}

function layout(more) {
  const legend = { orientation: "h", yanchor: "bottom", y: 1.01, xanchor: "left", x: 0, font: { size: 11 } };
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: color("ink"), family: "system-ui, sans-serif", size: 12 },
    margin: { l: 56, r: 16, t: 30, b: 44 }, hovermode: "closest", legend, dragmode: isTouch ? false : "zoom",
    hoverlabel: { align: "left", bgcolor: color("raised"), bordercolor: color("rule"), font: { color: color("ink") } },
    uirevision: "kept", modebar: { color: color("quiet"), activecolor: color("accent"), bgcolor: "rgba(0,0,0,0)" }, ...more,
  };
}

// Draws now, and anew whenever colors or width change; in a hurry without labels, which take longest.
function draw(div, figure, said, buttons = false) {
  const paint = (isHurried = false) => {
    if (!div.clientWidth) return null; // folded away; drawn when it is opened
    const { traces, labels, ...rest } = figure();
    const config = {
      displaylogo: false, responsive: false, scrollZoom: false, displayModeBar: buttons ? true : false,
      // Nothing may leave the file: Plotly offers to send a chart to its cloud.
      plotlyServerURL: "", showSendToCloud: false,
      modeBarButtonsToRemove: ["autoScale2d", "zoomIn2d", "zoomOut2d", "toImage"],
    };
    const drawn = Plotly.react(div, traces, layout({ width: div.clientWidth || undefined, ...rest }), config);
    if (labels && !isHurried) {
      div.labels = { labels, base: rest.annotations || [] };
      labelChart(div, labels, div.labels.base);
      if (!div.isWatched) { // labels follow the axes
        div.isWatched = true;
        div.on("plotly_relayout", (change) => { if (Object.keys(change).some((key) => /axis|autosize/.test(key))) labelChart(div, div.labels.labels, div.labels.base); });
      }
    }
    return drawn;
  };
  drawings.set(div, paint);
  reachable(div, said);
  return paint();
}
function forget(div) {
  div.querySelectorAll(".chart").forEach((chart) => { drawings.delete(chart); cursors.delete(chart); Plotly.purge(chart); });
}
function redrawAll() {
  for (const paint of drawings.values()) paint();
}
function redrawWithin(box) {
  for (const [div, paint] of drawings) if (box.contains(div)) paint();
}
function watchLook() {
  document.addEventListener("toggle", (event) => { if (event.target.open) redrawWithin(event.target); }, true);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
  // On paper everything is dark on light and as wide as the paper.
  const opened = new Set();
  const print = (is) => {
    document.documentElement.classList.toggle("printing", is);
    document.querySelectorAll(".card-more, .assumptions, .asked").forEach((box) => {
      if (is && !box.open) { opened.add(box); box.open = true; } else if (!is && opened.delete(box)) box.open = false;
    });
    redrawAll();
  };
  window.addEventListener("beforeprint", () => print(true));
  window.addEventListener("afterprint", () => print(false));
  let width = window.innerWidth, waiting = null;
  window.addEventListener("resize", () => {
    if (window.innerWidth === width) return; // a phone's address bar comes and goes
    width = window.innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(redrawAll, 150);
  });
}

function metricAxis(name, where, more = {}) {
  const metric = metricOf[name];
  const up = metric.sense === "maximize";
  const arrow = where === "x" ? (up ? "→" : "←") : (up ? "↑" : "↓");
  return axis({
    title: { text: `${metric.label}${more.type === "log" ? ", log scale" : ""}  ${arrow} better` },
    ...(metric.prefix && metric.unit !== "s" ? { tickformat: "~s" } : { tickformat: "~r", separatethousands: true, exponentformat: "none" }), ...more,
  });
}
const empty = (text) => ({
  traces: [], height: 120, xaxis: { visible: false }, yaxis: { visible: false },
  annotations: [{ text, showarrow: false, font: { color: color("quiet") } }],
});
