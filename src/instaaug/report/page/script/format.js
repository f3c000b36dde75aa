// Numbers as people write them.

const MINUS = "\u2212";
const NARROW = "\u202f"; // a narrow space that does not break
const SUPERSCRIPTS = {
  "-": "⁻",
  0: "⁰",
  1: "¹",
  2: "²",
  3: "³",
  4: "⁴",
  5: "⁵",
  6: "⁶",
  7: "⁷",
  8: "⁸",
  9: "⁹",
};

function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}

/** Three digits or so: 0.0123, 1.23, 12.3, 1,234, 1.2×10⁷; a dash for what is missing. */
function number(value) {
  if (!isNumber(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e6 || size < 1e-3)) return scientific(value);
  if (size < 0.1) return tickWords(Number(value.toFixed(4)));
  const digits = size >= 100 ? 0 : size >= 10 ? 1 : 2;
  const text = Number.isInteger(value) ? size.toFixed(0) : size.toFixed(digits);
  const [whole, rest] = text.split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ",");
  return (value < 0 ? MINUS : "") + (rest ? `${grouped}.${rest}` : grouped);
}

/** As short as it can be, for the marks of an axis: 0.01, 2.5, 1,000. */
function tickWords(value) {
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e6 || size < 1e-3)) return scientific(value);
  return (value < 0 ? MINUS : "") + Number(size.toPrecision(6)).toLocaleString("en");
}

function percentTick(share) {
  return `${tickWords(Number((100 * share).toPrecision(6)))}${NARROW}%`;
}

function scientific(value) {
  const [mantissa, exponent] = Math.abs(value).toExponential(1).split("e");
  const power = [...exponent.replace("+", "")].map((c) => SUPERSCRIPTS[c]).join("");
  return `${value < 0 ? MINUS : ""}${mantissa.replace(/\.0$/, "")}×10${power}`;
}

/** A share of one, such as a score: 64.1 %; what lies halfway becomes even, as on the console. */
function percent(share, digits = 1) {
  if (!isNumber(share)) return "–";
  const parts = 100 * share * 10 ** digits;
  const down = Math.floor(parts);
  const whole = parts - down === 0.5 ? down + (down % 2) : Math.round(parts);
  return `${(whole / 10 ** digits).toFixed(digits).replace("-", MINUS)}${NARROW}%`;
}

/** A probability: 81 %, 4.2 %, < 0.1 %. */
function probability(p) {
  if (!isNumber(p)) return "–";
  if (p > 0 && p < 0.001) return `<${NARROW}0.1${NARROW}%`;
  return percent(p, p < 0.0995 && p > 0 ? 1 : 0);
}

function score(value, isShare) {
  return isShare ? percent(value) : number(value);
}

/** −31°, 1.25×, 0.4. */
function withUnit(value, unit) {
  if (unit === "°") return `${number(Math.round(value))}°`;
  return number(value) + unit;
}

function plural(n, one, many = `${one}s`) {
  return `${number(n)} ${n === 1 ? one : many}`;
}

function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
