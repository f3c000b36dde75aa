// What follows from the content: names of classes, predictions, who is right.

const WHOLE = 1000000; // what probabilities are parts of

function className(content, index) {
  return content.classes[index] ?? `class ${index}`;
}

function outputName(content, index, n) {
  return content.classes[index] ?? (n === 1 ? "prediction" : `output ${index + 1}`);
}

function targetWords(content, input) {
  if (content.task === "classification") return className(content, input.target);
  return [input.target].flat().map(number).join(", ");
}

function severalRuns(content) {
  return content.runs.length > 1;
}

/** Values from the first n views, or from the image alone if there are none. */
function valuesFrom(runInput, n) {
  const { merged, plain } = runInput;
  return n > 0 && merged.length ? merged[Math.min(n, merged.length) - 1] : plain;
}

/** The likeliest class and its probability. */
function bestOf(runInput, values) {
  if (!values.length || !runInput.classes.length) return null;
  const at = values.reduce((best, v, i) => (v > values[best] ? i : best), 0);
  return { index: runInput.classes[at], p: values[at] / WHOLE };
}

/** "right", "wrong", or what the views changed: "fixed", "spoilt"; null if it cannot be said. */
function verdict(content, runIndex, i) {
  if (content.task !== "classification") return null;
  const one = content.runs[runIndex]?.inputs[i];
  if (!one) return null;
  const merged = bestOf(one, valuesFrom(one, Infinity));
  const plain = bestOf(one, one.plain);
  if (!merged) return null;
  const { target } = content.inputs[i];
  if (merged.index === target) return plain && plain.index !== target ? "fixed" : "right";
  return plain && plain.index === target ? "spoilt" : "wrong";
}

/** Position of each factor's name over all runs, in the order of first appearance. */
function factorNames(content) {
  return [...new Set(content.runs.flatMap((run) => run.factors.map((factor) => factor.name)))];
}

function factorIndex(run, name) {
  return run.factors.findIndex((factor) => factor.name === name);
}

function mostViews(content) {
  return content.runs.reduce((most, run) => Math.max(most, run.n_views), 0);
}

/** The run's mark and name: the mark's shape and color tell runs apart wherever they appear. */
function runName(content, runIndex) {
  return el("span", { class: "run-name" }, runMark(runIndex), nameOf(content.runs[runIndex].name));
}

const MARKS = [
  "M10 4a6 6 0 1 0 .01 0Z",
  "M4.5 4.5h11v11h-11Z",
  "M10 3.5L17 16H3Z",
  "M10 2.5L17.5 10 10 17.5 2.5 10Z",
  "M3 4h14L10 16.5Z",
  "M10 3l6.7 4.8-2.6 7.9H5.9L3.3 7.8Z",
];

function runMark(runIndex) {
  return draw(
    "svg",
    { class: `mark ${runClass(runIndex)}`, viewBox: "0 0 20 20", "aria-hidden": "true" },
    draw("path", { d: MARKS[runIndex % MARKS.length] }),
  );
}

function runClass(runIndex) {
  return `run-${runIndex % MARKS.length}`;
}
