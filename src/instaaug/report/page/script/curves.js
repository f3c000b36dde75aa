// The training curves: small charts with one hair line through all of them.

function curves(content) {
  const panels = curvePanels(content);
  if (!panels.length) return null;
  const epochs = [
    ...new Set(panels.flatMap((panel) => panel.lines.flatMap((line) => line.x))),
  ].sort((a, b) => a - b);
  const charts = panels.map((panel) =>
    curveChart(panel, epochs, (epoch) => charts.forEach((chart) => chart.show(epoch))),
  );
  return section(
    "training",
    "Training",
    el(
      "p",
      { class: "lead" },
      "Point at a curve, or focus it and use the arrow keys, to read the values of an epoch.",
    ),
    el("div", { class: "panels" }, ...charts.map((chart) => chart.element)),
    curveTable(panels, epochs),
  );
}

/** With one run a panel holds related curves; with several it holds one curve of every run. */
function curvePanels(content) {
  const { runs } = content;
  const shares = runs.every((run) => run.is_share);
  const groups = [
    ...grouped(content, "loss", "Loss", number, tickWords),
    ...grouped(
      content,
      "score",
      "Score",
      (v) => score(v, shares),
      shares ? percentTick : tickWords,
    ),
    ...byName(
      content,
      "entropy",
      (name) => `Entropy of ${name}, in nats`,
      number,
      tickWords,
      true,
    ),
    ...byName(content, "weight", (name) => `Weight λ of ${name}`, number, tickWords, false),
  ];
  return groups
    .filter((panel) => panel.lines.some((line) => line.values.some(isNumber)))
    .map((panel) => ({ ...panel, lines: labeled(panel), xName: "epoch", whole: true }));
}

/** A curve that is alone needs no name; its last value says more. */
function labeled({ lines, format }) {
  if (lines.length > 1) return lines;
  return lines.map((line) => ({ ...line, label: format(lastKnown(line)?.value) }));
}

function grouped(content, key, title, format, tick) {
  if (severalRuns(content))
    return byName(content, key, (name) => `${title}, ${name}`, format, tick, false);
  return content.runs.map((run) => ({
    title: [
      title,
      ...(Object.keys(run.curves[key]).length === 1 ? Object.keys(run.curves[key]) : []),
    ].join(", "),
    format,
    tick,
    lines: Object.entries(run.curves[key]).map(([name, values], i) => ({
      name,
      values,
      x: run.curves.epoch,
      className: runClass(i),
    })),
  }));
}

function byName(content, key, title, format, tick, banded) {
  const { runs } = content;
  const names = [...new Set(runs.flatMap((run) => Object.keys(run.curves[key])))];
  return names.map((name) => {
    const owners = runs
      .map((run, i) => ({ run, i }))
      .filter(({ run }) => Object.hasOwn(run.curves[key], name));
    const lines = owners.map(({ run, i }) => ({
      name: severalRuns(content) ? run.name : name,
      values: run.curves[key][name],
      x: run.curves.epoch,
      className: runClass(i),
    }));
    const values = lines.flatMap((line) => line.values).filter(isNumber);
    const [low, high] = extent(values) ?? [1, 1];
    const log = key === "weight" && low > 0 && high / low > 50;
    return {
      title: title(name),
      format,
      tick,
      lines,
      log,
      bands: banded ? bandsOf(owners, name) : [],
    };
  });
}

/** The bands of the runs, each once. */
function bandsOf(owners, name) {
  const bands = new Map();
  for (const { run } of owners) {
    const band = run.factors[factorIndex(run, name)]?.band;
    if (band) bands.set(band.join(), { low: band[0], high: band[1], words: ["H min", "H max"] });
  }
  return [...bands.values()];
}

function curveChart(panel, epochs, showAll) {
  const chart = plot(panel);
  const readOut = el("p", { class: "read-out" }, "\u00a0");
  let at = epochs.length - 1;
  const words = (epoch) =>
    panel.lines
      .map((line) => [line.name, valueAt(line, epoch)])
      .filter(([, value]) => isNumber(value))
      .map(([name, value]) => `${name} ${panel.format(value)}`)
      .join(" · ");
  const handle = el(
    "div",
    {
      class: "handle",
      tabindex: "0",
      role: "slider",
      "aria-label": `${panel.title}: epoch`,
      "aria-valuemin": epochs[0],
      "aria-valuemax": epochs[epochs.length - 1],
      "aria-valuenow": epochs[at],
      "aria-valuetext": `epoch ${number(epochs[at])}: ${words(epochs[at])}`,
      on: {
        pointermove: (event) => showAll(nearest(epochs, chart.xAt(event))),
        focus: () => showAll(epochs[at]),
        keydown: (event) => {
          const step = {
            ArrowLeft: -1,
            ArrowDown: -1,
            ArrowRight: 1,
            ArrowUp: 1,
            Home: -Infinity,
            End: Infinity,
          }[event.key];
          if (step === undefined) return;
          event.preventDefault();
          showAll(epochs[clamp(at + step, 0, epochs.length - 1)]);
        },
      },
    },
    chart.element,
  );
  const element = el(
    "figure",
    { class: "panel" },
    el("h3", {}, el("bdi", {}, panel.title)),
    handle,
    readOut,
  );
  const show = (epoch) => {
    at = epochs.indexOf(epoch);
    chart.show(epoch);
    const text = `epoch ${number(epoch)}: ${words(epoch) || "no value"}`;
    readOut.textContent = text;
    handle.setAttribute("aria-valuenow", epoch);
    handle.setAttribute("aria-valuetext", text);
  };
  return { element, show };
}

function nearest(sorted, x) {
  return sorted.reduce(
    (best, other) => (Math.abs(other - x) < Math.abs(best - x) ? other : best),
    sorted[0],
  );
}

/** Every value, for those who would rather read; filled when it is opened. */
function curveTable(panels, epochs) {
  const details = el("details", { class: "as-table" }, el("summary", {}, "All values as a table"));
  const columns = panels.flatMap((panel) => panel.lines.map((line) => ({ panel, line })));
  const fill = () => {
    if (details.children.length > 1) return;
    const head = el(
      "tr",
      {},
      ...["Epoch", ...columns.map(({ panel, line }) => `${panel.title}: ${line.name}`)].map((t) =>
        el("th", { scope: "col" }, el("bdi", {}, t)),
      ),
    );
    const rows = epochs.map((epoch) =>
      el(
        "tr",
        {},
        el("th", { scope: "row" }, number(epoch)),
        ...columns.map(({ panel, line }) => el("td", {}, panel.format(valueAt(line, epoch)))),
      ),
    );
    details.append(
      el(
        "div",
        {
          class: "scroll-x",
          tabindex: "0",
          role: "region",
          "aria-label": "Values of every epoch",
        },
        el("table", { class: "numbers" }, el("thead", {}, head), el("tbody", {}, ...rows)),
      ),
    );
  };
  details.addEventListener("toggle", fill);
  return details;
}
