// Values on a track: entropies with their band, probabilities.

/** An entropy on a track over `bounds`; a dot where the track does not begin at zero. */
function entropyBar(value, bounds, band, unit = "") {
  const place = scale(...bounds, 0, 100);
  const at = isNumber(value) ? clamp(place(value), 0, 100) : null;
  const track = el(
    "span",
    { class: "bar-track", "aria-hidden": "true" },
    band ? bandShade(band, place) : null,
  );
  if (at !== null && bounds[0] === 0)
    track.append(el("span", { class: "bar", style: { width: `${at}%` } }));
  else if (at !== null) track.append(el("span", { class: "dot", style: { left: `${at}%` } }));
  return el(
    "span",
    { class: "bar-line" },
    track,
    el("span", { class: "bar-value" }, `${number(value)} ${unit}`),
  );
}

/** The same as a dot among others, on an axis that all rows share. */
function entropyDot(value, bounds, band) {
  const place = scale(...bounds, 0, 100);
  const track = el(
    "span",
    { class: "bar-track line-track", "aria-hidden": "true" },
    band ? bandShade(band, place) : null,
    isNumber(value)
      ? el("span", { class: "dot", style: { left: `${clamp(place(value), 0, 100)}%` } })
      : null,
  );
  return el(
    "span",
    { class: "bar-line" },
    track,
    el("span", { class: "bar-value" }, number(value)),
  );
}

function entropyAxis(bounds) {
  const place = scale(...bounds, 0, 100);
  const marks = ticks(...bounds, 4).map((v) =>
    el("span", { class: "tick", style: { left: `${place(v)}%` } }, tickWords(v)),
  );
  return el(
    "span",
    { class: "bar-line" },
    el("span", { class: "axis" }, ...marks),
    el("span", { class: "bar-value" }, "nats"),
  );
}

function bandShade([low, high], place) {
  const left = clamp(place(low), 0, 100);
  return el("span", {
    class: "band-shade",
    style: { left: `${left}%`, width: `${clamp(place(high), 0, 100) - left}%` },
  });
}

function probabilityBar(p) {
  return el(
    "span",
    { class: "bar-line" },
    el(
      "span",
      { class: "bar-track", "aria-hidden": "true" },
      el("span", { class: "bar", style: { width: `${100 * p}%` } }),
    ),
    el("span", { class: "bar-value" }, probability(p)),
  );
}
