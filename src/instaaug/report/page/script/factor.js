// One factor of θ for one input: how free it is, and what it may be.

function factorPart(content, runIndex, i, f, spotlight) {
  const run = content.runs[runIndex];
  const one = run.inputs[i];
  const factor = run.factors[f];
  const body = { boxes: centers, choices: choices, ranges: ranges }[factor.kind](
    content,
    run,
    i,
    f,
    spotlight,
  );
  const entropy = one.entropy[f];
  const element = el(
    "div",
    { class: "part factor" },
    el("h4", {}, nameOf(capital(factor.name))),
    isNumber(entropy) ? entropyLine(factor, entropy) : null,
    body.element,
  );
  return { element, show: body.show };
}

function entropyLine(factor, entropy) {
  const low = Math.min(0, entropy, factor.band?.[0] ?? 0);
  const bounds = low < 0 ? roomy([low, factor.max_entropy]) : [0, factor.max_entropy];
  return el(
    "div",
    { class: "entropy" },
    entropyBar(entropy, bounds, factor.band, "nats"),
    el("p", { class: "note" }, entropyWords(factor, entropy)),
  );
}

/** Entropy as something to imagine. */
function entropyWords(factor, entropy) {
  const band = factor.band ? ` Band: ${number(factor.band[0])} to ${number(factor.band[1])}.` : "";
  if (factor.kind === "ranges") {
    const share = Math.min(1, Math.exp(entropy - factor.max_entropy));
    return `Covers ${probability(share)} of what is admissible.${band}`;
  }
  const count = Math.exp(entropy);
  const all = factor.kind === "boxes" ? factor.boxes.length : factor.choices.length;
  const what = factor.kind === "boxes" ? "boxes" : "choices";
  const about = count < 10 ? count.toFixed(1) : number(Math.round(count));
  const of = all ? ` of ${number(all)}` : "";
  return `As varied as ${about} equally likely ${what}${of}.${band}`;
}

/** Choices as bars of their probability, with how often the first n views took each. */
function choices(content, run, i, f) {
  const one = run.inputs[i];
  const factor = run.factors[f];
  const probs = one.probs[f] ?? [];
  const taken = one.theta.map((theta) => theta[f]?.[0]);
  const counts = factor.choices.map(() => el("td", { class: "note" }));
  const rows = factor.choices.map((choice, k) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, nameOf(choice)),
      el("td", {}, probs.length ? probabilityBar(probs[k] / WHOLE) : ""),
      counts[k],
    ),
  );
  const head = el(
    "tr",
    {},
    ...["Choice", "Probability", "Taken"].map((t) => el("th", { scope: "col" }, t)),
  );
  const element = el(
    "table",
    { class: "choices" },
    el("caption", { class: "sr" }, `Choices of ${factor.name}`),
    el("thead", { class: "sr" }, head),
    el("tbody", {}, ...rows),
  );
  const show = (n) => {
    const first = taken.slice(0, n);
    counts.forEach((cell, k) => {
      cell.textContent = `${number(first.filter((t) => t === k).length)} of ${plural(n, "view")}`;
    });
  };
  return { element, show };
}
