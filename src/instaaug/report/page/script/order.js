// Which inputs the gallery shows, and in which order. Pure functions of the content.

const SHOWN = {
  all: ["All", () => true],
  wrong: ["Wrong", (v) => v === "wrong" || v === "spoilt"],
  right: ["Right", (v) => v === "right" || v === "fixed"],
  fixed: ["Corrected by the views", (v) => v === "fixed"],
  spoilt: ["Spoilt by the views", (v) => v === "spoilt"],
};

/** What the inputs can be sorted by: `{key, label, value(i), words(i)}`; null values come last. */
function orders(content, runIndex) {
  const run = content.runs[runIndex];
  const numbers = (key, label, value, words) => ({
    key,
    label,
    value,
    words: (i) => words(value(i)),
    isText: false,
  });
  const of = (i) => run.inputs[i];
  const nats = (v) => (isNumber(v) ? `${number(v)} nats` : "–");
  const difference = (a, b) => (isNumber(a) && isNumber(b) ? a - b : null);
  const regression = content.task === "regression";
  const found = run
    ? [
        ...run.factors.map((factor, f) =>
          numbers(
            `entropy ${factor.name}`,
            `Entropy of ${factor.name}`,
            (i) => of(i).entropy[f] ?? null,
            nats,
          ),
        ),
        numbers("loss", "Loss of the image alone", (i) => of(i).loss, number),
        numbers("merged", "Loss with views", (i) => of(i).loss_merged, number),
        numbers(
          "gain",
          "Gain by views",
          (i) => difference(of(i).loss, of(i).loss_merged),
          (v) => (v > 0 ? "+" : "") + number(v),
        ),
        numbers(
          "disagreement",
          "Disagreement of views",
          (i) => of(i).disagreement,
          regression ? number : (v) => probability(v),
        ),
      ].filter((order) => content.inputs.some((_, i) => isNumber(order.value(i))))
    : [];
  const classes = regression
    ? []
    : [
        {
          key: "class",
          label: "Class",
          value: (i) => className(content, content.inputs[i].target),
          words: () => "",
          isText: true,
        },
      ];
  const names = {
    key: "name",
    label: "Name",
    value: (i) => content.inputs[i].name,
    words: (i) => content.inputs[i].name,
    isText: true,
  };
  const original = numbers(
    "order",
    "Original order",
    (i) => i,
    (i) => `no. ${i + 1}`,
  );
  return [...found, ...classes, names, original];
}

/** Indices of the inputs that pass the filters, sorted. */
function orderedInputs(content, wanted) {
  const order = orders(content, wanted.run).find((one) => one.key === wanted.sort);
  const [, passes] = SHOWN[wanted.show];
  const words = wanted.search.trim().toLocaleLowerCase();
  const found = content.inputs
    .map((_, i) => i)
    .filter((i) => {
      const input = content.inputs[i];
      if (wanted.class !== "" && input.target !== Number(wanted.class)) return false;
      if (wanted.show !== "all" && !passes(verdict(content, wanted.run, i))) return false;
      return (
        !words ||
        `${input.name}\n${targetWords(content, input)}`.toLocaleLowerCase().includes(words)
      );
    });
  const values = new Map(found.map((i) => [i, order.value(i)]));
  const collator = new Intl.Collator(undefined, { numeric: true });
  const sign = wanted.descending ? -1 : 1;
  return found.sort((a, b) => {
    const [u, v] = [values.get(a), values.get(b)];
    if (order.isText) return sign * collator.compare(u, v) || a - b;
    if (!isNumber(u) || !isNumber(v)) return isNumber(v) - isNumber(u) || a - b;
    return sign * (u - v) || a - b;
  });
}
