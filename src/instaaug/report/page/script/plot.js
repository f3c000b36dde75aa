// A chart of lines over a common axis, drawn anew whenever its width changes.

const PLOT_HEIGHT = 168;
const LABEL_GAP = 15;
const LABEL_INSET = 20; // from the end of the lines

/**
 * What `spec` may hold:
 * `lines`, each `{name, label, x, values, className}`; `label` stands at its end, else the name;
 * `bands`, each `{low, high, words}`, with words for either edge;
 * `levels`, each `{value, words}`;
 * `format` of values and `tick` of the axis; `xName`; `whole`, whether x has whole marks only;
 * `log`; `range` of values that is always shown; `height`.
 * Returns `{element, show(x), xAt(event)}`; `show` moves the hair line.
 */
function plot(spec) {
  const root = draw("svg", { class: "plot", "aria-hidden": "true" });
  const legend = el("ul", { class: "plot-legend", "aria-hidden": "true" });
  const element = el("div", { class: "plot-box" }, root, legend);
  let frame = null;
  let shown = null;
  const redraw = () => {
    const width = element.clientWidth;
    if (!width || (frame && frame.width === width)) return;
    frame = plotFrame(spec, width);
    root.setAttribute("viewBox", `0 0 ${width} ${frame.height}`);
    root.setAttribute("height", frame.height);
    root.replaceChildren(...plotGround(spec, frame), ...plotLines(spec, frame), frame.hair);
    legend.replaceChildren(...cutNames(spec, frame));
    if (shown !== null) moveHair(spec, frame, shown);
  };
  new ResizeObserver(redraw).observe(element);
  const show = (x) => {
    shown = x;
    if (frame) moveHair(spec, frame, x);
  };
  const xAt = (event) => {
    const share =
      (event.clientX - element.getBoundingClientRect().left - frame.left) /
      (frame.right - frame.left);
    return frame.xs[0] + clamp(share, 0, 1) * (frame.xs[1] - frame.xs[0]);
  };
  return { element, show, xAt };
}

/** All lines with their whole names, if there is a name that has no room beside its line. */
function cutNames(spec, { width, right }) {
  const names = spec.lines.map((line) => line.label ?? line.name);
  const room = width - right - LABEL_INSET;
  if (names.every((name) => fitted(name, room) === name)) return [];
  return spec.lines
    .map((line, i) => {
      const sample = draw("path", { class: `line ${line.className}`, d: "M1 5H27" });
      const key = draw("svg", { class: "plot key", viewBox: "0 0 28 10" }, sample);
      return el("li", {}, key, nameOf(names[i]));
    })
    .reverse();
}

/** Where things are for this width. */
function plotFrame(spec, width) {
  const height = spec.height ?? PLOT_HEIGHT;
  const values = spec.lines.flatMap((line) => line.values);
  const marked = [
    ...(spec.bands ?? []).flatMap((b) => [b.low, b.high]),
    ...(spec.levels ?? []).map((l) => l.value),
  ];
  const known = extent([...values, ...marked, ...(spec.range ?? [])]) ?? [0, 1];
  const log = Boolean(spec.log);
  const ys = log ? [known[0] / 1.3, known[1] * 1.3] : spec.range ? known : roomy(known);
  const xs = extent(spec.lines.flatMap((line) => line.x)) ?? [0, 1];
  const longest = spec.lines.reduce(
    (most, line) => Math.max(most, textWidth(line.label ?? line.name)),
    0,
  );
  const words = (spec.bands ?? [])
    .flatMap((b) => b.words)
    .concat((spec.levels ?? []).map((l) => l.words));
  const room =
    Math.max(
      longest,
      words.reduce((most, w) => Math.max(most, textWidth(w)), 0),
      textWidth(spec.xName),
    ) +
    LABEL_INSET +
    6;
  const left =
    8 + Math.max(...(log ? logTicks(...ys) : ticks(...ys)).map((v) => textWidth(spec.tick(v))));
  const right = width - Math.min(room, 0.36 * width);
  const hair = draw("g", { class: "hair", visibility: "hidden" });
  const y = scale(...ys, height - 26, 8, log);
  return { width, height, left, right, xs, ys, y, x: scale(...xs, left, right), log, hair };
}

function plotGround(spec, frame) {
  const { left, right, height, ys, xs, x, y } = frame;
  const marks = (frame.log ? logTicks : ticks)(...ys);
  const xMarks =
    xs[0] === xs[1] ? [xs[0]] : ticks(...xs, Math.max(2, Math.floor((right - left) / 60)));
  return [
    ...(spec.bands ?? []).map((band) =>
      draw("rect", {
        class: "band",
        x: left,
        width: right - left,
        y: y(band.high),
        height: Math.max(1, y(band.low) - y(band.high)),
      }),
    ),
    ...marks.map((v) => draw("line", { class: "grid", x1: left, x2: right, y1: y(v), y2: y(v) })),
    ...marks.map((v) =>
      draw(
        "text",
        { class: "tick", x: left - 6, y: y(v) + 4, "text-anchor": "end" },
        spec.tick(v),
      ),
    ),
    ...xMarks
      .filter((v) => spec.whole !== true || Number.isInteger(v))
      .map((v) =>
        draw(
          "text",
          { class: "tick", x: x(v), y: height - 8, "text-anchor": "middle" },
          number(v),
        ),
      ),
    draw("text", { class: "tick", x: right + LABEL_INSET, y: height - 8 }, spec.xName),
  ];
}

function plotLines(spec, frame) {
  const { x, y, right, width, height } = frame;
  const levels = (spec.levels ?? []).map((level) =>
    draw("line", {
      class: "level-line",
      x1: frame.left,
      x2: right,
      y1: y(level.value),
      y2: y(level.value),
    }),
  );
  const ends = spec.lines.map((line) => lastKnown(line));
  const labels = [
    ...spec.lines.map((line, i) =>
      ends[i] === null
        ? null
        : { text: line.label ?? line.name, at: y(ends[i].value), className: line.className },
    ),
    ...(spec.bands ?? []).flatMap((band) => [
      { text: band.words[0], at: y(band.low), className: "edge" },
      { text: band.words[1], at: y(band.high), className: "edge" },
    ]),
    ...(spec.levels ?? []).map((level) => ({
      text: level.words,
      at: y(level.value),
      className: "edge",
    })),
  ].filter((label) => label !== null);
  const places = spread(
    labels.map((label) => label.at),
    LABEL_GAP,
    8,
    height - 28,
  );
  return [
    ...levels,
    ...spec.lines.map((line) =>
      draw("path", { class: `line ${line.className}`, d: linePath(line, x, y) }),
    ),
    ...spec.lines.map((line, i) =>
      ends[i] === null
        ? null
        : draw("circle", {
            class: `end ${line.className}`,
            cx: x(ends[i].x),
            cy: y(ends[i].value),
            r: 3.2,
          }),
    ),
    ...labels.map((label, i) =>
      draw("path", {
        class: "leader",
        d: `M${right + 6} ${label.at}L${right + LABEL_INSET - 5} ${places[i]}`,
      }),
    ),
    ...labels.map((label, i) =>
      draw(
        "text",
        { class: `end-label ${label.className}`, x: right + LABEL_INSET, y: places[i] + 4 },
        fitted(label.text, width - right - LABEL_INSET),
        draw("title", {}, label.text),
      ),
    ),
  ].filter((node) => node !== null);
}

/** Breaks where a value is missing. */
function linePath(line, x, y) {
  let pen = "M";
  const parts = [];
  line.values.forEach((value, i) => {
    if (!isNumber(value)) {
      pen = "M";
      return;
    }
    parts.push(`${pen}${x(line.x[i]).toFixed(1)} ${y(value).toFixed(1)}`);
    pen = "L";
  });
  return parts.join("");
}

function lastKnown(line) {
  for (let i = line.values.length - 1; i >= 0; i--) {
    if (isNumber(line.values[i])) return { x: line.x[i], value: line.values[i] };
  }
  return null;
}

/** The value of a line at the place next to x that has one there. */
function valueAt(line, x) {
  const at = line.x.reduce(
    (best, other, i) => (Math.abs(other - x) < Math.abs(line.x[best] - x) ? i : best),
    0,
  );
  return Math.abs(line.x[at] - x) < 0.5 ? line.values[at] : null;
}

function moveHair(spec, frame, x) {
  const { hair, y } = frame;
  const at = frame.x(x);
  hair.setAttribute("visibility", "visible");
  hair.replaceChildren(
    draw("line", { x1: at, x2: at, y1: 6, y2: frame.height - 24 }),
    ...spec.lines.flatMap((line) => {
      const value = valueAt(line, x);
      return isNumber(value)
        ? [draw("circle", { class: `end ${line.className}`, cx: at, cy: y(value), r: 4 })]
        : [];
    }),
  );
}

const measure = document.createElement("canvas").getContext("2d");

/** Width in pixels of a label of a chart, at its boldest. */
function textWidth(text) {
  measure.font = `600 12px ${getComputedStyle(document.documentElement).fontFamily}`;
  return measure.measureText(text).width;
}

/** As much of the text as there is room for. */
function fitted(text, room) {
  if (textWidth(text) <= room) return text;
  const letters = [...text];
  while (letters.length > 1 && textWidth(`${letters.join("")}…`) > room) letters.pop();
  return `${letters.join("")}…`;
}
