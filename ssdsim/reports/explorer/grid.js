// The numbers of the page: tables over axes, a place in them, and what lies between their nodes. No law is known here.

class Grid {
  static async of(head) {
    return new Grid(head, new Float32Array(await unpacked(head.numbers)));
  }

  constructor(head, numbers) {
    this.head = head;
    this.numbers = numbers;
    this.axes = Object.fromEntries(head.axes.map((axis) => [axis.name, axis]));
    this.draws = head.basis.draws;
    this.vectors = Array.from({ length: head.basis.shape[0] }, (_, i) => this.row(head.basis, i));
    this.means = this.vectors.map((vector) => vector.reduce((sum, each) => sum + each, 0) / vector.length);
  }

  // A row of an array of two axes.
  row(array, i) {
    const [, width] = array.shape;
    return this.numbers.subarray(array.start + i * width, array.start + (i + 1) * width);
  }

  scaled(name, value) { return this.axes[name].log ? Math.log(value) : value; }

  // The weights of an axis's nodes at a place: Lagrange's polynomial through the nearest of them.
  weights(nodes, at) {
    const width = Math.min(this.head.width, nodes.length);
    const above = nodes.findIndex((node) => node >= at);
    const start = Math.max(0, Math.min((above < 0 ? nodes.length : above) - this.head.width / 2, nodes.length - width));
    const near = nodes.slice(start, start + width);
    return near.map((one, i) => [start + i, near.reduce(
      (product, other) => (other === one ? product : (product * (at - other)) / (one - other)), 1)]);
  }

  // The number of a table's row at the stops of a place, the nodes of its interpolated axes at their first.
  base(table, place) {
    return table.axes.reduce((row, name, i) => {
      const size = table.shape[i];
      return row * size + (size === 1 || name in table.nodes ? 0 : this.axes[name].values.indexOf(place[name]));
    }, 0);
  }

  // The numbers of a row at the stops of a place; what is interpolated has one node in such an array.
  nearest(array, place, count = 1) {
    const start = array.start + this.base(array, place) * count;
    return this.numbers.subarray(start, start + count);
  }

  // Why a strategy is not possible: the number of its reason, or -1.
  refused(name, place) {
    return this.nearest(this.head.refused[name], place)[0];
  }

  // The range of a doubt about a value, and values over it.
  about(name, value) {
    const doubt = this.head.doubts[name], { values } = doubt;
    const above = Math.max(1, values.findIndex((each) => each >= value));
    const share = (value - values[above - 1]) / (values[above] - values[above - 1]);
    const between = (one, other) => Array.from(one, (each, i) => each + share * (other[i] - each));
    return {
      ends: between(doubt.ends[above - 1], doubt.ends[above]),
      looks: between(this.row(doubt.looks, above - 1), this.row(doubt.looks, above)),
    };
  }
}

// Answers where the page's sliders of rates stand: one of a doubt stands for a range, all others for a value.
class Answers {
  constructor(grid, state) {
    this.grid = grid;
    this.head = grid.head;
    this.values = state.at;
    const open = Object.keys(this.head.doubts).filter((name) => !state.measured.includes(name));
    this.looks = Object.fromEntries(open.map((name) => [name, grid.about(name, state.at[name]).looks]));
    this.count = open.length ? this.looks[open[0]].length : 1;
    this.lattices = new Map();
    this.known = new Map();
  }

  // The weights of all combinations of nodes of a table's interpolated axes, a row a look, and by how many rows each is on.
  lattice(table) {
    if (this.lattices.has(table)) return this.lattices.get(table);
    let steps = [0], weights = Array.from({ length: this.count }, () => [1]);
    table.axes.forEach((name, i) => {
      if (!(name in table.nodes)) return;
      const nodes = table.nodes[name], behind = table.shape.slice(i + 1, table.axes.length).reduce((all, each) => all * each, 1);
      steps = steps.flatMap((step) => nodes.map((_, node) => step + node * behind));
      weights = weights.map((row, look) => {
        const own = new Array(nodes.length).fill(0), at = this.looks[name]?.[look] ?? this.values[name];
        for (const [node, weight] of this.grid.weights(nodes, this.grid.scaled(name, at))) own[node] = weight;
        return row.flatMap((weight) => own.map((each) => weight * each));
      });
    });
    const middle = steps.map((_, i) => weights.reduce((sum, row) => sum + row[i], 0) / this.count);
    this.lattices.set(table, { steps, weights, middle });
    return this.lattices.get(table);
  }

  // A column of a table at a place: by the weights of a look, or of their mean.
  column(table, place, column, weights) {
    const { steps } = this.lattice(table), width = table.columns.length, base = this.grid.base(table, place);
    let sum = 0;
    for (let i = 0; i < steps.length; i++) {
      if (weights[i]) sum += weights[i] * this.grid.numbers[table.start + (base + steps[i]) * width + column];
    }
    return sum;
  }

  // All columns of a strategy where the sliders stand.
  numbers(name, place) {
    const table = this.head.rates[name];
    if (!this.centre) this.centre = this.count === 1 ? this : new Answers(this.grid, { at: this.values, measured: Object.keys(this.head.doubts) });
    const [weights] = this.centre.lattice(table).weights;
    return Object.fromEntries(table.columns.map((column, i) => [column, this.centre.column(table, place, i, weights)]));
  }

  // Logarithms of a strategy's tokens/s: at each look, at their median, and in each draw of all errors.
  rates(name, place) {
    const table = this.head.rates[name], key = `${name} ${this.grid.base(table, place)}`;
    if (this.known.has(key)) return this.known.get(key);
    const logs = this.logs(name, place), found = { logs, draws: null };
    if (this.grid.draws) {
      const errors = this.errors(name, place), draws = new Float64Array(this.grid.draws);
      for (let j = 0; j < draws.length; j++) draws[j] = logs[j % this.count];
      errors.forEach((size, i) => { for (let j = 0; j < draws.length; j++) draws[j] += size * this.grid.vectors[i][j]; });
      found.draws = draws;
    }
    this.known.set(key, found);
    return found;
  }

  logs(name, place) {
    const table = this.head.rates[name];
    return this.lattice(table).weights.map((weights) => this.column(table, place, 0, weights));
  }

  errors(name, place) {
    const table = this.head.errors[name], { middle } = this.lattice(table);
    return table.columns.map((_, i) => this.column(table, place, i, middle));
  }

  middle(name, place) { return Math.exp(median(this.logs(name, place))); }

  // The median of tokens/s, and its likely range; no range where nothing is uncertain.
  rate(name, place) {
    const { logs, draws } = this.rates(name, place);
    return { rate: Math.exp(median(logs)), likely: draws && this.likely(draws) };
  }

  likely(draws) {
    const sorted = Float64Array.from(draws).sort();
    return Number.isNaN(sorted.at(-1)) ? null : this.head.likely.map((share) => Math.exp(quantile(sorted, share)));
  }

  // One strategy over another, each at a place: the median of the ratio, its likely range, and in how many draws it is faster.
  over(name, place, rival, its) {
    const own = this.rates(name, place), other = this.rates(rival, its);
    const ratio = Math.exp(median(own.logs.map((log, i) => log - other.logs[i])));
    if (!own.draws) return { ratio, likely: null, faster: ratio > 1 ? 1 : 0 };
    const draws = own.draws.map((log, i) => log - other.draws[i]);
    return { ratio, likely: this.likely(draws), faster: draws.reduce((sum, log) => sum + (log > 0) + (log === 0) / 2, 0) / draws.length };
  }

  // A place in which a word that stands for the best of a strategy's stops is that stop: by the mean of the logarithms.
  // Of those that are as good the first is taken; a fallback is always the better.
  resolved(name, place) {
    const table = this.head.rates[name];
    const open = table.axes.map((each) => this.grid.axes[each]).filter((axis) => axis.best !== null && place[axis.name] === axis.best);
    if (!open.length) return place;
    const places = open.reduce((found, axis) => found.flatMap((each) => axis.values.map((value) => ({ ...each, [axis.name]: value }))), [place]);
    const levels = places.map((each) => this.level(name, each));
    const most = levels.reduce((best, level) => (level > best ? level : best), -Infinity);
    const first = places[levels.findIndex((level) => level >= most - this.head.tied)];
    if (!first) return places[0];
    const alike = places.map((each, i) => [each, levels[i]]).filter(([each]) => this.head.searched.every((axis) => each[axis] === first[axis]));
    return alike.reduce((best, each) => (each[1] > best[1] ? each : best))[0];
  }

  level(name, place) {
    const table = this.head.rates[name], errors = this.grid.draws ? this.errors(name, place) : [];
    return this.column(table, place, 0, this.lattice(table).middle) + errors.reduce((sum, size, i) => sum + size * this.grid.means[i], 0);
  }
}

function quantile(sorted, share) {
  const place = share * (sorted.length - 1), before = Math.floor(place);
  return sorted[before] + (place - before) * (sorted[Math.min(before + 1, sorted.length - 1)] - sorted[before]);
}

function median(values) { return quantile(Float64Array.from(values).sort(), 0.5); }

function nearestTo(nodes, at) {
  return nodes.reduce((best, node, i) => (Math.abs(node - at) < Math.abs(nodes[best] - at) ? i : best), 0);
}
