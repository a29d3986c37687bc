"use strict";
// Draws the figures one after the other (the first at once), restyles them by theme, fits them to paper when printed,
// redraws the speedup charts for other points of the grid, and gives every figure as a
// picture for print and its data as a table or a CSV file.
const report = JSON.parse(document.getElementById("data").textContent);
const plotOf = (key) => document.querySelector(`#${CSS.escape(key)} .plot`);

const template = (dark = isDark()) => report.templates[dark ? "dark" : "light"];

function restyle(dark, size = {}) {
  for (const figure of report.figures) {
    const plot = plotOf(figure.key);
    if (plot.data) Plotly.relayout(plot, { template: template(dark), ...size });
  }
}

document.addEventListener("theme", () => restyle(isDark()));

// Paper is white and narrower than most screens. Screens come back as they were.
window.addEventListener("beforeprint", () => {
  showTheme(false);
  restyle(false, PAPER);
});
window.addEventListener("afterprint", () => {
  showTheme();
  restyle(isDark(), SCREEN);
});

async function drawAll() {
  for (const figure of report.figures) {
    const layout = { ...figure.layout, template: template() };
    await Plotly.newPlot(plotOf(figure.key), figure.data, layout, CONFIG);
    if (figure === report.figures[0]) performance.mark("first figure");
    await new Promise((resolve) => setTimeout(resolve));  // let the browser paint and answer between figures
  }
  performance.mark("all figures");
  document.documentElement.dataset.drawn = "all";
}

// The grid: speedups in thousandths, row-major over the axes; 65535 where a point is not possible. They are unpacked when
// a menu first asks for another point.

const grid = report.grid;

async function thousandths(packed) {
  const values = new Uint16Array(await unpacked(packed));
  for (let i = 1; i < values.length; i++) values[i] += values[i - 1];  // each is kept as its difference to the last
  return values;
}

async function decoded() {
  const ratios = Object.entries(grid.ratios).map(async ([ratio, values]) => [ratio, await thousandths(values)]);
  return Object.fromEntries(await Promise.all(ratios));
}

function alongAxis(axis, at) {
  const names = Object.keys(grid.axes);
  return grid.axes[axis].map((_, i) => names.reduce(
    (index, name) => index * grid.axes[name].length + (name === axis ? i : at[name]), 0));
}

function along(indices, values) {
  return indices.map((i) => (values[i] === 65535 ? null : values[i] / 1000));
}

async function redraw() {
  grid.decoded ??= decoded();
  const ratios = await grid.decoded;
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
      return { ...trace, y: along(indices, ratios[trace.meta]), customdata: null, hovertemplate };
    });
    const plot = plotOf(figure.key), card = plot.closest("figure");
    Plotly.react(plot, data, { ...figure.layout, template: template() }, CONFIG);
    if (!card.dataset.title) {
      card.dataset.title = card.querySelector("h3").textContent;
      card.dataset.about = card.querySelector(".about").textContent;
    }
    const setting = others.map((name) => `${name} ${grid.axes[name][at[name]]}`).join(", ");
    card.querySelector("h3").textContent = atBase ? card.dataset.title : card.dataset.title.split(":")[0];
    plot.setAttribute("aria-label", card.querySelector("h3").textContent);
    card.querySelector(".about").textContent = atBase ? card.dataset.about
      : `At ${setting}, from the grid (${grid.solver === "closed" ? "closed form" : grid.solver}). The 95 % band and the table below belong to the base values.`;
  }
}

if (grid) {
  for (const menu of document.querySelectorAll("select[data-axis]")) menu.addEventListener("change", redraw);
  document.getElementById("to-base").addEventListener("click", () => {
    for (const menu of document.querySelectorAll("select[data-axis]")) menu.value = grid.base[menu.dataset.axis];
    redraw();
  });
}

// Pictures

function forPrint(shown) {
  const paper = report.print;
  let text = JSON.stringify(shown);
  for (const [screen, printed] of paper.colours) text = text.replaceAll(screen, printed);
  const { data, layout } = JSON.parse(text);
  return { data, layout: { ...layout, template: paper.template } };
}

async function givePicture(figure, kind) {
  const plot = plotOf(figure.key), { columns, height } = figure.paper;
  const address = await Plotly.toImage(forPrint({ data: plot.data, layout: figure.layout }), {
    format: kind, width: report.print.widths[columns], height, scale: report.print.scales[kind],
  });
  give(address, `${figure.key}.${kind}`);
}

function give(address, name) {
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
}

for (const figure of report.figures) {
  for (const button of document.querySelectorAll(`#${CSS.escape(figure.key)} .picture`)) {
    button.addEventListener("click", () => givePicture(figure, button.dataset.kind));
  }
}

// Data

function rowsOf(csv) {
  // cells are numbers or quoted text in which quotes are doubled
  return csv.trim().split("\n").map((line) =>
    [...line.matchAll(/("(?:[^"]|"")*"|[^,]*)(?:,|$)/g)].slice(0, -1).map((match) =>
      match[1].replace(/^"|"$/g, "").replace(/""/g, '"')));
}

function table(csv, caption) {
  const element = document.createElement("table"), [head, ...rows] = rowsOf(csv);
  element.createCaption().textContent = caption;
  const first = element.createTHead().insertRow(), body = element.createTBody();
  for (const name of head) {
    const box = document.createElement("th");
    box.scope = "col";
    box.textContent = name;
    first.append(box);
  }
  for (const cells of rows) {
    const row = body.insertRow();
    for (const cell of cells) row.insertCell().textContent = cell;
  }
  return element;
}

for (const [key, csv] of Object.entries(report.tables)) {
  const card = document.getElementById(key), details = card.querySelector("details");
  details.addEventListener("toggle", () => {
    const place = details.querySelector(".scroll");
    if (!place.firstChild) place.append(table(csv, card.querySelector("h3").textContent));
  });
  card.querySelector(".csv").addEventListener("click", () => {
    const address = URL.createObjectURL(new Blob([csv], { type: "text/csv" }));
    give(address, `${key}.csv`);
    URL.revokeObjectURL(address);
  });
}

drawAll();
