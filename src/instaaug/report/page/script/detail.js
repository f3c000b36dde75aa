// The dialog of one input: a column per run, and one slider for the number of views.

const FIRST_N = 8;
const PLAY_MS = 220;
const SETTLE_MS = 300;

/**
 * `chosen()` gives the inputs in the gallery's order, `giveFocus(i)` returns to a card.
 * Returns `{open(i), follow()}`; `follow` opens what the address says, now and from now on.
 */
function inputDetail(content, dialog, chosen, giveFocus) {
  const most = mostViews(content);
  let at = null;
  let n = Math.min(FIRST_N, most);
  let likeliest = false;
  let columns = [];
  let playing = null;

  const bar = detailBar(
    (step) => move(step),
    () => shut(),
  );
  const views = viewsBar(content, most, {
    pick: (value) => (stop(), setN(value)),
    play: () => (playing === null ? play() : stop()),
    likeliest: (value) => ((likeliest = value), show()),
  });
  const body = el("div", { class: "columns" });
  const spoken = el("p", { class: "sr", role: "status" });
  dialog.append(
    el("div", { class: "detail-inner" }, bar.element, most ? views.element : "", body, spoken),
  );

  const show = () => columns.forEach((column) => column.show(n, likeliest));
  const setN = (value) => {
    n = clamp(value, Math.min(1, most), most);
    views.show(n);
    show();
    speak();
    settleAddress();
  };
  const speak = debounced(() => {
    spoken.textContent = columns.map((column) => column.words(n)).join(" ");
  }, SETTLE_MS);
  // Browsers refuse to have the address changed with every movement of a slider.
  const settleAddress = debounced(() => at !== null && replaceAddress(at, n), SETTLE_MS);

  const render = (i) => {
    at = i;
    columns = content.runs.map((_, run) =>
      runColumn(content, run, i, (value) => (stop(), setN(value))),
    );
    body.className = `columns ${severalRuns(content) ? "several" : "single"}`;
    setStyle(body, {
      "--n-parts": String(6 + factorNames(content).length),
      "--n-runs": String(content.runs.length),
      "--aspect": String(content.aspect),
    });
    body.replaceChildren(
      ...(columns.length ? columns.map((column) => column.element) : [plainPicture(content, i)]),
    );
    const { list, rank } = place();
    bar.show(content, content.inputs[i], rank, list.length);
    views.show(n);
    show();
    if (!dialog.open) dialog.showModal();
  };
  const place = () => {
    const list = chosen().includes(at) ? chosen() : content.inputs.map((_, i) => i);
    return { list, rank: list.indexOf(at) };
  };
  const move = (step) => {
    const { list, rank } = place();
    const next = list[rank + step];
    if (next === undefined) return;
    stop();
    render(next);
    settleAddress();
  };
  const play = () => {
    if (n >= most) setN(1);
    views.playing(true);
    playing = setInterval(() => (n >= most ? stop() : setN(n + 1)), PLAY_MS);
  };
  const stop = () => {
    clearInterval(playing);
    playing = null;
    views.playing(false);
  };
  const follow = () => {
    const address = readAddress(content);
    if (address.n !== null) n = address.n;
    if (address.input === null) shut();
    else render(address.input);
  };
  const shut = () => {
    const last = at;
    at = null;
    stop();
    dialog.close();
    if (readAddress(content).input !== null) leaveAddress();
    if (last !== null) giveFocus(last);
  };
  listen(dialog, {
    cancel: (event) => (event.preventDefault(), shut()),
    close: () => dialog.open || at === null || shut(), // by a way that asks nobody
    click: (event) => event.target === dialog && shut(),
    keydown: (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (
        step &&
        !event.target.matches("input") &&
        !event.altKey &&
        !event.ctrlKey &&
        !event.metaKey
      ) {
        event.preventDefault();
        move(step);
      }
    },
  });
  window.addEventListener("popstate", follow);
  const open = (i) => {
    pushAddress(i, n);
    render(i);
  };
  return { open, follow };
}

/** Which input it is, the way to its neighbors, and out. */
function detailBar(move, close) {
  const name = el("h2", {
    id: "detail-name",
    class: "detail-name",
    tabindex: "-1",
    autofocus: true,
  });
  const target = el("p", { class: "detail-target", role: "status" });
  const rank = el("span", { class: "rank" });
  const tool = (id, label, picture, action) =>
    el(
      "button",
      {
        type: "button",
        class: "tool square",
        id,
        "aria-label": label,
        title: label,
        on: { click: action },
      },
      icon(picture),
    );
  const previous = tool("previous", "Previous input", "previous", () => move(-1));
  const next = tool("next", "Next input", "next", () => move(1));
  const element = el(
    "div",
    { class: "detail-bar" },
    el("div", { class: "detail-steps" }, previous, next),
    el("div", { class: "detail-title" }, name, target),
    tool("close", "Close", "wrong", close),
  );
  const show = (content, input, at, count) => {
    name.replaceChildren(el("bdi", { title: input.name }, input.name));
    const word = content.task === "classification" ? "Class " : "Target ";
    target.replaceChildren(rank, word, nameOf(targetWords(content, input), "strong"));
    rank.textContent = `${number(at + 1)} of ${number(count)} · `;
    previous.setAttribute("aria-disabled", String(at === 0));
    next.setAttribute("aria-disabled", String(at === count - 1));
  };
  return { element, show };
}

/** How many views are averaged, and which boxes are drawn. */
function viewsBar(content, most, actions) {
  const slider = el("input", {
    type: "range",
    id: "n",
    min: 1,
    max: Math.max(1, most),
    step: 1,
    on: { input: () => actions.pick(Number(slider.value)) },
  });
  const count = el("output", { for: "n", class: "n-words" });
  const playButton = el("button", {
    type: "button",
    class: "tool square",
    id: "play",
    on: { click: actions.play },
  });
  const playing = (is) => {
    playButton.replaceChildren(icon(is ? "pause" : "play"));
    playButton.setAttribute("aria-label", is ? "Pause" : "Add the views one by one");
    playButton.title = playButton.getAttribute("aria-label");
  };
  playing(false);
  const drawn = [
    ["views", "Boxes of the views"],
    ["likeliest", "Likeliest boxes"],
  ];
  const boxes = select("Draw", drawn, (value) => actions.likeliest(value === "likeliest"), {
    id: "boxes",
  });
  const hasProbs = content.runs.some(
    (run) => run.factors.some((f) => f.kind === "boxes" && f.boxes.length) && run.n_views,
  );
  const element = el(
    "div",
    { class: "views-bar" },
    el("label", { for: "n" }, "Views"),
    playButton,
    slider,
    count,
    hasProbs ? boxes : null,
  );
  const show = (n) => {
    slider.value = String(n);
    count.textContent = `${n} of ${most}`;
  };
  return { element, show, playing };
}

function plainPicture(content, i) {
  return el(
    "div",
    { class: "column" },
    el("img", { class: "plain-picture", src: content.inputs[i].image, alt: "The input" }),
  );
}

function debounced(action, ms) {
  let timer = null;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(action, ms);
  };
}
