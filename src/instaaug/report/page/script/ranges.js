// Learned ranges: a dial for what goes round, a track for the rest.

function ranges(content, run, i, f, spotlight) {
  const one = run.inputs[i];
  const factor = run.factors[f];
  const learned = one.ranges[f] ?? [];
  const meters = factor.parameters.map((parameter, k) => {
    const values = one.theta.map((theta) => theta[f]?.[k]).filter(isNumber);
    return (parameter.period ? dial : rangeTrack)(parameter, learned[k] ?? null, values);
  });
  spotlight.follow((view) => meters.forEach((meter) => meter.spot(view)));
  const element = el("div", { class: "ranges" }, ...meters.map((meter) => meter.element));
  return { element, show: (n) => meters.forEach((meter) => meter.show(n)) };
}

/** "−31° to 44°", or one value where the range is a point. */
function rangeWords(parameter, range) {
  if (!range) return "no range of its own";
  const [low, high] = range;
  const is = (v) => withUnit(v, parameter.unit);
  if (is(low) === is(high)) return `always ${is(low)}`;
  return `${is(low)} to ${is(high)}`;
}

function rangeCaption(parameter, range) {
  const [low, high] = [parameter.low, parameter.high].map((v) => withUnit(v, parameter.unit));
  return [
    el("span", { class: "range-name" }, nameOf(capital(parameter.name))),
    el("strong", {}, rangeWords(parameter, range)),
    el("span", { class: "note" }, `of ${low} to ${high}`),
  ];
}

function dotted(dots) {
  return {
    show: (n) => dots.forEach((dot, view) => dot.classList.toggle("gone", view >= n)),
    spot: (at) => dots.forEach((dot, view) => dot.classList.toggle("hot", view === at)),
  };
}

function rangeTrack(parameter, range, values) {
  const place = scale(parameter.low, parameter.high, 0, 100, parameter.multiplicative);
  const at = (v) => `${clamp(place(v), 0, 100)}%`;
  const dots = values.map((v) => el("span", { class: "sample", style: { left: at(v) } }));
  const track = el(
    "div",
    { class: "range-track", "aria-hidden": "true" },
    range
      ? el("span", {
          class: "learned",
          style: {
            left: at(range[0]),
            width: `${clamp(place(range[1]), 0, 100) - clamp(place(range[0]), 0, 100)}%`,
          },
        })
      : null,
    el("span", { class: "identity", style: { left: at(parameter.identity) } }),
    ...dots,
  );
  return {
    element: el("div", { class: "range" }, el("p", {}, ...rangeCaption(parameter, range)), track),
    ...dotted(dots),
  };
}

const DIAL = { size: 148, radius: 48, ring: 64, samples: 34 };

/** The identity is at the top; positive values turn counterclockwise, as they turn the image. */
function dial(parameter, range, values) {
  const angle = (v) => (2 * Math.PI * (v - parameter.identity)) / parameter.period;
  const dots = values.map((v) => {
    const [cx, cy] = onCircle(angle(v), DIAL.samples);
    return draw("circle", { class: "sample", cx, cy, r: 3.4 });
  });
  const [x1, y1] = onCircle(0, DIAL.radius - 9);
  const [x2, y2] = onCircle(0, DIAL.radius + 9);
  const picture = draw(
    "svg",
    { class: "dial", viewBox: `0 0 ${DIAL.size} ${DIAL.size}`, "aria-hidden": "true" },
    /hue/i.test(parameter.name) ? hueRing() : null,
    arc("admissible", angle(parameter.low), angle(parameter.high), DIAL.radius),
    range ? arc("learned", angle(range[0]), angle(range[1]), DIAL.radius) : null,
    draw("line", { class: "identity", x1, y1, x2, y2 }),
    ...dots,
  );
  return {
    element: el(
      "div",
      { class: "range with-dial" },
      picture,
      el("p", {}, ...rangeCaption(parameter, range)),
    ),
    ...dotted(dots),
  };
}

function onCircle(angle, radius) {
  return [DIAL.size / 2 - radius * Math.sin(angle), DIAL.size / 2 - radius * Math.cos(angle)];
}

function arc(className, from, to, radius) {
  const point = (a) =>
    onCircle(a, radius)
      .map((v) => v.toFixed(2))
      .join(" ");
  const end = Math.min(to, from + 2 * Math.PI);
  const middle = (from + end) / 2; // in two halves: a whole circle has no one arc
  const half = `A${radius} ${radius} 0 0 0 `;
  return draw("path", {
    class: className,
    d: `M${point(from)}${half}${point(middle)}${half}${point(end)}`,
  });
}

/** What becomes of red when the hue is shifted that far. */
function hueRing() {
  const n = 60;
  const step = (2 * Math.PI) / n;
  return draw(
    "g",
    { class: "hues" },
    ...Array.from({ length: n }, (_, k) => {
      const piece = arc("hue", (k - 0.55) * step, (k + 0.55) * step, DIAL.ring);
      piece.setAttribute("stroke", `hsl(${(360 * k) / n} 75% 55%)`);
      return piece;
    }),
  );
}
