// Pictures that were drawn beforehand.

function figures(content) {
  const own = content.runs.flatMap((run, i) =>
    (run.figures ?? []).map((figure) => ({ ...figure, run: i })),
  );
  const all = [...(content.figures ?? []), ...own];
  if (!all.length) return null;
  return section(
    "figures",
    "Figures",
    el(
      "div",
      { class: "figures" },
      ...all.map((figure) =>
        el(
          "figure",
          {},
          el("img", {
            src: figure.image,
            alt: `${figure.title}. ${figure.words}`,
            loading: "lazy",
          }),
          el(
            "figcaption",
            {},
            severalRuns(content) && figure.run !== undefined ? runName(content, figure.run) : null,
            el("h3", {}, el("bdi", {}, figure.title)),
            el("p", {}, el("bdi", {}, figure.words)),
          ),
        ),
      ),
    ),
  );
}
