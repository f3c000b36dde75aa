// Where learning went wrong, in words, and what to try.

function warnings(content) {
  const all = content.runs.flatMap((run, i) =>
    run.warnings.map((warning) => ({ ...warning, run: i })),
  );
  if (!all.length) return null;
  const ordered = [
    ...all.filter((w) => w.level === "serious"),
    ...all.filter((w) => w.level !== "serious"),
  ];
  return section(
    "warnings",
    "What to look at",
    el("ul", { class: "cards" }, ...ordered.map((warning) => warningCard(content, warning))),
  );
}

function warningCard(content, warning) {
  const serious = warning.level === "serious";
  return el(
    "li",
    { class: `warning ${serious ? "serious" : "hint"}` },
    icon(serious ? "serious" : "hint"),
    el(
      "div",
      {},
      el(
        "p",
        { class: "level" },
        el("span", {}, serious ? "Serious" : "Hint"),
        severalRuns(content) ? runName(content, warning.run) : null,
      ),
      el("h3", {}, el("bdi", {}, warning.title)),
      el("p", {}, el("bdi", {}, warning.words)),
      warning.advice
        ? el("p", {}, el("strong", {}, "Try: "), el("bdi", {}, ...withOptions(warning.advice)))
        : null,
    ),
  );
}

/** Text in which options of the command line, such as --phi-width, are not broken. */
function withOptions(text) {
  return text
    .split(/(--[a-z][a-z-]*)/)
    .map((part, k) => (k % 2 ? el("code", { class: "option" }, part) : part));
}
