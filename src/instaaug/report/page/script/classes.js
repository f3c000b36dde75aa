// Mean entropy per class: which classes may be changed a lot, and which must be left as they are.

const CLASSES_AT_ENDS = 8; // shown at the top and at the bottom when there are many

/** `onClass` receives the index of the class that was chosen. */
function classEntropies(content, onClass) {
  const names = factorNames(content).filter((name) =>
    content.runs.some((run) =>
      run.class_entropy.some((c) => isNumber(c.entropy[factorIndex(run, name)])),
    ),
  );
  if (!names.length) return null;
  const indices = new Map(
    content.inputs.map((input) => [className(content, input.target), input.target]),
  );
  const body = el("div");
  const axis = el("span", {});
  let factor = names[0];
  let whole = false;
  const fill = () => {
    const rows = classRows(content, factor);
    const bounds = entropyBounds(content, factor, rows);
    axis.textContent = axisWords(bounds, (v) => `${tickWords(v)} nats`);
    const cut = !whole && rows.length > 3 * CLASSES_AT_ENDS;
    const shown = cut
      ? [...rows.slice(0, CLASSES_AT_ENDS), null, ...rows.slice(-CLASSES_AT_ENDS)]
      : rows;
    const button = el(
      "button",
      { type: "button", class: "quiet", on: { click: () => ((whole = !whole), fill()) } },
      cut ? `Show all ${number(rows.length)} classes` : "Show fewer",
    );
    body.replaceChildren(
      classTable(
        content,
        factor,
        shown,
        bounds,
        indices,
        onClass,
        rows.length - 2 * CLASSES_AT_ENDS,
      ),
      rows.length > 3 * CLASSES_AT_ENDS ? button : "",
    );
  };
  fill();
  const bands = content.runs.some((run) => run.factors.some((f) => f.band));
  return section(
    "classes",
    "Entropy by class",
    el(
      "p",
      { class: "lead" },
      "The higher the mean entropy, the more freely inputs of a class may be changed. ",
      bands ? "The shaded part is the entropy band. " : "",
      "Choose a class to see its inputs. ",
      axis,
    ),
    names.length > 1
      ? select(
          "Entropy of",
          names.map((name) => [name, name]),
          (name) => ((factor = name), fill()),
          { id: "class-factor" },
        )
      : null,
    body,
  );
}

/** `{name, n, values}` with a value per run, highest first. */
function classRows(content, factor) {
  const rows = new Map();
  content.runs.forEach((run, i) => {
    const at = factorIndex(run, factor);
    for (const one of run.class_entropy) {
      if (!isNumber(one.entropy[at])) continue;
      const row = rows.get(one.name) ?? {
        name: one.name,
        n: one.n,
        values: content.runs.map(() => null),
      };
      row.values[i] = one.entropy[at];
      rows.set(one.name, row);
    }
  });
  const key = (row) => row.values.find(isNumber);
  return [...rows.values()].sort((a, b) => key(b) - key(a));
}

/** Around the values and bands: differences are the point, so zero need not be there. */
function entropyBounds(content, factor, rows) {
  const bands = content.runs.flatMap((run) =>
    run.factors.filter((f) => f.name === factor).flatMap((f) => f.band ?? []),
  );
  return roomy(extent([...rows.flatMap((row) => row.values), ...bands]));
}

function classTable(content, factor, rows, bounds, indices, onClass, nHidden) {
  const several = severalRuns(content);
  const columns = content.runs
    .map((run, i) => ({ band: run.factors[factorIndex(run, factor)]?.band, i }))
    .filter(({ i }) => rows.some((row) => row && isNumber(row.values[i])));
  const head = el(
    "tr",
    {},
    el("th", { scope: "col" }, el("span", { class: "sr" }, "Class")),
    ...columns.map(({ i }) =>
      el(
        "th",
        { scope: "col" },
        several ? runName(content, i) : el("span", { class: "sr" }, "Mean entropy"),
      ),
    ),
  );
  const gap = () =>
    el(
      "tr",
      { class: "gap" },
      el("td", { colspan: columns.length + 1 }, `${number(nHidden)} classes in between`),
    );
  const rowOf = (row) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, classButton(row, indices.get(row.name), onClass)),
      ...columns.map(({ band, i }) =>
        el("td", { class: runClass(i) }, entropyDot(row.values[i], bounds, band)),
      ),
    );
  return el(
    "table",
    { class: "bars" },
    el("caption", { class: "sr" }, "Mean entropy by class, in nats"),
    el("thead", {}, head),
    el("tbody", {}, ...rows.map((row) => (row === null ? gap() : rowOf(row)))),
    el(
      "tfoot",
      { "aria-hidden": "true" },
      el("tr", {}, el("td"), ...columns.map(() => el("td", {}, entropyAxis(bounds)))),
    ),
  );
}

/** A class without inputs on the page has nothing to show and is no button. */
function classButton(row, index, onClass) {
  const unit = el("span", { class: "wide-only" }, row.n === 1 ? " input" : " inputs");
  const label = [nameOf(row.name), el("span", { class: "note" }, number(row.n), unit)];
  if (index === undefined) return el("span", { class: "class-button" }, label);
  return el(
    "button",
    { type: "button", class: "class-button", on: { click: () => onClass(index) } },
    label,
  );
}
