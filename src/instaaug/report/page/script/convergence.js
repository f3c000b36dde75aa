// How the averaged prediction settles as views are added.

const MOST_LINES = 5;

function convergence(content, runIndex, i, pick) {
  const run = content.runs[runIndex];
  const one = run.inputs[i];
  const spec =
    content.task === "classification"
      ? probabilityLines(content, run, i)
      : outputLines(content, run, i);
  const chart = plot({ ...spec, xName: "views", whole: true, height: 176 });
  chart.element.addEventListener("pointerdown", (event) => pick(Math.round(chart.xAt(event))));
  const words = el("p", { class: "sr" }, convergenceWords(spec, one.merged.length));
  const element = el(
    "div",
    { class: "part" },
    el("h4", {}, "Averaged prediction"),
    chart.element,
    words,
  );
  return { element, show: (n) => chart.show(n) };
}

/** The likeliest classes at any number of views, and the true one. */
function probabilityLines(content, run, i) {
  const { classes, merged } = run.inputs[i];
  const { target } = content.inputs[i];
  const x = merged.map((_, k) => k + 1);
  const peaks = classes.map((_, c) => merged.reduce((most, row) => Math.max(most, row[c]), 0));
  const order = classes.map((_, c) => c).sort((a, b) => peaks[b] - peaks[a]);
  const kept = order.filter((c, rank) => rank < MOST_LINES || classes[c] === target);
  let others = 0;
  const lines = kept.map((c) => ({
    name: className(content, classes[c]) + (classes[c] === target ? " (true)" : ""),
    x,
    values: merged.map((row) => row[c] / WHOLE),
    className: classes[c] === target ? "truth" : `other-${others++ % MOST_LINES}`,
  }));
  return {
    lines: [...lines].reverse(),
    range: [0, 1],
    format: (v) => percent(v, 0),
    tick: percentTick,
  };
}

function outputLines(content, run, i) {
  const { merged } = run.inputs[i];
  const targets = [content.inputs[i].target].flat();
  const x = merged.map((_, k) => k + 1);
  const lines = targets.map((_, c) => ({
    name: outputName(content, c, targets.length),
    x,
    values: merged.map((row) => row[c]),
    className: runClass(c),
  }));
  const levels = targets.map((value, c) => ({
    value,
    words: targets.length > 1 ? `target ${c + 1}` : "target",
  }));
  return { lines, levels, format: number, tick: tickWords };
}

function convergenceWords(spec, n) {
  const words = ({ name, values }) => {
    const [first, last] = [values[0], values[n - 1]].map(spec.format);
    return `${name}: ${first} from one view, ${last} from ${n}.`;
  };
  return spec.lines.map(words).join(" ");
}
