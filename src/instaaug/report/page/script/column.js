// What one run makes of one input, from top to bottom.

/** `pick(n)` asks for n views. Returns `{element, show(n, likeliest), words(n)}`. */
function runColumn(content, runIndex, i, pick) {
  const run = content.runs[runIndex];
  const one = run.inputs[i];
  const spotlight = createSpotlight();
  const prediction = predictionPart(content, runIndex, i);
  const picture = stage(content, runIndex, i, spotlight);
  const parts = [prediction, picture];
  const slots = { strip: el("div", { class: "part" }), chart: el("div", { class: "part" }) };
  if (run.n_views) {
    const pictures = strip(run, one, spotlight);
    const chart = convergence(content, runIndex, i, pick);
    slots.strip = pictures.element;
    slots.chart = chart.element;
    parts.push(pictures, chart);
  }
  const factors = factorNames(content).map((name) => {
    const f = factorIndex(run, name);
    if (f < 0) return el("div", { class: "part" });
    const part = factorPart(content, runIndex, i, f, spotlight);
    parts.push(part);
    return part.element;
  });
  const element = el(
    "section",
    { class: `column ${runClass(runIndex)}`, "aria-label": run.name },
    el(
      "div",
      { class: "side" },
      el("h3", { class: "column-name" }, runName(content, runIndex)),
      picture.element,
      slots.strip,
    ),
    el(
      "div",
      { class: "side" },
      prediction.element,
      slots.chart,
      ...factors,
      numbersPart(content, one),
    ),
  );
  const show = (n, likeliest) => {
    const own = Math.min(n, run.n_views);
    parts.forEach((part) => part.show(own, likeliest));
  };
  const words = (n) =>
    (severalRuns(content) ? `${run.name}: ` : "") + prediction.words(Math.min(n, run.n_views));
  return { element, show, words };
}

/** The view, or the box among the candidates, that is pointed at; the parts of a column follow. */
function createSpotlight() {
  const followers = [];
  const frames = [];
  const keepers = [];
  let pinned = null;
  const tell = (view) => followers.forEach((follow) => follow(view));
  return {
    follow: (follower) => followers.push(follower),
    onPin: (keeper) => keepers.push(keeper),
    onFrame: (follower) => frames.push(follower),
    frame: (box) => frames.forEach((follow) => follow(box)),
    point: (view) => tell(view ?? pinned),
    pin: (view) => {
      pinned = pinned === view ? null : view;
      tell(pinned);
      keepers.forEach((keep) => keep(pinned));
    },
  };
}

/** Losses and disagreement, as far as they are known. */
function numbersPart(content, one) {
  const rows = [
    ["Loss of the image alone", number(one.loss), isNumber(one.loss)],
    [
      "Loss with all views",
      number(one.loss_merged),
      isNumber(one.loss_merged) && one.merged.length > 0,
    ],
    [
      content.task === "regression" ? "Deviation of views" : "Views that vote otherwise",
      content.task === "regression" ? number(one.disagreement) : probability(one.disagreement),
      isNumber(one.disagreement) && one.merged.length > 0,
    ],
  ].filter(([, , known]) => known);
  return el(
    "dl",
    { class: "part numbers-part" },
    ...rows.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))),
  );
}
