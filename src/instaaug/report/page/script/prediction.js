// The prediction in words, from n views and from the image alone.

function predictionPart(content, runIndex, i) {
  const one = content.runs[runIndex].inputs[i];
  const { target } = content.inputs[i];
  const classification = content.task === "classification";
  const element = el("div", { class: "part prediction" });

  const words = (n) => {
    const values = valuesFrom(one, n);
    const source = n ? `From ${plural(n, "view")}` : "From the image alone";
    if (!classification) return `${source}: ${values.map(number).join(", ")}.`;
    const best = bestOf(one, values);
    if (!best) return `${source}: nothing is known.`;
    const outcome = best.index === target ? "right" : "wrong";
    return `${source}: ${className(content, best.index)} ${probability(best.p)}, ${outcome}.`;
  };
  const answer = (values) => {
    if (!classification) return [el("strong", {}, values.map(number).join(", "))];
    const best = bestOf(one, values);
    if (!best) return ["–"];
    const right = best.index === target;
    return [
      el("strong", {}, nameOf(className(content, best.index))),
      el("span", { class: "p" }, probability(best.p)),
      el(
        "span",
        { class: right ? "is-right" : "is-wrong" },
        icon(right ? "right" : "wrong", right ? "right" : "wrong"),
      ),
    ];
  };
  const show = (n) => {
    const alone = el(
      "p",
      { class: "alone" },
      el("span", { class: "note" }, "Image alone"),
      " ",
      ...answer(one.plain),
    );
    if (!n) {
      element.replaceChildren(
        el("p", { class: "note" }, "From the image alone"),
        el("p", { class: "answer" }, ...answer(one.plain)),
      );
      return;
    }
    element.replaceChildren(
      el("p", { class: "note" }, `From ${plural(n, "view")}`),
      el("p", { class: "answer" }, ...answer(valuesFrom(one, n))),
      one.plain.length ? alone : "",
    );
  };
  return { element, show, words };
}
