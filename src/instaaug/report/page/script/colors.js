// Colors that stand for probabilities: viridis without its darkest end, as in the figures.

const VIRIDIS = [
  "#3b528b",
  "#2f6c8e",
  "#25858e",
  "#1e9c89",
  "#34b679",
  "#69cd5b",
  "#addc30",
  "#fde725",
];
const VIRIDIS_PARTS = VIRIDIS.map((hex) =>
  [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)),
);

/** The color of a share of the largest probability. */
function heat(share) {
  const at = clamp(share, 0, 1) * (VIRIDIS.length - 1);
  const i = Math.min(Math.floor(at), VIRIDIS.length - 2);
  const mixed = [0, 1, 2].map((c) =>
    Math.round(VIRIDIS_PARTS[i][c] + (at - i) * (VIRIDIS_PARTS[i + 1][c] - VIRIDIS_PARTS[i][c])),
  );
  return `rgb(${mixed.join(" ")})`;
}

/** What the colors mean, up to the probability `most`. */
function heatLegend(most) {
  return el(
    "p",
    { class: "legend" },
    el("span", {}, `probability of a box: 0${NARROW}%`),
    el("span", {
      class: "legend-ramp",
      style: { background: `linear-gradient(to right, ${VIRIDIS.join(", ")})` },
    }),
    el("span", {}, probability(most)),
  );
}
