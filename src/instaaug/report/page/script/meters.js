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
