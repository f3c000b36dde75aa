// The first views as the model sees them, side by side.

function strip(run, one, spotlight) {
  const count = one.strip ? Math.min(run.n_strip, run.n_views) : 0;
  const caption = el("p", { class: "caption" });
  let shown = 0;
  const plain = () => {
    const rest = shown > count ? ` Pictures are kept of the first ${number(count)}.` : "";
    const dimmed = shown < count ? `; views beyond the first ${number(shown)} are dimmed` : "";
    const drawn = one.probs.some((probs) => probs.length) ? " No box is drawn twice." : "";
    const same = " The same boxes, in this order, for every input.";
    caption.textContent = `What the model sees${dimmed}.${rest}${run.same_views ? same : drawn}`;
  };
  const buttons = Array.from({ length: count }, (_, view) => {
    const button = el(
      "button",
      {
        type: "button",
        class: "view",
        "aria-label": viewWords(run, one, view),
        "aria-pressed": "false",
        on: {
          pointerenter: () => spotlight.point(view),
          pointerleave: () => spotlight.point(null),
          focus: () => spotlight.point(view),
          blur: () => spotlight.point(null),
          click: () => spotlight.pin(view),
        },
      },
      cutImage(one.strip, run.n_strip, view),
      el("span", { class: "view-number", "aria-hidden": "true" }, String(view + 1)),
    );
    return button;
  });
  spotlight.onPin((view) =>
    buttons.forEach((button, k) => button.setAttribute("aria-pressed", String(k === view))),
  );
  spotlight.follow((view) => {
    buttons.forEach((button, k) => button.classList.toggle("hot", k === view));
    if (view === null) plain();
    else caption.textContent = viewWords(run, one, view);
  });
  const show = (n) => {
    shown = n;
    buttons.forEach((button, view) => button.classList.toggle("dim", view >= n));
    plain();
  };
  const element = el(
    "div",
    { class: "part" },
    el("h4", {}, "Views"),
    el("div", { class: "strip" }, ...buttons),
    caption,
  );
  return { element, show };
}

/** One picture out of `count` in a row; its shape is known when the row has been loaded. */
function cutImage(source, count, at) {
  const image = el("img", {
    alt: "",
    decoding: "async",
    style: { width: `${100 * count}%`, left: `${-100 * at}%` },
  });
  const window_ = el("span", { class: "view-image" }, image);
  image.addEventListener("load", () => {
    setStyle(window_, {
      "aspect-ratio": String(image.naturalWidth / count / image.naturalHeight),
    });
  });
  image.src = source;
  return window_;
}

/** What was done to get a view: "View 3: crop of 50 %, probability 4 %; angle −12°". */
function viewWords(run, one, view) {
  if (run.keeps_original && view === 0) return "View 1: the image as it is";
  const theta = one.theta[view] ?? [];
  const parts = run.factors.map((factor, f) =>
    theta[f] ? thetaWords(factor, run.same_views ? [] : (one.probs[f] ?? []), theta[f]) : "",
  );
  return `View ${view + 1}: ${parts.filter(Boolean).join("; ") || "drawn at random"}`;
}

function thetaWords(factor, probs, theta) {
  if (factor.kind === "boxes") {
    const p = probs.length
      ? `, probability ${probability(probs[nearestBox(factor.boxes, theta)] / WHOLE)}`
      : "";
    return `${factor.name} of ${sizeWords(theta[2], theta[3])}${p}`;
  }
  if (factor.kind === "choices") {
    const p = probs.length ? `, probability ${probability(probs[theta[0]] / WHOLE)}` : "";
    return `${factor.name}: ${factor.choices[theta[0]] ?? theta[0]}${p}`;
  }
  return factor.parameters
    .map((parameter, k) => `${parameter.name} ${withUnit(theta[k], parameter.unit)}`)
    .join(", ");
}
