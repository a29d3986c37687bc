// The numbers of the page: tables over axes, a place in them, and what lies between their nodes. No law is known here.

class Grid {
  static async of(head) {
    return new Grid(head, new Float32Array(await unpacked(head.numbers)));
  }

  constructor(head, numbers) {
    this.head = head;
    this.numbers = numbers;
    this.axes = Object.fromEntries(head.axes.map((axis) => [axis.name, axis]));
  }

  // The weights of an axis's nodes at a place: Lagrange's polynomial through the nearest of them.
  weights(nodes, at) {
    const width = Math.min(this.head.width, nodes.length);
    const above = nodes.findIndex((node) => node >= at);
    const start = Math.max(0, Math.min((above < 0 ? nodes.length : above) - this.head.width / 2, nodes.length - width));
    const near = nodes.slice(start, start + width);
    return near.map((one, i) => [start + i, near.reduce(
      (product, other) => (other === one ? product : (product * (at - other)) / (one - other)), 1)]);
  }

  // Where a table's columns begin at a place, each with its weight. With `nearest` there is only one.
  corners(table, place, nearest = false) {
    let found = [[0, 1]];
    table.axes.forEach((name, i) => {
      const size = table.shape[i];
      let steps;
      if (size === 1) steps = [[0, 1]];
      else if (name in table.nodes) {
        steps = this.weights(table.nodes[name], place[name]);
        if (nearest) steps = [[nearestTo(table.nodes[name], place[name]), 1]];
      } else steps = [[this.axes[name].values.indexOf(place[name]), 1]];
      found = found.flatMap(([at, weight]) => steps.map(([step, more]) => [at * size + step, weight * more]));
    });
    return found;
  }

  // All columns of a table at a place.
  at(table, place) {
    const columns = table.columns, found = Object.fromEntries(columns.map((name) => [name, 0]));
    for (const [row, weight] of this.corners(table, place)) {
      columns.forEach((name, i) => { found[name] += weight * this.numbers[table.start + row * columns.length + i]; });
    }
    return found;
  }

  // The numbers of an array without interpolation.
  nearest(array, place, count = 1) {
    const [[row]] = this.corners(array, place, true);
    return this.numbers.subarray(array.start + row * count, array.start + (row + 1) * count);
  }

  // A place in which a word that stands for the best of an axis's stops is that stop.
  resolved(place) {
    const axis = this.head.axes.find((each) => each.best !== null && place[each.name] === each.best);
    if (!axis) return place;
    const places = axis.values.map((value) => ({ ...place, [axis.name]: value }));
    const rates = places.map((each) => this.at(this.head.rates[this.head.subject], each).log_rate);
    return places[rates.reduce((best, rate, i) => (rate > rates[best] || Number.isNaN(rates[best]) ? i : best), 0)];
  }

  // Why a strategy is not possible: the number of its reason, or -1.
  refused(name, place) {
    return this.nearest(this.head.refused[name], place)[0];
  }

  rate(name, place) {
    const found = this.at(this.head.rates[name], place);
    return { ...found, rate: Math.exp(found.log_rate) };
  }

  // The subject over each rival, the ends of their rates, the sentence of the verdict, and what it decides.
  contest(place, measured, rivals) {
    const table = measured || !this.head.assumed ? this.head.given : this.head.assumed;
    const { subject } = this.head, found = this.at(table, place), own = this.rate(subject, place);
    const over = Object.fromEntries(this.head.rivals.map((rival) => {
      const other = this.rate(rival, place), ratio = own.rate / other.rate;
      const numbers = { ratio, faster: found[`${rival}:faster`], per_gpu: (ratio * other.gpus) / own.gpus };
      for (const name of ["low", "high", "surely", "hardly", "lowest", "highest"]) {
        numbers[name] = ratio * Math.exp(found[`${rival}:${name}`]);
      }
      numbers.lowest_per_gpu = (numbers.lowest / ratio) * numbers.per_gpu;
      numbers.highest_per_gpu = (numbers.highest / ratio) * numbers.per_gpu;
      return [rival, numbers];
    }));
    const ends = Object.fromEntries([subject, ...this.head.rivals].map((name) => {
      const { rate } = name === subject ? own : this.rate(name, place);
      return [name, [rate * Math.exp(found[`rate of ${name}:low`]), rate * Math.exp(found[`rate of ${name}:high`])]];
    }));
    return { over, ends, ...this.verdict(table, place, over, found, rivals) };
  }

  // The outcome is that of Python's contest: "wins", "loses" or "undecided"; empty where nothing is held.
  verdict(table, place, over, found, rivals) {
    const { head } = this, why = this.refused(head.subject, place);
    if (why >= 0) return { sentence: head.refused[head.subject].sentences[why], outcome: "" };
    const set = table.sets.findIndex((each) => each.length === rivals.length && each.every((name) => rivals.includes(name)));
    const present = set < 0 ? [] : table.sets[set].filter((rival) => !Number.isNaN(over[rival].ratio));
    if (!present.length) return { sentence: head.alone, outcome: "" };
    const [template, outcome] = this.template(table, place, set, over, Math.exp(found[`best:${set}`]));
    const numbers = present.map((rival) => over[rival]);
    const closest = numbers.reduce((least, each) => (each.ratio < least.ratio ? each : least));
    const more = { more_per_gpu: Math.abs(closest.per_gpu - 1), probability: closest.faster };
    return { sentence: filled(template, numbers, more), outcome };
  }

  // The nearest point's, where it has the same case; else that of any point with this case.
  template(table, place, set, over, best) {
    const near = table.known[this.nearest(table.cases, place, table.sets.length)[set]];
    const code = this.code(table.sets[set], over, best);
    const same = near && near[0] === code ? near : table.known.find(([other]) => other === code) ?? near;
    return same ? table.sentences[same[1]] : [this.head.alone, ""];
  }

  // On which side of which thresholds the numbers lie, and the order of the rivals.
  code(rivals, over, best) {
    const reached = (value, thresholds) => (Number.isNaN(value) ? "x" : thresholds.filter((each) => each <= value).length);
    const digits = rivals.map((rival) => Object.entries(this.head.thresholds).map(
      ([name, thresholds]) => reached(over[rival][name], thresholds)).join("")).join("");
    const order = rivals.map((_, i) => i).sort((one, other) => {
      const [a, b] = [over[rivals[one]].ratio, over[rivals[other]].ratio];
      return (Number.isNaN(a) ? Infinity : a) - (Number.isNaN(b) ? Infinity : b) || one - other;
    });
    return digits + reached(best, [1]) + order.join("");
  }
}

function nearestTo(nodes, at) {
  return nodes.reduce((best, node, i) => (Math.abs(node - at) < Math.abs(nodes[best] - at) ? i : best), 0);
}

// A template of Python's with its numbers: {over[0].ratio:.2f}, {more_per_gpu:.0%}, {{ for a brace.
function filled(template, over, more) {
  return template.replace(/\{\{|\}\}|\{(?:over\[(\d+)\]\.)?(\w+):\.(\d)(f|%)\}/g, (whole, at, name, digits, kind) => {
    if (whole === "{{" || whole === "}}") return whole[0];
    const value = at === undefined ? more[name] : over[Number(at)][name];
    return kind === "%" ? `${(100 * value).toFixed(digits)}%` : value.toFixed(digits);
  });
}
