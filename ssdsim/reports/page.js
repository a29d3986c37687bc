"use strict";
// Draws the figures one after the other (the first at once), restyles them by theme, fits them to paper when printed,
// redraws the speedup charts for other points of the grid, and gives every figure's data as a table or a CSV file.
const report = JSON.parse(document.getElementById("data").textContent);
const plotOf = (key) => document.querySelector(`#${CSS.escape(key)} .plot`);
const PAPER_WIDTH = 680;  // CSS pixels between the margins of A4

function template(dark) {
  const ink = dark ? "#e8e8e4" : "#1b1d20", grid = dark ? "#34383c" : "#e4e4e0", card = dark ? "#1b1e21" : "#ffffff";
  const axis = { gridcolor: grid, linecolor: grid, zeroline: false };
  return { layout: {
    font: { color: ink, size: 12, family: "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif" },
    paper_bgcolor: card, plot_bgcolor: card, xaxis: axis, yaxis: axis,
    hoverlabel: { bgcolor: card, bordercolor: ink, font: { color: ink } },
    annotationdefaults: { font: { color: ink, size: 11 }, bgcolor: card },
  } };
}

const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
const isDark = () => document.documentElement.dataset.theme === "dark";

function setTheme(dark, size = {}) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  document.getElementById("theme").textContent = dark ? "light" : "dark";
  for (const figure of report.figures) {
    const plot = plotOf(figure.key);
    if (plot.data) Plotly.relayout(plot, { template: template(dark), ...size });
  }
}

document.getElementById("theme").addEventListener("click", () => setTheme(!isDark()));
prefersDark.addEventListener("change", (event) => setTheme(event.matches));
setTheme(prefersDark.matches);

// Paper is white and narrower than most screens. Screens come back as they were.
let beforePaper = null;
window.addEventListener("beforeprint", () => {
  beforePaper = isDark();
  setTheme(false, { autosize: false, width: PAPER_WIDTH });
});
window.addEventListener("afterprint", () => setTheme(beforePaper, { autosize: true, width: null }));

const CONFIG = { responsive: true, displayModeBar: false };

async function drawAll() {
  for (const figure of report.figures) {
    const layout = { ...figure.layout, template: template(isDark()) };
    await Plotly.newPlot(plotOf(figure.key), figure.data, layout, CONFIG);
    if (figure === report.figures[0]) performance.mark("first figure");
    await new Promise((resolve) => setTimeout(resolve));  // let the browser paint and answer between figures
  }
  performance.mark("all figures");
  document.documentElement.dataset.drawn = "all";
}

// The grid: speedups in thousandths, row-major over the axes; 65535 where a point is not possible.

const grid = report.grid;

function thousandths(encoded) {
  return new Uint16Array(Uint8Array.from(atob(encoded), (character) => character.charCodeAt(0)).buffer);
}

function alongAxis(axis, at) {
  const names = Object.keys(grid.axes);
  return grid.axes[axis].map((_, i) => names.reduce(
    (index, name) => index * grid.axes[name].length + (name === axis ? i : at[name]), 0));
}

function along(indices, ratio) {
  return indices.map((i) => (grid.decoded[ratio][i] === 65535 ? null : grid.decoded[ratio][i] / 1000));
}

function redraw() {
  const at = {};
  for (const menu of document.querySelectorAll("select[data-axis]")) at[menu.dataset.axis] = Number(menu.value);
  for (const figure of report.figures.filter((each) => each.axis)) {
    const others = Object.keys(at).filter((name) => name !== figure.axis);
    const atBase = others.every((name) => at[name] === grid.base[name]);
    const indices = alongAxis(figure.axis, at);
    const data = figure.data.map((trace) => {
      if (atBase || !trace.meta) return trace;
      if (trace.meta === "band") return { ...trace, visible: false };
      const hovertemplate = trace.hovertemplate.replace(/<br>95 %[^<]*/, "");
      return { ...trace, y: along(indices, trace.meta), customdata: null, hovertemplate };
    });
    const plot = plotOf(figure.key), card = plot.closest("figure");
    Plotly.react(plot, data, { ...figure.layout, template: template(isDark()) }, CONFIG);
    if (!card.dataset.title) {
      card.dataset.title = card.querySelector("h3").textContent;
      card.dataset.about = card.querySelector(".about").textContent;
    }
    const setting = others.map((name) => `${name} ${grid.axes[name][at[name]]}`).join(", ");
    card.querySelector("h3").textContent = atBase ? card.dataset.title : card.dataset.title.split(":")[0];
    card.querySelector(".about").textContent = atBase ? card.dataset.about
      : `At ${setting}, from the grid (${grid.engine === "closed" ? "closed form" : grid.engine}). The 95 % band and the table below belong to the base values.`;
  }
}

if (grid) {
  grid.decoded = Object.fromEntries(Object.entries(grid.ratios).map(([ratio, values]) => [ratio, thousandths(values)]));
  for (const menu of document.querySelectorAll("select[data-axis]")) menu.addEventListener("change", redraw);
  document.getElementById("to-base").addEventListener("click", () => {
    for (const menu of document.querySelectorAll("select[data-axis]")) menu.value = grid.base[menu.dataset.axis];
    redraw();
  });
}

// Data

function rowsOf(csv) {
  // cells are numbers or quoted text in which quotes are doubled
  return csv.trim().split("\n").map((line) =>
    [...line.matchAll(/("(?:[^"]|"")*"|[^,]*)(?:,|$)/g)].slice(0, -1).map((match) =>
      match[1].replace(/^"|"$/g, "").replace(/""/g, '"')));
}

function table(csv) {
  const element = document.createElement("table");
  rowsOf(csv).forEach((cells, index) => {
    const row = element.insertRow();
    for (const cell of cells) {
      const box = document.createElement(index ? "td" : "th");
      box.textContent = cell;
      row.append(box);
    }
  });
  return element;
}

for (const [key, csv] of Object.entries(report.tables)) {
  const details = document.querySelector(`#${CSS.escape(key)} details`);
  details.addEventListener("toggle", () => {
    const place = details.querySelector(".scroll");
    if (!place.firstChild) place.append(table(csv));
  });
  details.querySelector(".csv").addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([csv], { type: "text/csv" }));
    link.download = `${key}.csv`;
    link.click();
    URL.revokeObjectURL(link.href);
  });
}

drawAll();
