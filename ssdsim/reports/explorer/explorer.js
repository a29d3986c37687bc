// The controls and the state: in the address, so that it survives a reload and can be sent; the figures follow it.

const report = JSON.parse(document.getElementById("data").textContent);
const head = report.explorer;
const control = (name) => document.getElementById(`at-${name}`);
const sideAxis = head.axes.find((axis) => axis.name === head.sides);
const sides = sideAxis ? sideAxis.values.map((value, i) => ({ place: { [sideAxis.name]: value }, title: sideAxis.labels[i] })) : [{ place: {}, title: "" }];
const template = () => report.templates[isDark() ? "dark" : "light"];

const START = {
  at: Object.fromEntries(head.axes.filter((axis) => axis !== sideAxis).map((axis) => [axis.name, axis.opens])),
  measured: [], off: [], price: null,
};
let state = structuredClone(START);
let grid = null;

// The address

function toAddress() {
  const parts = new URLSearchParams();
  for (const [name, value] of Object.entries(state.at)) {
    if (value !== START.at[name]) parts.set(name, value === null ? "" : value);
  }
  if (state.measured.length) parts.set("measured", state.measured.join(","));
  if (state.off.length) parts.set("off", state.off.join(","));
  if (state.price !== null) parts.set("price", state.price);
  history.replaceState(null, "", parts.size ? `#${parts}` : location.pathname + location.search);
}

// What cannot be shown is said, and the nearest place is shown.
function fromAddress() {
  state = structuredClone(START);
  const notes = [];
  for (const [name, text] of new URLSearchParams(location.hash.slice(1))) {
    if (name === "measured") state.measured = text.split(",").filter((each) => Object.hasOwn(head.doubts, each));
    else if (name === "off") state.off = text.split(",").filter((each) => head.rivals.includes(each));
    else if (name === "price") state.price = Number(text) >= 0 ? Number(text) : null;
    else if (Object.hasOwn(state.at, name)) state.at[name] = placeOn(head.axes.find((axis) => axis.name === name), text, notes);
    else notes.push(`this page does not know ${name}`);
  }
  document.getElementById("notice").textContent = notes.join("; ");
}

function placeOn(axis, text, notes) {
  if (text === axis.best) return text;
  const exact = axis.values.find((value) => String(value ?? "") === text);
  if (exact !== undefined) return exact;
  const [low, high] = [axis.values[0], axis.values.at(-1)], asked = Number(text);
  if (axis.continuous && asked >= low && asked <= high) return asked;
  notes.push(`${axis.title} ${text} is outside of this page's grid (${axis.continuous ? `${low} to ${high}` : axis.labels.join(", ")})`);
  if (typeof low !== "number" || Number.isNaN(asked)) return axis.start;
  return axis.continuous ? Math.min(high, Math.max(low, asked)) : axis.values[nearestTo(axis.values, asked)];
}

// The command whose answer this is

function commandOf(side = sides[0]) {
  const parts = ["ssdsim", "predict"], at = { ...state.at, ...side.place };
  if (state.off.length || head.fixedStrategies) {
    const on = head.strategies.map((each) => each.name).filter((name) => !state.off.includes(name));
    parts.push("--strategies", on.join(","));
    if (!head.fixed.some(([name]) => name === "subject")) parts.push("--subject", head.subject);
  }
  for (const [, words] of head.fixed) parts.push(...words);
  const ranges = [...head.ranges];
  for (const axis of head.axes) {
    const value = at[axis.name];
    if (axis.name in head.doubts && !state.measured.includes(axis.name)) {
      if (value === axis.start && !head.doubts[axis.name].given) continue;  // as nobody said it
      ranges.push(`${axis.name}=${rangeOf(axis.name).map(shortest).join(":")}`);
    }
    const i = axis.values.indexOf(value);
    const word = i >= 0 && !axis.continuous ? axis.words[i] : axis.best === value ? axis.best_word : String(value);
    if (word && value !== null) parts.push(axis.flag, word);
  }
  if (ranges.length) parts.push("--ranges", ranges.join(","));
  if (head.seed) parts.push("--seed", String(head.seed));
  return parts.join(" ");
}

function rangeOf(name) { return grid.about(name, state.at[name]).ends; }

function shortest(value) { return String(Number(value.toPrecision(4))); }

// Controls

function showControls() {
  for (const axis of head.axes) {
    const input = control(axis.name);
    if (!input) continue;
    const value = state.at[axis.name], i = axis.values.indexOf(value);
    const open = axis.name in head.doubts && !state.measured.includes(axis.name);
    const range = open ? `${rangeOf(axis.name).map((end) => Number(end.toPrecision(2))).join(" to ")}` : "";
    const shown = axis.continuous ? String(value) : value === axis.best ? axis.best : axis.labels[i];
    if (input.tagName === "SELECT") input.selectedIndex = value === axis.best ? 0 : i + (axis.best ? 1 : 0);
    else input.value = axis.continuous ? value : i;
    input.setAttribute("aria-valuetext", open ? `${shown}, likely ${range}` : shown);
    document.getElementById(`${input.id}-value`).textContent = input.tagName === "SELECT" ? "" : shown;
    const known = document.getElementById(`known-${axis.name}`);
    if (known) {
      known.checked = !open;
      document.getElementById(`range-${axis.name}`).textContent = range;
    }
  }
  for (const box of document.querySelectorAll("[data-strategy]")) box.checked = !state.off.includes(box.dataset.strategy);
  const price = document.getElementById("price");
  if (price && document.activeElement !== price) price.value = state.price ?? "";
  document.getElementById("command").textContent = sides.map(commandOf).join("\n");
}

// A slider of a doubt moves its range; a tick ends the doubt.
function moved(axis, input) {
  if (input.tagName === "SELECT") {
    const i = input.selectedIndex - (axis.best ? 1 : 0);
    state.at[axis.name] = i < 0 ? axis.best : axis.values[i];
  } else state.at[axis.name] = axis.continuous ? Number(input.value) : axis.values[Number(input.value)];
  follow();
}

function listen() {
  for (const axis of head.axes) {
    const input = control(axis.name);
    if (input) input.addEventListener("input", () => moved(axis, input));
  }
  for (const box of document.querySelectorAll("[data-strategy]")) box.addEventListener("change", () => {
    state.off = [...document.querySelectorAll("[data-strategy]")].filter((each) => !each.checked).map((each) => each.dataset.strategy);
    follow();
  });
  for (const name of Object.keys(head.doubts)) document.getElementById(`known-${name}`).addEventListener("change", (event) => {
    const others = state.measured.filter((each) => each !== name);
    state.measured = event.target.checked ? [...others, name] : others;
    follow();
  });
  document.getElementById("price")?.addEventListener("input", (event) => {
    state.price = event.target.value === "" ? null : Number(event.target.value);
    follow();
  });
  document.getElementById("reset").addEventListener("click", () => { state = structuredClone(START); document.getElementById("notice").textContent = ""; follow(); });
  document.getElementById("copy").addEventListener("click", copyCommand);
  document.getElementById("controls").addEventListener("submit", (event) => event.preventDefault());
  window.addEventListener("hashchange", () => { fromAddress(); follow(false); });
  document.addEventListener("theme", () => draw());
}

// Paper is white and narrower than most screens. Screens come back as they were.
function restyle(template, size) {
  for (const plot of document.querySelectorAll("#sides .plot")) if (plot.data) Plotly.relayout(plot, { template, ...size });
}

window.addEventListener("beforeprint", () => restyle(report.templates.light, PAPER));
window.addEventListener("afterprint", () => restyle(template(), SCREEN));

async function copyCommand() {
  const text = sides.map(commandOf).join("\n"), button = document.getElementById("copy");
  try {
    await navigator.clipboard.writeText(text);
  } catch {  // a page from a file may not be allowed to: what is selected can be copied by hand
    getSelection().selectAllChildren(document.getElementById("command"));
    document.execCommand("copy");
  }
  button.textContent = "copied";
  setTimeout(() => { button.textContent = "copy as command"; }, 1500);
}

// Answers

function makeSides() {
  const names = Object.keys(FIGURES);
  const answers = document.getElementById("answers"), figures = document.getElementById("sides");
  for (const element of [answers, figures]) element.dataset.count = sides.length;
  answers.innerHTML = sides.map((side, i) => `
    <section class="side" id="side-${i}">${side.title ? "<h2></h2>" : ""}
    <p class="verdict" role="status"></p><p class="standing-line"></p>
    <div class="scroll" tabindex="0" role="region" aria-label="strategies"><table class="strategies"></table></div></section>`).join("");
  figures.innerHTML = sides.map((side, i) => `
    <div class="grid">${names.map((name) => `<figure id="${name}-${i}" class="card${WIDE.includes(name) ? " wide" : ""}" aria-labelledby="${name}-${i}-title">
      <h3 id="${name}-${i}-title"></h3><div class="plot" role="img" style="height:300px"></div></figure>`).join("")}</div>`).join("");
  sides.forEach((side, i) => { if (side.title) document.querySelector(`#side-${i} h2`).textContent = side.title; });
}

function showTable(view, element) {
  const unit = view.unit, cost = unit === "s" && state.price !== null;
  const heads = ["", `tokens/${unit}`, "likely", "per user", "per GPU", "GPUs", ...(cost ? ["$ per million tokens"] : [])];
  const table = document.createElement("table");
  table.className = "strategies";
  table.createCaption().textContent = `At batch ${view.batch}`;
  const row = table.createTHead().insertRow();
  for (const text of heads) row.append(Object.assign(document.createElement("th"), { scope: "col", textContent: text }));
  const body = table.createTBody();
  for (const strategy of view.shown) {
    const { rate, gpus, likely } = view.rates[strategy.name], line = body.insertRow();
    line.style.setProperty("--strategy", strategy.colour);
    line.append(Object.assign(document.createElement("th"), { scope: "row", textContent: view.named(strategy.name) }));
    const why = view.grid.refused(strategy.name, view.places[strategy.name]);
    if (why >= 0) {
      const cell = line.insertCell();
      cell.colSpan = heads.length - 1;
      cell.className = "refused";
      cell.textContent = view.head.refused[strategy.name].reasons[why];
      continue;
    }
    const dollars = cost ? [((state.price * gpus) / rate / 3600 * 1e6).toFixed(2)] : [];
    for (const text of [shortly(rate), likely ? likely.map(shortly).join(" to ") : "", shortly(rate / view.batch), shortly(rate / gpus), String(Number(gpus.toFixed(2))), ...dollars]) line.insertCell().textContent = text;
  }
  element.replaceWith(table);
}

// The verdict at a stop; elsewhere the numbers.
function said(view, side) {
  const { subject } = head, why = view.grid.refused(subject, view.places[subject]);
  const told = toldAt(side);
  if (told) return told[0];
  if (why >= 0) return head.refused[subject].sentences[why];
  const rivals = view.rivals.filter((name) => Number.isFinite(view.rates[name].rate));
  if (!rivals.length) return head.alone;
  const numbers = rivals.map((name) => {
    const { ratio, likely, faster } = view.over(name);
    const range = likely ? ` (likely ${likely.map((end) => end.toFixed(2)).join("\u2013")}, faster in ${Math.round(100 * faster)} of 100 draws)` : "";
    return `${ratio.toFixed(2)}x ${view.named(name)}${range}`;
  });
  return `${view.named(subject)} is ${numbers.join(", ")}.`;
}

// Sentences are where all strategies are compared, and sliders stand as nobody moved them.
function toldAt(side) {
  const at = { ...state.at, ...side.place };
  const untouched = head.axes.every((axis) => !axis.continuous || at[axis.name] === axis.start);
  if (!untouched || state.measured.length || state.off.length) return null;
  let number = 0;
  for (const [name, stops] of Object.entries(head.stops.axes)) {
    const place = stops.indexOf(at[name]);
    if (place < 0) return null;
    number = number * stops.length + place;
  }
  return head.stops.told[head.stops.numbers[number]];
}

function standingLine(side) {
  const named = (name) => `${name.replaceAll("_", " ")} ${state.at[name]}`, doubts = Object.keys(head.doubts);
  const open = doubts.filter((name) => !state.measured.includes(name)).map((name) => `${named(name)} (${rangeOf(name).map((end) => Number(end.toPrecision(2))).join(" to ")})`);
  const known = doubts.filter((name) => state.measured.includes(name)).map(named);
  const sure = toldAt(side)?.[1];
  return [sure ? `${sure[0].toUpperCase()}${sure.slice(1)}.` : "", open.length ? `Not measured: ${open.join(", ")}.` : "", known.length ? `Measured: ${known.join(", ")}.` : ""].filter(Boolean).join(" ");
}

// The sentence and the table follow at once, and the figures in view; the others when there is time, the last state only.
let waiting = 0;

function drawSide(side, i, answers, later) {
  const view = new View(answers, state, side.place), section = document.getElementById(`side-${i}`);
  const verdict = section.querySelector(".verdict");
  verdict.textContent = said(view, side);
  verdict.style.setProperty("--strategy", head.strategies.find((each) => each.name === head.subject).colour);
  section.querySelector(".standing-line").textContent = standingLine(side);
  showTable(view, section.querySelector("table.strategies"));
  for (const [name, figure] of Object.entries(FIGURES)) {
    const card = document.getElementById(`${name}-${i}`);
    if (isInView(card)) showFigure(card, figure(view));
    else later.push(() => showFigure(card, figure(view)));
  }
}

function showFigure(card, made) {
  card.hidden = !made;
  if (!made) return;
  const plot = card.querySelector(".plot");
  card.querySelector("h3").textContent = made.title;
  plot.setAttribute("aria-label", made.title);
  Plotly.react(plot, made.traces, { height: 300, hovermode: "closest", ...made.layout, template: template() }, CONFIG);
}

function isInView(element) {
  const box = element.getBoundingClientRect();
  return box.bottom > 0 && box.top < window.innerHeight;
}

function draw() {
  if (!grid) return;
  const later = [], begun = performance.now(), turn = ++waiting;
  const answers = new Answers(grid, state);
  sides.forEach((side, i) => drawSide(side, i, answers, later));
  const root = document.documentElement.dataset;
  root.redrawnMs = (performance.now() - begun).toFixed(1);
  root.followed = "some";
  const next = () => {
    if (turn !== waiting) return;  // a slider has moved on
    if (later.length) {
      later.shift()();
      setTimeout(next);
    } else {
      root.followed = "all";
      if (!report.figures) root.drawn = "all";
    }
  };
  setTimeout(next);
}

function follow(write = true) {
  showControls();
  if (write) toAddress();
  if (document.documentElement.dataset.drawn && !report.figures) document.documentElement.dataset.drawn = "some";
  draw();
  bringReportAlong();
}

// The speedup charts of a report stand at other points of the same grid.
function bringReportAlong() {
  const menus = [...document.querySelectorAll("select[data-axis]")];
  for (const menu of menus) {
    const at = [...menu.options].findIndex((option) => option.textContent === String(state.at[menu.dataset.axis]));
    if (at >= 0) menu.selectedIndex = at;
  }
  menus[0]?.dispatchEvent(new Event("change"));
}

(async () => {
  grid = await Grid.of(head);
  makeSides();
  fromAddress();
  listen();
  follow(false);
})();
