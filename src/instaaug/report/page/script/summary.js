// What was trained, on what, and how well it does.

function summary(content) {
  const wide = content.runs.length <= 1;
  return section(
    "summary",
    "Results",
    el(
      "div",
      { class: wide ? "summary beside" : "summary" },
      el("div", { class: "results" }, ...resultTables(content), ...notes(content)),
      el("div", { class: "facts" }, factsTable(content), commands(content)),
    ),
  );
}

/** What validation images and diagnostics say, in words. */
function notes(content) {
  return content.runs.flatMap((run, i) =>
    run.notes.length
      ? el(
          "div",
          { class: "notes" },
          severalRuns(content) ? el("p", {}, runName(content, i)) : null,
          el("ul", {}, ...run.notes.map((note) => el("li", {}, el("bdi", {}, note)))),
        )
      : [],
  );
}

/** One table per kind of score, so that every axis has one meaning. */
function resultTables(content) {
  const kinds = new Map();
  content.runs.forEach((run, i) => {
    const key = JSON.stringify([run.score_name, run.is_share, run.higher_is_better]);
    if (run.results.length) kinds.set(key, [...(kinds.get(key) ?? []), i]);
  });
  if (!kinds.size) return [el("p", { class: "muted" }, "No scores yet.")];
  return [...kinds.values()].map((indices) => resultTable(content, indices));
}

function resultTable(content, indices) {
  const runs = indices.map((i) => content.runs[i]);
  const { score_name: name, is_share: isShare, higher_is_better: higher } = runs[0];
  const bounds = roomy(
    extent(runs.flatMap((run) => run.results.flatMap((r) => [r.value, r.low, r.high]))) ?? [0, 1],
  );
  const marks = ticks(...bounds, 6);
  const place = scale(...bounds, 0, 100);
  const grid = () =>
    marks.map((v) => el("span", { class: "grid-line", style: { left: `${place(v)}%` } }));
  const axis = el(
    "div",
    { class: "axis" },
    ...marks.map((v) =>
      el(
        "span",
        { class: "tick", style: { left: `${place(v)}%` } },
        isShare ? percentTick(v) : tickWords(v),
      ),
    ),
  );
  const bodies = indices.map((i) =>
    el(
      "tbody",
      { class: runClass(i) },
      severalRuns(content)
        ? el(
            "tr",
            { class: "group" },
            el("th", { colspan: 3, scope: "rowgroup" }, runName(content, i)),
          )
        : null,
      content.runs[i].results.map((row) => resultRow(row, isShare, place, grid)),
    ),
  );
  const words = `${capital(name)}, ${higher ? "higher" : "lower"} is better.`;
  const bounded = runs.some((run) => run.results.some((row) => isNumber(row.low)));
  const intervals = bounded ? ` Lines are 95${NARROW}% confidence intervals.` : "";
  const counts = runs.some((run) => run.results.length > 1)
    ? " The large dot is what counts."
    : "";
  const begin = ` ${axisWords(bounds, isShare ? percentTick : tickWords)}`;
  return el(
    "table",
    { class: "dots" },
    el("caption", {}, words, intervals, counts, begin),
    el(
      "colgroup",
      {},
      ...["col-name", "col-chart", "col-value"].map((name) => el("col", { class: name })),
    ),
    el(
      "thead",
      { class: "sr" },
      el(
        "tr",
        {},
        ...["Prediction from", "Chart", capital(name)].map((t) => el("th", { scope: "col" }, t)),
      ),
    ),
    ...bodies,
    el(
      "tfoot",
      { "aria-hidden": "true" },
      el("tr", {}, el("td"), el("td", { class: "chart" }, axis), el("td")),
    ),
  );
}

function resultRow(row, isShare, place, grid) {
  const bounded = isNumber(row.low) && isNumber(row.high);
  const track = el("div", { class: "track", "aria-hidden": "true" }, ...grid());
  if (bounded) {
    track.append(
      el("span", {
        class: "interval",
        style: { left: `${place(row.low)}%`, width: `${place(row.high) - place(row.low)}%` },
      }),
    );
  }
  if (isNumber(row.value))
    track.append(el("span", { class: "dot", style: { left: `${place(row.value)}%` } }));
  return el(
    "tr",
    { class: row.is_main ? "main-row" : null },
    el(
      "th",
      { scope: "row" },
      nameOf(row.name),
      row.note ? el("span", { class: "note" }, row.note) : null,
    ),
    el("td", { class: "chart" }, track),
    el(
      "td",
      { class: "value" },
      el("strong", {}, score(row.value, isShare)),
      bounded
        ? el(
            "span",
            { class: "note" },
            `${score(row.low, isShare)} to ${score(row.high, isShare)}`,
          )
        : null,
    ),
  );
}

/** A column per run; rows in which runs differ stand out. */
function factsTable(content) {
  const { runs } = content;
  const names = [...new Set(runs.flatMap((run) => run.facts.map(([name]) => name)))];
  if (!names.length) return null;
  const several = severalRuns(content);
  const rows = names.map((name) => {
    const values = runs.map((run) => run.facts.find(([other]) => other === name)?.[1] ?? "–");
    const differs = several && values.some((value) => value !== values[0]);
    return el(
      "tr",
      { class: differs ? "differs" : null },
      el("th", { scope: "row" }, nameOf(name)),
      ...values.map((value) => el("td", {}, el("bdi", { class: "clip", title: value }, value))),
    );
  });
  const head = el(
    "tr",
    {},
    el("th", { scope: "col" }, el("span", { class: "sr" }, "Setting")),
    ...runs.map((_, i) => el("th", { scope: "col" }, runName(content, i))),
  );
  const caption = several ? "Settings; those that differ are bold" : "Settings";
  return el(
    "div",
    {
      class: "scroll-x",
      tabindex: several ? "0" : null,
      role: several ? "region" : null,
      "aria-label": several ? "Settings of the runs" : null,
    },
    el(
      "table",
      { class: "facts-table" },
      el("caption", {}, caption),
      several ? el("thead", {}, head) : null,
      el("tbody", {}, rows),
    ),
  );
}

function commands(content) {
  const several = severalRuns(content);
  const known = content.runs.map((run, i) => ({ run, i })).filter(({ run }) => run.command);
  const lines = known.map(({ run, i }) =>
    el(
      "p",
      { class: "command" },
      el("span", { class: "note" }, several ? runName(content, i) : "Made by"),
      el("code", { title: run.command }, run.command),
    ),
  );
  if (!several) return lines;
  return lines.length
    ? el("details", { class: "as-table" }, el("summary", {}, "Commands"), ...lines)
    : null;
}
