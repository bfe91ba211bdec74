const root = document.documentElement;
const figures = JSON.parse(document.getElementById("figures").textContent);
const dark = matchMedia("(prefers-color-scheme: dark)");
const views = new Map();

const theme = () => root.dataset.theme || (dark.matches ? "dark" : "light");
const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();

function config(colours) {
  const ink = colour("--ink"), soft = colour("--soft"), line = colour("--line");
  const font = getComputedStyle(document.body).fontFamily;
  return {
    background: colour("--card"),
    font,
    view: { stroke: null },
    range: { category: colours.map((place) => (place < 0 ? ink : colour(`--c${place % 8}`))) },
    axis: {
      aria: false, domain: false, ticks: false, grid: true, gridColor: line, gridOpacity: 0.8,
      labelColor: soft, labelFontSize: 12, labelPadding: 7, labelFontWeight: 400,
      titleColor: soft, titleFontSize: 12, titleFontWeight: 400, titlePadding: 9,
    },
    axisX: { domain: true, domainColor: line, ticks: true, tickColor: line, tickSize: 4, labelPadding: 4, labelOverlap: true, labelSeparation: 10 },
    mark: { aria: false },
    rule: { color: soft },
    text: { color: ink },
  };
}

// A data set comes as columns (of texts: the different ones, and which of them each row has); Vega takes rows.
function rows(columns) {
  const found = Object.entries(columns).map(([name, own]) => [name, own.texts ? own.at.map((place) => own.texts[place]) : own]);
  return found[0][1].map((_, row) => Object.fromEntries(found.map(([name, values]) => [name, values[row]])));
}

async function draw(place) {
  const [figure, panel] = place.dataset.chart.split(".").map(Number);
  const { chart, panels, colours } = figures[figure];
  const datasets = Object.fromEntries(Object.entries(panels[panel]).map(([name, columns]) => [name, rows(columns)]));
  // A layer without rows would have no scale.
  const layer = chart.layer.filter(({ data }) => !data?.name || datasets[data.name].length);
  const { view } = await window.embedChart(place, { ...chart, layer, datasets, description: place.dataset.description }, {
    actions: { export: { svg: true, png: true }, source: false, compiled: false, editor: false },
    ast: true,
    config: config(colours),
    downloadFileName: place.dataset.file,
    renderer: "svg",
    scaleFactor: { png: 2 },
    tooltip: { theme: theme() },
  });
  views.set(place, view);
  place.querySelector("details > summary")?.setAttribute("aria-label", `Save ${place.dataset.description} as an image`);
  place.dataset.drawn = theme();
}

const seen = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (isIntersecting) {
      seen.unobserve(target);
      draw(target);
    }
  }
}, { rootMargin: "600px" });
const places = [...document.querySelectorAll("[data-chart]")];
places.forEach((place) => seen.observe(place));

function redraw() {
  for (const [place, view] of views) {
    view.finalize();
    draw(place);
  }
}

const button = document.getElementById("theme");
function named() {
  button.textContent = theme() === "dark" ? "Light" : "Dark";
}
button.hidden = false;
button.addEventListener("click", () => {
  root.dataset.theme = theme() === "dark" ? "light" : "dark";
  named();
  redraw();
});
dark.addEventListener("change", () => {
  named();
  redraw();
});
named();
// Paper is light, and shows every chart.
let before;
addEventListener("beforeprint", () => {
  before = root.dataset.theme;
  const drawn = theme();
  root.dataset.theme = "light";
  places.filter((place) => place.dataset.drawn !== "light" || drawn === "dark").forEach(draw);
});
addEventListener("afterprint", () => {
  if (before) root.dataset.theme = before;
  else delete root.dataset.theme;
  if (theme() === "dark") redraw();
});
// What a link of a warning leads to may be folded away.
function unfold() {
  const place = document.getElementById(location.hash.slice(1));
  place?.closest("details")?.setAttribute("open", "");
  place?.scrollIntoView();
}
addEventListener("hashchange", unfold);
if (location.hash) unfold();
