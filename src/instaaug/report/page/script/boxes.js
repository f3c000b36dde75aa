// Boxes of crops: their frame, their sizes, and the probability of a drawn one.

const SIDE = 1000; // width of the image in the drawings' own unit

/** Left, top, width and height of a box (center x, center y, width, height in [-1, 1]). */
function boxRect([x, y, w, h], aspect) {
  const height = SIDE / aspect;
  return {
    x: ((x - w / 2 + 1) / 2) * SIDE,
    y: ((y - h / 2 + 1) / 2) * height,
    width: (w / 2) * SIDE,
    height: (h / 2) * height,
  };
}

/** Index of the factor that crops; -1 if none does. */
function boxFactor(run) {
  return run.factors.findIndex((factor) => factor.kind === "boxes");
}

/** The candidate next to a drawn box, which may be shifted a little; -1 without candidates. */
function nearestBox(boxes, box) {
  let best = -1;
  let least = Infinity;
  boxes.forEach((other, k) => {
    const distance = other.reduce((sum, v, c) => sum + Math.abs(v - box[c]), 0);
    if (distance < least) [best, least] = [k, distance];
  });
  return best;
}

/** The largest probability, as a share of one. */
function mostProbable(probs) {
  return probs.reduce((most, p) => Math.max(most, p), 0) / WHOLE;
}

/** Boxes of one size together, largest first: `{width, height, members, stepX, stepY}`. */
function boxSizes(boxes) {
  const groups = new Map();
  boxes.forEach((box, k) => {
    const key = `${box[2].toFixed(3)} ${box[3].toFixed(3)}`;
    if (!groups.has(key)) groups.set(key, { width: box[2], height: box[3], members: [] });
    groups.get(key).members.push(k);
  });
  return [...groups.values()]
    .sort((a, b) => b.width * b.height - a.width * a.height)
    .map((group) => ({
      ...group,
      stepX: spacing(boxes, group, 0),
      stepY: spacing(boxes, group, 1),
    }));
}

/** Distance of neighbors along an axis; the box's own extent if it has none. */
function spacing(boxes, group, axis) {
  const places = [...new Set(group.members.map((k) => boxes[k][axis].toFixed(4)))]
    .map(Number)
    .sort((a, b) => a - b);
  if (places.length < 2) return axis ? group.height : group.width;
  return places.slice(1).reduce((least, v, i) => Math.min(least, v - places[i]), Infinity);
}

/** "50 %", or "50 × 30 %" where the sides differ as shares of the image's. */
function sizeWords(width, height) {
  const share = (v) => Math.round(50 * v);
  return share(width) === share(height)
    ? `${share(width)}${NARROW}%`
    : `${share(width)} × ${share(height)}${NARROW}%`;
}
