// From values to places, and the round numbers to mark on the way.

/** Maps [low, high] to [start, end]; `log` for values that span decades. */
function scale(low, high, start, end, log = false) {
  const f = log ? Math.log10 : (v) => v;
  const width = f(high) - f(low);
  return (value) =>
    width === 0 ? (start + end) / 2 : start + ((f(value) - f(low)) / width) * (end - start);
}

/** Says of an axis that does not begin at zero that it does not; distances matter, not lengths. */
function axisWords([low], tick) {
  return low > 0 ? `The axis begins at ${tick(Number(low.toPrecision(2)))}, not at zero.` : "";
}

function clamp(value, low, high) {
  return Math.min(Math.max(value, low), high);
}

/** Smallest and largest of the numbers among `values`; null if there are none. */
function extent(values) {
  const known = values.filter(isNumber);
  if (!known.length) return null;
  return [known.reduce((a, b) => Math.min(a, b)), known.reduce((a, b) => Math.max(a, b))];
}

/** The same, with room on either side, also around a single value. */
function roomy([low, high], share = 0.06) {
  const room = (high - low) * share || Math.abs(high) * 0.1 || 1;
  return [low - room, high + room];
}

/** Round numbers in [low, high], `about` that many. */
function ticks(low, high, about = 4) {
  const rough = (high - low) / about;
  if (!(rough > 0)) return [low];
  const decade = 10 ** Math.floor(Math.log10(rough));
  const step = decade * ([1, 2, 5].find((m) => rough <= m * decade) ?? 10);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) {
    found.push(Number((k * step).toPrecision(12)));
  }
  return found;
}

function logTicks(low, high) {
  const found = [];
  for (let k = Math.ceil(Math.log10(low)); 10 ** k <= high; k++) found.push(10 ** k);
  if (found.length < 2) return [low, high];
  const skip = Math.ceil(found.length / 4);
  return found.filter((_, i) => i % skip === 0);
}

/** Places at least `gap` apart, each as near as can be to where it is wanted. */
function spread(wanted, gap, low, high) {
  const order = wanted.map((_, i) => i).sort((a, b) => wanted[a] - wanted[b]);
  const places = wanted.slice();
  order.forEach((i, rank) => {
    places[i] = Math.max(wanted[i], rank ? places[order[rank - 1]] + gap : low);
  });
  for (let rank = order.length - 1; rank >= 0; rank--) {
    const ceiling = rank === order.length - 1 ? high : places[order[rank + 1]] - gap;
    places[order[rank]] = Math.min(places[order[rank]], ceiling);
  }
  return places;
}
