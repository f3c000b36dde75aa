// The controls of the gallery: order, run, class, outcome and words to look for.

/** `change(changes)` is told what is wanted now. Returns `{element, setClass(k), reset()}`. */
function galleryControls(content, wanted, change) {
  const sort = select("Sort by", [], (key) => sortBy(key), { id: "sort" });
  const sortBox = sort.querySelector("select");
  const fillOrders = () => {
    const known = orders(content, wanted.run);
    if (!known.some((order) => order.key === wanted.sort)) wanted.sort = known[0].key;
    sortBox.replaceChildren(
      ...known.map((order) => el("option", { value: order.key }, order.label)),
    );
    sortBox.value = wanted.sort;
  };
  fillOrders();
  /** Numbers begin with the largest, names and places with the first. */
  const sortBy = (key) => {
    const order = orders(content, wanted.run).find((one) => one.key === key);
    change({ sort: key, descending: !order.isText && key !== "order" });
    showDirection();
  };
  const direction = el("button", {
    type: "button",
    class: "tool",
    id: "direction",
    on: { click: () => turn() },
  });
  const turn = (descending = !wanted.descending) => {
    change({ descending });
    showDirection();
  };
  const showDirection = () => {
    const { isText } = orders(content, wanted.run).find((one) => one.key === wanted.sort);
    const [low, high] = isText ? ["A", "Z"] : ["Low", "High"];
    const words = wanted.descending
      ? `${high} to ${low.toLowerCase()}`
      : `${low} to ${high.toLowerCase()}`;
    direction.replaceChildren(
      icon(wanted.descending ? "down" : "up"),
      isText ? words.toUpperCase() : words,
    );
  };
  showDirection();
  const runs = content.runs.map((run, i) => [String(i), run.name]);
  const run = select(
    "By run",
    runs,
    (i) => {
      wanted.run = Number(i);
      fillOrders(); // what the last run was sorted by, this one may not have
      change({});
      showDirection();
    },
    { id: "by-run" },
  );
  const classes = classOptions(content);
  const classField = select(
    "Class",
    [["", "All classes"], ...classes],
    (value) => change({ class: value }),
    { id: "class" },
  );
  const shown = Object.entries(SHOWN).map(([key, [label]]) => [key, label]);
  const outcome = `Prediction${allViews(content)}`;
  const showField = select(outcome, shown, (show) => change({ show }), { id: "show" });
  const search = el("input", {
    type: "search",
    id: "search",
    placeholder: "Name or class",
    on: { input: () => change({ search: search.value }) },
  });
  const classification = content.task === "classification";
  const element = el(
    "div",
    { class: "controls", role: "group", "aria-label": "Sort and filter the inputs" },
    sort,
    direction,
    severalRuns(content) ? run : null,
    classes.length > 1 ? classField : null,
    classification && content.runs.length ? showField : null,
    el("label", { class: "field grow" }, el("span", { class: "field-name" }, "Search"), search),
  );
  const setClass = (value) => {
    classField.querySelector("select").value = value;
    change({ class: value });
  };
  const reset = () => {
    search.value = "";
    showField.querySelector("select").value = "all";
    change({ search: "", show: "all" });
    setClass("");
  };
  return { element, setClass, reset };
}

/** The classes among the inputs, by name. */
function classOptions(content) {
  if (content.task !== "classification") return [];
  const present = [...new Set(content.inputs.map((input) => input.target))];
  const collator = new Intl.Collator(undefined, { numeric: true });
  return present
    .map((index) => [String(index), className(content, index)])
    .sort((a, b) => collator.compare(a[1], b[1]));
}

/** From how many views predictions are right or wrong. */
function allViews(content) {
  const counts = [...new Set(content.runs.map((run) => run.n_views).filter((n) => n > 0))];
  return counts.length === 1 ? `, ${plural(counts[0], "view")}` : "";
}
