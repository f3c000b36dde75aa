// The image with boxes on it: those of the first n views, or the n likeliest.

function stage(content, runIndex, i, spotlight) {
  const run = content.runs[runIndex];
  const one = run.inputs[i];
  const { aspect } = content;
  const f = boxFactor(run);
  const drawn = f < 0 ? [] : one.theta.map((theta) => theta[f]);
  const boxes = f < 0 ? [] : run.factors[f].boxes;
  const probs = f < 0 ? [] : (one.probs[f] ?? []);
  const most = mostProbable(probs);
  const color = (p) => (most ? heat(p / most) : "white");
  const viewMarks = drawn.map((box, view) => {
    const p = probs.length ? probs[nearestBox(boxes, box)] / WHOLE : 0;
    const original = run.keeps_original && view === 0;
    const words = original ? `View 1: the image as it is` : viewWords(run, one, view);
    return boxMark(box, aspect, original ? "white" : color(p), String(view + 1), words, original);
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
  return {
    element: el(
      "div",
      { class: "part stage-part" },
      el("div", { class: "stage-box" }, picture),
      legend,
    ),
    show,
  };
}

function place(rect, frame) {
  Object.entries(frame).forEach(([name, value]) => rect.setAttribute(name, value));
}

/** How far boxes reach out of the image along an axis, as a share of its side. */
function overhang(boxes, axis) {
  const out = boxes.map((box) => (Math.abs(box[axis]) + box[axis + 2] / 2 - 1) / 2);
  const most = Math.max(0, ...out);
  return most < 0.01 ? 0 : Math.min(most, 0.25); // coordinates are rounded
}

/** A colored frame with a dark halo, so that it can be seen on any picture. */
function boxMark(box, aspect, color, label, words, dashed) {
  const rect = boxRect(box, aspect);
  const width = 26 + 18 * label.length;
  return draw(
    "g",
    { class: dashed ? "box dashed" : "box" },
    draw("title", {}, words),
    draw("rect", { class: "halo", ...rect }),
    draw("rect", { class: "edge", ...rect, stroke: color }),
    draw(
      "g",
      { class: "tag" },
      draw("rect", { x: rect.x, y: rect.y, width, height: 50, fill: color }),
      draw("text", { x: rect.x + width / 2, y: rect.y + 37, "text-anchor": "middle" }, label),
    ),
  );
}
