// Puts the page together.

function start() {
  const content = JSON.parse(document.getElementById("content").textContent);
  document.title = content.title;
  document.body.classList.toggle("tiny", content.is_tiny === true);
  const detail = inputDetail(
    content,
    document.getElementById("detail"),
    () => images.chosen(),
    (i) => images.focus(i),
  );
  const images = gallery(content, (i) => detail.open(i));
  const sections = [
    content.runs.length ? summary(content) : null,
    warnings(content),
    curves(content),
    classEntropies(content, (index) => images.filterClass(index)),
    figures(content),
    content.inputs.length ? images.element : null,
  ].filter((part) => part !== null);
  document.getElementById("top").append(...masthead(content, sections));
  document.getElementById("main").append(...sections);
  document.getElementById("bottom").append(el("p", {}, el("bdi", {}, content.made)));
  detail.follow();
  performance.mark("ready");
}

function masthead(content, sections) {
  const links = sections.map((part) =>
    el("a", { href: `#${part.id}` }, part.querySelector("h2").textContent),
  );
  const headlines = content.runs.map((run, i) =>
    el(
      "li",
      {},
      severalRuns(content) ? runName(content, i) : null,
      el("bdi", { class: "headline", title: run.headline }, run.headline),
    ),
  );
  return [
    el(
      "div",
      { class: "masthead" },
      el("h1", {}, el("bdi", { title: content.title }, content.title)),
      themeButton(),
    ),
    headlines.length ? el("ul", { class: "headlines" }, ...headlines) : null,
    el("nav", { "aria-label": "Sections" }, ...links),
  ].filter((part) => part !== null);
}
