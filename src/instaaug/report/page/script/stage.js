// The image with boxes on it: those of the first n views, or the n likeliest.

function stage(content, runIndex, i, spotlight) {
  const run = content.runs[runIndex];
  const one = run.inputs[i];
  const { aspect } = content;
  const f = boxFactor(run);
  const drawn = one.outlines ?? (f < 0 ? [] : one.theta.map((theta) => theta[f]));
  const boxes = f < 0 ? [] : run.factors[f].boxes;
  const probs = f < 0 ? [] : (one.probs[f] ?? []);
  const most = mostProbable(probs);
  const color = (p) => (most ? heat(p / most) : "white");
  const viewMarks = drawn.map((box, view) => {
    const p = probs.length ? probs[nearestBox(boxes, one.theta[view][f])] / WHOLE : 0;
    const original = run.keeps_original && view === 0;
    const words = original ? `View 1: the image as it is` : viewWords(run, one, view);
    const edge = original || run.same_views ? "white" : color(p);
    return boxMark(box, aspect, edge, String(view + 1), words, original);
  });
  const ranked = probs
    .map((p, k) => [p, k])
    .sort((a, b) => b[0] - a[0])
    .slice(0, run.n_views);
  const topMarks = ranked.map(([p, k], rank) =>
    boxMark(
      boxes[k],
      aspect,
      color(p / WHOLE),
      String(rank + 1),
      `No. ${rank + 1}: ${probability(p / WHOLE)}`,
      false,
    ),
  );
  viewMarks.forEach((mark, view) =>
    listen(mark, {
      pointerenter: () => spotlight.point(view),
      pointerleave: () => spotlight.point(null),
      click: () => spotlight.pin(view),
    }),
  );
  const viewLayer = draw("g", { class: "boxes" }, ...viewMarks.slice().reverse());
  const topLayer = draw("g", { class: "boxes" }, ...topMarks.slice().reverse());
  const candidate = draw(
    "g",
    { class: "box dashed gone" },
    ...["halo", "edge"].map((name) => draw("rect", { class: name, stroke: "white" })),
  );
  const height = SIDE / aspect;
  const right = overhang([...drawn, ...boxes], 0) * SIDE;
  const below = overhang([...drawn, ...boxes], 1) * height;
  const picture = draw(
    "svg",
    {
      class: "stage",
      viewBox: `${-right} ${-below} ${SIDE + 2 * right} ${height + 2 * below}`,
      role: "img",
      "aria-label": "The input",
    },
    draw("image", {
      href: content.inputs[i].image,
      width: SIDE,
      height,
      preserveAspectRatio: "none",
    }),
    viewLayer,
    topLayer,
    candidate,
  );
  spotlight.onFrame((box) => {
    candidate.classList.toggle("gone", box === null);
    if (box) candidate.childNodes.forEach((rect) => place(rect, boxRect(box, aspect)));
  });
  spotlight.follow((view) => {
    picture.classList.toggle("spot", view !== null && view in viewMarks);
    viewMarks.forEach((mark, k) => mark.classList.toggle("hot", k === view));
  });
  const show = (n, likeliest) => {
    const top = likeliest && topMarks.length > 0;
    viewLayer.classList.toggle("gone", top);
    topLayer.classList.toggle("gone", !top);
    viewMarks.forEach((mark, k) => mark.classList.toggle("gone", k >= n));
    topMarks.forEach((mark, k) => mark.classList.toggle("gone", k >= n));
    const what = top
      ? `the ${plural(n, "likeliest box", "likeliest boxes")}`
      : `the boxes of the first ${plural(n, "view")}`;
    picture.setAttribute("aria-label", drawn.length ? `The input with ${what}` : "The input");
  };
  const legend = most > 0 && run.n_views ? heatLegend(most) : "";
  const marks = drawn.length ? boxLegend(run, most > 0) : "";
  return {
    element: el(
      "div",
      { class: "part stage-part" },
      el("div", { class: "stage-box" }, picture),
      legend,
      marks,
    ),
    show,
  };
}

/** What the marks on the image mean. */
function boxLegend(run, colored) {
  const whole = run.keeps_original ? "Dashed: the image as it is, the first view. " : "";
  const color = colored && !run.same_views ? "Brighter frames are likelier boxes." : "";
  return el(
    "p",
    { class: "note stage-legend" },
    `Frames are what the views show; point at one, or at a view, to tell them apart. ${whole}`,
    color,
  );
}

function place(rect, frame) {
  Object.entries(frame).forEach(([name, value]) => rect.setAttribute(name, value));
}

/** How far boxes and outlines reach out of the image along an axis, as a share of its side. */
function overhang(shapes, axis) {
  const reach = (shape) =>
    isOutline(shape)
      ? Math.max(...shape.filter((_, k) => k % 2 === axis).map(Math.abs))
      : Math.abs(shape[axis]) + shape[axis + 2] / 2;
  const out = shapes.map((shape) => (reach(shape) - 1) / 2);
  const most = Math.max(0, ...out);
  return most < 0.01 ? 0 : Math.min(most, 0.25); // coordinates are rounded
}

/** A colored frame with a dark halo, so that it can be seen on any picture. */
function boxMark(shape, aspect, color, label, words, dashed) {
  const width = 26 + 18 * label.length;
  const { kind, frame, x, y } = isOutline(shape)
    ? outlineFrame(shape, aspect)
    : boxFrame(shape, aspect);
  return draw(
    "g",
    { class: dashed ? "box dashed" : "box" },
    draw("title", {}, words),
    draw(kind, { class: "halo", ...frame }),
    draw(kind, { class: "edge", ...frame, stroke: color }),
    draw(
      "g",
      { class: "tag" },
      draw("rect", { x, y, width, height: 50, fill: color }),
      draw("text", { x: x + width / 2, y: y + 37, "text-anchor": "middle" }, label),
    ),
  );
}

function boxFrame(box, aspect) {
  const frame = boxRect(box, aspect);
  return { kind: "rect", frame, x: frame.x, y: frame.y };
}

/** Four corners, of which the first is the top left of what the view shows. */
function outlineFrame(outline, aspect) {
  const points = [0, 2, 4, 6].map((k) => [
    ((outline[k] + 1) / 2) * SIDE,
    ((outline[k + 1] + 1) / 2) * (SIDE / aspect),
  ]);
  const [x, y] = points[0];
  return { kind: "polygon", frame: { points: points.join(" ") }, x, y };
}

function isOutline(shape) {
  return shape.length === 8;
}
