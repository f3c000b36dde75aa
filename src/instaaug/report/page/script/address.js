// The open input and its number of views in the page's address: for links and the back button.

/** `{input, n}` as the address has it; null for what it lacks or what makes no sense. */
function readAddress(content) {
  const parts = new URLSearchParams(location.hash.slice(1));
  const whole = (key, low, high) => {
    const text = parts.get(key) ?? "";
    const value = Number(text);
    return /^\d{1,9}$/.test(text) && value >= low && value <= high ? value : null;
  };
  return {
    input: whole("input", 0, content.inputs.length - 1),
    n: whole("n", 1, Math.max(1, mostViews(content))),
  };
}

function addressOf(input, n) {
  return `#input=${input}${n ? `&n=${n}` : ""}`;
}

/** A new entry in the history, so that the back button closes what is opened here. */
function pushAddress(input, n) {
  history.pushState({ opened: true }, "", addressOf(input, n));
}

function replaceAddress(input, n) {
  history.replaceState(history.state, "", addressOf(input, n));
}

/** Back to the page without an open input. */
function leaveAddress() {
  if (history.state?.opened) history.back();
  else history.replaceState(null, "", location.pathname + location.search);
}
