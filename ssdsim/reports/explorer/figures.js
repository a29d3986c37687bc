// The figures of one side: what each shows in a sentence, its traces, and what its axes say.

const NARROW = { l: 62, r: 14, t: 30, b: 46 };
const LEGEND = { orientation: "h", x: 0, y: 1.02, xanchor: "left", yanchor: "bottom" };

function shortly(value) {
  if (!Number.isFinite(value)) return "–";
  return value >= 1000 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3)));
}

function translucent(colour, strength = 0.18) {
  const parts = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  return `rgba(${parts.join(",")},${strength})`;
}

// What every figure of a side starts from: each strategy at its own place, which differs where it is the best of stops.
class View {
  constructor(answers, state, side) {
    this.answers = answers;
    this.grid = answers.grid;
    this.head = answers.head;
    this.asked = { ...state.at, ...side };
    this.shown = this.head.strategies.filter((each) => !state.off.includes(each.name));
    this.rivals = this.head.rivals.filter((name) => !state.off.includes(name));
    this.unit = this.head.unit;
    this.places = Object.fromEntries(this.shown.map(({ name }) => [name, answers.resolved(name, this.asked)]));
    this.rates = Object.fromEntries(this.shown.map(({ name }) => [name, this.numbers(name, this.places[name])]));
    this.possible = this.shown.filter(({ name }) => Number.isFinite(this.rates[name].rate));
  }

  get batch() { return this.asked.b ?? 1; }

  titled(name) { return this.head.strategies.find((each) => each.name === name).title; }

  // A strategy with the K, and the C if not of plain sampling, that are its own best.
  named(name) {
    const own = (of) => {
      const axis = this.grid.axes[of];
      return axis && this.asked[of] === axis.best && axis.read_by.includes(name) ? this.places[name][of] : undefined;
    };
    if (!Number.isFinite(this.rates[name].rate)) return this.titled(name);
    const k = own("k"), c = own("saguaro_c");
    const at = [k !== undefined && `K ${k}`, c !== undefined && c !== 1 && `C ${c}`].filter(Boolean);
    return at.length ? `${this.titled(name)} at ${at.join(", ")}` : this.titled(name);
  }

  numbers(name, place) { return { ...this.answers.numbers(name, place), ...this.answers.rate(name, place) }; }

  // A strategy at another stop of some axes, as it is asked here.
  beside(name, change) { return this.answers.resolved(name, { ...this.asked, ...change }); }

  // The subject over a rival, at another stop of some axes.
  over(rival, change = {}) {
    const { subject } = this.head;
    return this.answers.over(subject, this.beside(subject, change), rival, this.beside(rival, change));
  }

  // "wins" and "loses" are of the subject, in so many draws that it is sure.
  outcome({ faster }) {
    return faster >= this.head.surely ? "wins" : faster <= 1 - this.head.surely ? "loses" : "undecided";
  }
}

function ratesFigure(view) {
  const best = (of) => view.possible.reduce((a, b) => (of(view.rates[a.name]) >= of(view.rates[b.name]) ? a : b));
  if (!view.possible.length) return { title: "No strategy can run here", traces: [], layout: {} };
  const user = ({ rate }) => rate / view.batch, gpu = ({ rate, gpus }) => rate / gpus;
  const fastest = best(user), cheapest = best(gpu);
  const others = view.possible.filter((each) => each !== fastest);
  const sure = others.every(({ name }) => {
    const { faster } = view.answers.over(fastest.name, view.places[fastest.name], name, view.places[name]);
    return faster >= view.head.surely;
  });
  const said = sure ? "is the fastest for a user" : "is probably the fastest for a user";
  const bars = (of, axis) => ({
    type: "bar", orientation: "h", xaxis: axis, yaxis: "y", showlegend: false,
    y: view.possible.map((each) => each.title), x: view.possible.map((each) => of(view.rates[each.name])),
    marker: { color: view.possible.map((each) => each.colour) },
    hovertemplate: "%{y}: %{x:.4g}<extra></extra>",
    error_x: errorBars(view, of),
  });
  return {
    title: `${fastest.title} ${said}, ${shortly(user(view.rates[fastest.name]))} tokens/${view.unit}`
      + `${cheapest === fastest ? ", and" : `; ${cheapest.title}`} makes the most of a GPU, ${shortly(gpu(view.rates[cheapest.name]))}`,
    traces: [bars(user, "x"), bars(gpu, "x2")],
    layout: {
      margin: NARROW, yaxis: { autorange: "reversed", automargin: true },
      xaxis: { domain: [0, 0.46], title: { text: `tokens/${view.unit} per user` }, rangemode: "tozero", nticks: 5 },
      xaxis2: { domain: [0.54, 1], title: { text: `tokens/${view.unit} per GPU` }, rangemode: "tozero", nticks: 5 },
    },
  };
}

function errorBars(view, of) {
  const ends = view.possible.map(({ name }) => {
    const { rate, gpus, likely } = view.rates[name], middle = of({ rate, gpus });
    const [low, high] = (likely ?? [NaN, NaN]).map((end) => of({ rate: end, gpus }));
    return [high - middle, middle - low];
  });
  if (ends.some(([up]) => Number.isNaN(up))) return undefined;
  return { type: "data", symmetric: false, array: ends.map(([up]) => up), arrayminus: ends.map(([, down]) => down), thickness: 1.5, width: 3, color: template().layout.font.color };
}

function roundFigure(view) {
  const scale = view.unit === "s" ? 1e3 : 1, unit = view.unit === "s" ? "ms" : "T_v";
  const total = (numbers) => view.head.parts.reduce((sum, part) => sum + numbers[part.name], 0);
  const subject = view.possible.find((each) => each.name === view.head.subject) ?? view.possible[0];
  if (!subject) return { title: "No round to show", traces: [], layout: {} };
  const own = view.rates[subject.name];
  const share = (own.verify / total(own)) * 100;
  return {
    title: `${subject.title} verifies for ${share.toFixed(0)}% of a round of ${shortly(scale * total(own))} ${unit}, `
      + `which yields ${shortly(own.tokens_per_round)} tokens`,
    traces: view.head.parts.map((part) => ({
      type: "bar", orientation: "h", name: part.title, y: view.possible.map((each) => each.title),
      x: view.possible.map((each) => scale * view.rates[each.name][part.name]),
      marker: { color: part.colour, pattern: part.pattern },
      hovertemplate: `%{y}, ${part.title}: %{x:.3g} ${unit}<extra></extra>`,
    })),
    layout: { barmode: "stack", margin: NARROW, legend: LEGEND, yaxis: { autorange: "reversed", automargin: true },
      xaxis: { title: { text: `${unit} of a round` } } },
  };
}

function ratioFigure(view) {
  const axis = view.grid.axes.b, subject = view.titled(view.head.subject);
  const rival = view.rivals[0];
  if (!axis || !rival) return null;
  const points = axis.values.map((b) => {
    const over = view.over(rival, { b });
    return { b, outcome: view.outcome(over), ...over };
  }).filter((each) => Number.isFinite(each.ratio));
  const { colour } = view.head.strategies.find((each) => each.name === view.head.subject);
  const turns = points.slice(1).map((each, i) => [points[i], each]).filter(([a, b]) => (a.ratio > 1) !== (b.ratio > 1));
  const traces = [{
    type: "scatter", mode: "lines+markers", name: `${subject} / ${view.titled(rival)}`, showlegend: false,
    x: points.map(({ b }) => b), y: points.map(({ ratio }) => ratio), line: { color: colour },
    marker: { size: points.map(({ b }) => (b === view.batch ? 13 : 7)) },
    hovertemplate: "batch %{x}: %{y:.3f}x<extra></extra>",
  }];
  if (points.every(({ likely }) => likely)) traces.unshift({
    type: "scatter", mode: "lines", fill: "toself", fillcolor: translucent(colour), line: { width: 0 },
    hoverinfo: "skip", showlegend: false, name: "likely",
    x: [...points.map(({ b }) => b), ...points.map(({ b }) => b).reverse()],
    y: [...points.map(({ likely }) => likely[1]), ...points.map(({ likely }) => likely[0]).reverse()],
  });
  const line = (x0, x1, y0, y1, dash) => ({ type: "line", x0, x1, y0, y1, line: { color: "#808080", width: 1.5, dash } });
  const marks = turns.map(([a, b]) => Math.sqrt(a.b * b.b));
  return {
    title: ratioTitle(points, subject, view.titled(rival)),
    traces,
    layout: {
      margin: NARROW, yaxis: { title: { text: `${subject} over ${view.titled(rival)} (tokens/${view.unit})` } },
      xaxis: { type: "log", title: { text: axis.title }, tickvals: axis.values, ticktext: axis.labels },
      shapes: points.length ? [line(points[0].b, points.at(-1).b, 1, 1, "solid"),
        ...turns.map(([a, b]) => ({ type: "rect", x0: a.b, x1: b.b, y0: 0, y1: 1, yref: "paper", line: { width: 0 }, fillcolor: "rgba(128,128,128,0.2)" }))] : [],
      annotations: marks.map((x) => ({ x: Math.log10(x), y: 1, yref: "y", text: "breaks even", showarrow: false, yshift: 10 })),
    },
  };
}

// No firmer than the draws at each batch: where either may be faster, that is said.
function ratioTitle(points, subject, rival) {
  if (!points.length) return `${subject} over ${rival}: not possible here`;
  const words = { wins: `${subject} is faster`, loses: `${rival} is as fast or faster`, undecided: "either may be faster" };
  const spans = points.reduce((found, { b, outcome }) => {
    const last = found.at(-1);
    if (last && last.outcome === outcome) last.to = b;
    else found.push({ outcome, from: b, to: b });
    return found;
  }, []);
  const at = ({ from, to }) => (spans.length === 1 ? "at every batch shown" : `at batch ${from === to ? from : `${from}-${to}`}`);
  return `${subject} against ${rival}: ${spans.map((each) => `${words[each.outcome]} ${at(each)}`).join(", ")}`;
}

function paretoFigure(view) {
  const axes = ["b", "k"].filter((name) => view.grid.axes[name]);
  if (!axes.includes("b")) return null;
  const choices = axes.reduce((found, name) => found.flatMap((each) => view.grid.axes[name].values.map((value) => ({ ...each, [name]: value }))), [{}]);
  const points = view.shown.flatMap((strategy) => {
    const own = choices.filter((choice) => Object.keys(choice).every((name) => view.grid.axes[name].read_by.includes(strategy.name) || choice[name] === view.grid.axes[name].values[0]));
    return own.map((choice) => {
      const place = view.beside(strategy.name, choice), { gpus } = view.answers.numbers(strategy.name, place);
      const rate = view.answers.middle(strategy.name, place);
      const words = Object.entries(choice).filter(([name]) => view.grid.axes[name].read_by.includes(strategy.name));
      return { strategy, user: rate / choice.b, gpu: rate / gpus, text: words.map(([name, value]) => `${name} ${value}`).join(", ") };
    });
  }).filter((each) => Number.isFinite(each.user));
  if (!points.length) return null;
  const ordered = [...points].sort((a, b) => b.user - a.user || b.gpu - a.gpu);
  let most = -Infinity;
  const frontier = ordered.filter((each) => each.gpu > most && ((most = each.gpu), true)).reverse();
  const markers = (own, on) => ({
    type: "scatter", mode: "markers", x: own.map((each) => each.user), y: own.map((each) => each.gpu),
    text: own.map((each) => `${each.strategy.title}, ${each.text}`), hovertemplate: "%{text}<br>%{x:.4g} per user, %{y:.4g} per GPU<extra></extra>",
    ...on,
  });
  const [fastest, cheapest] = [frontier.at(-1), frontier[0]];
  return {
    title: `Fastest for a user: ${fastest.strategy.title} (${fastest.text}), ${shortly(fastest.user)}; cheapest: ${cheapest.strategy.title} (${cheapest.text}), ${shortly(cheapest.gpu)} per GPU`,
    traces: [
      { type: "scatter", mode: "lines", x: frontier.map((each) => each.user), y: frontier.map((each) => each.gpu), line: { color: "#808080", width: 1.5 }, hoverinfo: "skip", showlegend: false },
      ...view.shown.map((strategy) => markers(points.filter((each) => each.strategy === strategy), {
        name: strategy.title, marker: { color: strategy.colour, symbol: strategy.symbol, size: points.filter((each) => each.strategy === strategy).map((each) => (frontier.includes(each) ? 10 : 6)) } })),
    ],
    layout: { margin: NARROW, legend: LEGEND, xaxis: { title: { text: `tokens/${view.unit} per user` }, rangemode: "tozero" },
      yaxis: { title: { text: `tokens/${view.unit} per GPU` }, rangemode: "tozero" } },
  };
}

function memoryFigure(view) {
  const axis = view.grid.axes.b;
  if (!axis || !Object.keys(view.head.memory).length) return null;
  const limits = [];
  let fullest = 0, tight = false;
  const traces = view.shown.filter(({ name }) => view.head.memory[name]).map(({ name, title, colour, symbol }) => {
    const shares = axis.values.map((b) => view.grid.nearest(view.head.memory[name], view.beside(name, { b }))[0]);
    const fitting = axis.values.filter((_, i) => shares[i] <= 1);
    fullest = shares.reduce((most, share) => Math.max(most, share), fullest);
    tight ||= fitting.length < axis.values.length;
    limits.push(fitting.length === axis.values.length ? `${title} at every batch` : fitting.length ? `${title} up to batch ${fitting.at(-1)}` : `${title} at none`);
    return { type: "scatter", mode: "lines+markers", name: title, x: axis.values, y: shares.map((share) => 100 * share), line: { color: colour },
      marker: { symbol, size: axis.values.map((b) => (b === view.batch ? 12 : 7)) }, hovertemplate: `${title}, batch %{x}: %{y:.0f} %<extra></extra>` };
  });
  return {
    title: tight ? `Fits on its fullest GPU: ${limits.join(", ")}` : `Everything fits: the fullest GPU takes up to ${Math.round(100 * fullest)} %`,
    traces,
    layout: {
      margin: NARROW, legend: LEGEND, xaxis: { type: "log", title: { text: axis.title }, tickvals: axis.values, ticktext: axis.labels },
      yaxis: { title: { text: "% of usable memory" }, rangemode: "tozero" },
      shapes: [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: 100, y1: 100, line: { color: "#d55e00", width: 1.5, dash: "dash" } }],
    },
  };
}

const FIGURES = { rates: ratesFigure, round: roundFigure, ratio: ratioFigure, memory: memoryFigure, pareto: paretoFigure };
const WIDE = ["pareto"];
