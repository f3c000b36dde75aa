// Where crops are centered: a panel per size of box, over the image in gray.

function centers(content, run, i, f, spotlight) {
  const one = run.inputs[i];
  const probs = one.probs[f] ?? [];
  if (!probs.length) return drawnCenters(content, run, i, f, spotlight);
  const { boxes } = run.factors[f];
  const most = mostProbable(probs);
  const panels = boxSizes(boxes).map((group) =>
    sizePanel(content, i, boxes, probs, most, group, spotlight),
  );
  const element = el(
    "div",
    {},
    el(
      "p",
      { class: "note" },
      "Centers of the crops, by the crop's share of the side; brighter is likelier.",
    ),
    el("ul", { class: "sizes" }, ...panels),
  );
  return { element, show: () => {} };
}

function sizePanel(content, i, boxes, probs, most, group, spotlight) {
  const total = group.members.reduce((sum, k) => sum + probs[k], 0) / WHOLE;
  const size = sizeWords(group.width, group.height);
  const cells = group.members.map((k) => {
    const p = probs[k] / WHOLE;
    const share = most ? p / most : 0;
    const cell = boxRect([boxes[k][0], boxes[k][1], group.stepX, group.stepY], content.aspect);
    const look = {
      fill: heat(share),
      "fill-opacity": (0.12 + 0.76 * Math.sqrt(share)).toFixed(2),
    };
    const on = {
      pointerenter: () => spotlight.frame(boxes[k]),
      pointerleave: () => spotlight.frame(null),
    };
    return draw("rect", { ...cell, ...look, on }, draw("title", {}, probability(p)));
  });
  return el(
    "li",
    {},
    grayPanel(content, i, cells, `Crops of ${size}: ${probability(total)}`),
    el("p", { class: "size-words" }, el("strong", {}, size), el("span", {}, probability(total))),
  );
}

function grayPanel(content, i, marks, words) {
  const height = SIDE / content.aspect;
  return draw(
    "svg",
    { class: "gray-panel", viewBox: `0 0 ${SIDE} ${height}`, role: "img", "aria-label": words },
    draw("image", {
      class: "gray",
      href: content.inputs[i].image,
      width: SIDE,
      height,
      preserveAspectRatio: "none",
    }),
    ...marks,
  );
}

/** Without probabilities: the centers that were drawn; larger dots for larger boxes. */
function drawnCenters(content, run, i, f, spotlight) {
  const drawn = run.inputs[i].theta.map((theta) => theta[f]);
  const dots = drawn.map((box) => {
    const { x, y, width, height } = boxRect(box, content.aspect);
    return draw("circle", {
      class: "center",
      cx: x + width / 2,
      cy: y + height / 2,
      r: 14 + width * 0.03,
    });
  });
  spotlight.follow((view) => dots.forEach((dot, k) => dot.classList.toggle("hot", k === view)));
  const element = el(
    "div",
    {},
    el(
      "p",
      { class: "note" },
      "Centers of the crops that were drawn; larger dots for larger crops.",
    ),
    el("div", { class: "sizes" }, grayPanel(content, i, dots, "Centers of the drawn crops")),
  );
  const show = (n) => dots.forEach((dot, k) => dot.classList.toggle("gone", k >= n));
  return { element, show };
}
