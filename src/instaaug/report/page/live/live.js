// A page that follows a run: asks for its state every other second and draws what has changed.

const POLL_MS = 2000;
const STATUS_WORDS = {
  waiting: "Waiting",
  running: "Training",
  silent: "Silent",
  finished: "Finished",
  unreadable: "Cannot be read",
  gone: "Not connected",
};

function watch() {
  const parts = livePage();
  let drawn = "";
  let last = null;
  const show = (state) => {
    parts.show(state);
    const now = JSON.stringify([state.curves, state.name]);
    if (now !== drawn) {
      drawn = now;
      parts.redraw(state);
    }
  };
  const ask = async () => {
    try {
      const answer = await fetch("state", { cache: "no-store" });
      last = await answer.json();
      show(last);
    } catch {
      parts.lost(last);
    }
    performance.mark("ready");
    setTimeout(ask, POLL_MS);
  };
  ask();
}

/** Text in which what stands between backticks is a command. */
function commanded(text) {
  return text.split("`").map((part, k) => (k % 2 ? el("code", {}, part) : part));
}

/** `show(state)` tells how far the run is, `redraw(state)` its curves, `lost(last)` silence. */
function livePage() {
  const name = el("h1", {}, "InstaAug");
  const badge = el("span", { class: "live-status" });
  const words = el("p", { class: "live-words" });
  const advice = el("p", { class: "live-advice" });
  const bar = el("span", { class: "bar" });
  const track = el("span", { class: "bar-track live-track", "aria-hidden": "true" }, bar);
  const spoken = el("div", { role: "status", class: "live-told" }, badge, words);
  const charts = el("div", { class: "live-charts" });
  const picture = el("img", { class: "live-samples", alt: "Test images, each with its samples" });
  const samples = section(
    "samples",
    "Samples",
    el("p", { class: "lead" }, "Each row: a test image as it is, then as it may be augmented."),
    picture,
  );
  samples.hidden = true;
  document
    .getElementById("top")
    .append(el("div", { class: "masthead" }, name, themeButton()), spoken, track, advice);
  document.getElementById("main").append(charts, samples);

  /** Unless they have changed, words are left alone: screen readers would read them again. */
  const write = (node, text) => {
    if (node.textContent !== text) node.textContent = text;
  };
  const tell = (status, said, then) => {
    badge.className = `live-status ${status}`;
    write(badge, STATUS_WORDS[status]);
    write(words, said);
    if (advice.textContent !== then.replaceAll("`", ""))
      advice.replaceChildren(...commanded(then));
  };
  const show = (state) => {
    tell(state.status, state.words, state.advice);
    document.title = `${state.name}: ${STATUS_WORDS[state.status].toLowerCase()}`;
    name.replaceChildren(el("bdi", { title: state.name }, state.name));
    const share = state.epochs ? Math.min(1, state.epoch / state.epochs) : 0;
    setStyle(bar, { width: `${100 * (state.status === "finished" ? 1 : share)}%` });
    samples.hidden = !state.samples;
    const source = `samples.png?${state.samples}`;
    if (state.samples && picture.getAttribute("src") !== source) picture.src = source;
  };
  const redraw = (state) => {
    const handles = [...charts.querySelectorAll(".handle")];
    const at = handles.indexOf(document.activeElement);
    const open = charts.querySelector("details")?.open;
    const drawn = curves({ runs: [state] });
    charts.replaceChildren(drawn ?? el("p", { class: "empty" }, "Curves begin with an epoch."));
    if (at >= 0) charts.querySelectorAll(".handle")[at]?.focus();
    if (open) charts.querySelector("details").open = true;
  };
  const lost = (last) => {
    const seen = last ? `Last seen: ${last.words}` : "";
    tell("gone", "The server does not answer.", `Was it ended by Ctrl-C? ${seen}`);
  };
  return { show, redraw, lost };
}
