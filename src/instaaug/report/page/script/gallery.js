// The gallery: every input as a card, sorted and filtered.

const BADGES = {
  wrong: ["wrong", "wrong"],
  fixed: ["up", "corrected by the views"],
  spoilt: ["down", "spoilt by the views"],
};

/**
 * `open(i)` is called for the card that was chosen.
 * Returns `{element, chosen(), focus(i), filterClass(k)}`.
 */
function gallery(content, open) {
  const wanted = { run: 0, sort: "", descending: true, class: "", show: "all", search: "" };
  wanted.sort = orders(content, 0)[0].key;
  wanted.descending = wanted.sort.startsWith("entropy") || wanted.sort === "loss";
  const cards = content.inputs.map((input, i) => galleryCard(content, input, i, open));
  const grid = el("ul", { class: "grid", on: { keydown: (event) => moveFocus(event, grid) } });
  const count = el("p", { class: "count", role: "status" });
  let chosen = [];

  const fill = () => {
    chosen = orderedInputs(content, wanted);
    const order = orders(content, wanted.run).find((one) => one.key === wanted.sort);
    for (const i of chosen) cards[i].show(order.words(i), verdict(content, wanted.run, i));
    grid.replaceChildren(...chosen.map((i) => cards[i].element));
    chosen.forEach((i, rank) => cards[i].button.setAttribute("tabindex", rank ? "-1" : "0"));
    count.textContent = `${number(chosen.length)} of ${plural(content.inputs.length, "input")}`;
    empty.hidden = chosen.length > 0;
  };
  const change = (changes) => {
    Object.assign(wanted, changes);
    fill();
  };
  const controls = galleryControls(content, wanted, change);
  const empty = el(
    "p",
    { class: "empty" },
    "Nothing passes these filters. ",
    el(
      "button",
      { type: "button", class: "quiet", on: { click: () => controls.reset() } },
      "Show all inputs",
    ),
  );
  watchImages(cards);
  fill();
  const element = section(
    "inputs",
    "Inputs",
    el("p", { class: "lead" }, galleryLead(content)),
    controls.element,
    el("div", { class: "count-line" }, count, badgeLegend(content)),
    grid,
    empty,
  );
  const filterClass = (index) => {
    controls.setClass(String(index));
    element.scrollIntoView();
    count.scrollIntoView({ block: "nearest" });
  };
  return { element, chosen: () => chosen, focus: (i) => cards[i]?.button.focus(), filterClass };
}

/** What the marks on the pictures mean. */
function badgeLegend(content) {
  if (content.task !== "classification" || !content.runs.length) return null;
  const views = mostViews(content) > 0;
  const marks = Object.entries(BADGES).filter(([outcome]) => views || outcome === "wrong");
  return el(
    "ul",
    { class: "badge-legend", "aria-label": "Marks on the pictures" },
    ...marks.map(([outcome, [picture, words]]) =>
      el("li", {}, el("span", { class: `badge ${outcome}` }, icon(picture)), words),
    ),
    el("li", {}, "no mark: right"),
  );
}

function galleryLead(content) {
  const n = content.inputs.length;
  const which = severalRuns(content)
    ? `test image${content.n_test === 1 ? "" : "s"} that all runs have in common`
    : "test images";
  const part =
    content.n_test > n || severalRuns(content)
      ? `${number(n)} of the ${number(content.n_test)} ${which}. `
      : "";
  const what = mostViews(content) ? "its own distribution" : "what the model says of it";
  const size = content.pictures ? ` ${content.pictures}` : "";
  return `${part}Open one to see ${what}.${size}`;
}

function galleryCard(content, input, i, open) {
  const image = el("img", {
    alt: "",
    decoding: "async",
    width: 160,
    height: Math.round(160 / content.aspect),
  });
  const badge = el("span", { class: "badge" });
  const value = el("span", { class: "card-value" });
  const button = el(
    "button",
    { type: "button", class: "card", title: input.name, on: { click: () => open(i) } },
    el(
      "span",
      { class: "thumb", style: { "aspect-ratio": String(content.aspect) } },
      image,
      badge,
    ),
    nameOf(targetWords(content, input), "card-class"),
    value,
    el("span", { class: "sr" }, input.name),
  );
  const show = (words, outcome) => {
    value.textContent = words;
    const known = BADGES[outcome];
    badge.replaceChildren(...(known ? [icon(known[0], known[1])] : []));
    badge.className = `badge ${known ? outcome : ""}`;
  };
  return { element: el("li", {}, button), button, image, source: input.image, show };
}

/** Images are decoded when they come near the window, or onto paper. */
function watchImages(cards) {
  const cardOf = new Map(cards.map((card) => [card.image, card]));
  const load = (image) => {
    image.src = cardOf.get(image).source;
    observer.unobserve(image);
  };
  const observer = new IntersectionObserver(
    (entries) => entries.filter((e) => e.isIntersecting).forEach((e) => load(e.target)),
    { rootMargin: "400px" },
  );
  cards.forEach((card) => observer.observe(card.image));
  window.addEventListener("beforeprint", () => cards.forEach((card) => load(card.image)));
}

/** One stop for the tab key; arrows move within the grid. */
function moveFocus(event, grid) {
  const buttons = [...grid.querySelectorAll(".card")];
  const at = buttons.indexOf(document.activeElement);
  if (at < 0) return;
  const rows = [...grid.children].map((item) => item.offsetTop);
  const columns = rows.filter((top) => top === rows[0]).length;
  const step = {
    ArrowLeft: -1,
    ArrowRight: 1,
    ArrowUp: -columns,
    ArrowDown: columns,
    Home: -at,
    End: buttons.length - 1 - at,
  }[event.key];
  const next = buttons[at + (step ?? 0)];
  if (step === undefined || !next) return;
  event.preventDefault();
  buttons.forEach((button) => button.setAttribute("tabindex", button === next ? "0" : "-1"));
  next.focus();
}
