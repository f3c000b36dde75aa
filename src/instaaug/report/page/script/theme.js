// Light, dark, or as the system has it.

const THEMES = { auto: "Auto", light: "Light", dark: "Dark" };

function themeButton() {
  const keys = Object.keys(THEMES);
  let theme = storedTheme();
  const word = el("span", {});
  const button = el(
    "button",
    {
      type: "button",
      class: "tool",
      id: "theme",
      on: { click: () => show(keys[(keys.indexOf(theme) + 1) % keys.length]) },
    },
    el("span", { class: "sr" }, "Colors: "),
    el("span", { class: "half-disc", "aria-hidden": "true" }),
    word,
  );
  const show = (next) => {
    theme = next;
    document.documentElement.dataset.theme = theme;
    word.textContent = THEMES[theme];
    storeTheme(theme);
  };
  show(theme);
  return button;
}

/** Pages opened from disk may be denied storage; then the choice lasts as long as the page. */
function storedTheme() {
  try {
    const stored = localStorage.getItem("instaaug-theme");
    return Object.hasOwn(THEMES, stored ?? "") ? stored : "auto";
  } catch {
    return "auto";
  }
}

function storeTheme(theme) {
  try {
    localStorage.setItem("instaaug-theme", theme);
  } catch {
    // nothing to do: see above
  }
}
