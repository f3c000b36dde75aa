// Elements, by name. Text only ever becomes a text node, so nothing in it can turn into markup.

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element: `options` are attributes, besides `class`, `style` (an object) and `on`. */
function el(tag, options = {}, ...children) {
  return furnish(document.createElement(tag), options, children);
}

/** The same for SVG. */
function draw(tag, options = {}, ...children) {
  return furnish(document.createElementNS(SVG, tag), options, children);
}

function furnish(node, options, children) {
  for (const [name, value] of Object.entries(options)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "style") setStyle(node, value);
    else if (name === "on") listen(node, value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(2).filter((child) => child !== null && child !== undefined));
  return node;
}

function setStyle(node, properties) {
  for (const [name, value] of Object.entries(properties)) node.style.setProperty(name, value);
}

function listen(node, handlers) {
  for (const [name, handler] of Object.entries(handlers)) node.addEventListener(name, handler);
}

/** A name from the data: shortened by the layout, whole on hover, apart from its neighbors. */
function nameOf(text, className = "name") {
  return el("bdi", { class: className, title: text }, text);
}

function section(id, title, ...children) {
  return el(
    "section",
    { id, "aria-labelledby": `${id}-title` },
    el("h2", { id: `${id}-title` }, title),
    ...children,
  );
}

function select(label, options, onChange, attributes = {}) {
  const box = el(
    "select",
    { ...attributes, on: { change: () => onChange(box.value) } },
    ...options.map(([value, text]) => el("option", { value }, text)),
  );
  return el("label", { class: "field" }, el("span", { class: "field-name" }, label), box);
}

const ICONS = {
  right: ["M4 10.5l4 4 8-9"],
  wrong: ["M5 5l10 10", "M15 5L5 15"],
  up: ["M10 16V4", "M5 9l5-5 5 5"],
  down: ["M10 4v12", "M5 11l5 5 5-5"],
  previous: ["M12.5 4L6.5 10l6 6"],
  next: ["M7.5 4l6 6-6 6"],
  serious: ["M10 2.5L18.5 17.5H1.5Z", "M10 8v4.5", "M10 15v.2"],
  hint: ["M10 1.8a8.2 8.2 0 1 0 .01 0Z", "M10 9v5.5", "M10 5.8v.2"],
  play: ["M6 4l10 6-10 6Z"],
  pause: ["M6.5 4v12", "M13.5 4v12"],
  target: ["M10 2.5a7.5 7.5 0 1 0 .01 0Z", "M10 7.5a2.5 2.5 0 1 0 .01 0Z"],
};

/** A small picture; `words` say what it means, null if words stand beside it. */
function icon(name, words = null) {
  const hidden = words === null;
  return draw(
    "svg",
    {
      class: `icon icon-${name}`,
      viewBox: "0 0 20 20",
      role: hidden ? null : "img",
      "aria-label": words,
      "aria-hidden": hidden ? "true" : null,
    },
    ICONS[name].map((d) => draw("path", { d })),
  );
}
