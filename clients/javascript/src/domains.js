/**
 * Domains, as a study states them, and a person's value as mechanisms take it.
 *
 * `readDomain` returns `kind` (the word that the study uses), `size` (the number of categories, keys or
 * coordinates), and `read`, a function that checks a value and scales its numbers to [0, 1].
 */

/** What an error says of a person's value or a device's key: its kind, because errors are logged and sent. */
export function kindOf(value) {
  if (value === null || value === undefined) return `${value}`;
  if (value === "") return "empty text";
  if (Number.isNaN(value)) return "NaN";
  if (typeof value === "string") return value.isWellFormed() ? "text" : "text that is not Unicode";
  if (typeof value !== "object") return `a ${typeof value}`;
  if (Array.isArray(value)) return "an array";
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return "bytes";
  const known = [Map, Date, Promise].find((type) => value instanceof type);
  return known ? `a ${known.name}` : "an object";
}

/** What an error says of a setting of the study. */
export function shown(setting) {
  if (Array.isArray(setting) || typeof setting === "string") return JSON.stringify(setting);
  return typeof setting === "number" ? `${setting}` : kindOf(setting);
}

/** See that an object has no key but some known ones: one that is misspelt would have no effect. */
export function checkKeys(object, known, what) {
  for (const key of Object.keys(object)) {
    if (object[key] !== undefined && !known.includes(key)) {
      throw new TypeError(`${what} has no "${key}"; it takes ${known.join(", ")}`);
    }
  }
}

/** The ends of a range [low, high] of numbers that doubles can scale to [0, 1]. */
function checkedRange(range, what) {
  const ends = Array.isArray(range) && range.length === 2 && range.every(Number.isFinite);
  if (!ends || !(range[0] < range[1])) {
    throw new TypeError(`${what} must be [low, high] with low < high, found ${shown(range)}`);
  }
  const [low, high] = range;
  if (!(high - low > 1e-100 && high - low < 1e100)) {
    throw new TypeError(`${what} must be between 1e-100 and 1e100 wide, found ${shown(range)}`);
  }
  if (high - low < 1e-9 * Math.max(Math.abs(low), Math.abs(high))) {
    throw new TypeError(`${what} has too few digits: its ends differ by less than a billionth, found ${shown(range)}`);
  }
  return range;
}

/** The number of values of a range with a step, at most 4096; 0 without a step. */
function valuesOf([low, high], step) {
  if (step === undefined) return 0;
  if (!(typeof step === "number" && step > 0)) throw new TypeError(`step must be above 0, found ${shown(step)}`);
  const steps = Math.round((high - low) / step);
  // Decimals such as 0.18 are not exact, so neither is their quotient; numbers have fifteen digits.
  const rounding = 1e-9 * steps + (1e-14 * Math.max(Math.abs(low), Math.abs(high))) / step;
  if (!(steps >= 1 && steps < 4096 && Math.abs((high - low) / step - steps) < rounding)) {
    throw new TypeError(`step must divide the range into 1 to 4095 equal parts, found ${shown(step)}`);
  }
  return steps + 1;
}

/** The function of a value that is perturbed; edges all have one distance from the next there. */
function scaleOf(scale, [low, high]) {
  if (scale === undefined) return (value) => value;
  if (scale === "log" && low > 0) return Math.log;
  if (scale === "log1p" && low >= 0) return Math.log1p;
  if (!Array.isArray(scale)) {
    throw new TypeError(`scale must be "log" of a range above 0, or "log1p" of one from 0 on, found ${shown(scale)}`);
  }
  const least = 1e-12 * Math.max(Math.abs(low), Math.abs(high));
  if (!(scale.length <= 4097 && scale.every((edge, k) => Number.isFinite(edge) && !(edge - scale[k - 1] <= least)))) {
    throw new TypeError(`edges must be 3 to 4097 numbers that ascend, found ${shown(scale)}`);
  }
  return (value) => {
    const after = scale.findIndex((edge, k) => k > 0 && value <= edge);
    return after - (scale[after] - value) / (scale[after] - scale[after - 1]);
  };
}

/**
 * The function that scales a number of the range [low, high] to [0, 1]; it clips numbers outside.
 *
 * With a step it rounds them to the nearest value, and to the upper one of two that are equally near.
 */
function scaling(range, what, { step, scale }) {
  const [low, high] = checkedRange(range, what);
  const last = valuesOf(range, step) - 1;
  if (last > 0 && scale !== undefined) throw new TypeError("a domain has a step or a scale, not both");
  const at = scaleOf(scale, range);
  const [first, length] = [at(low), at(high) - at(low)];
  return (value, name) => {
    if (typeof value !== "number" || !Number.isFinite(value)) {
      throw new TypeError(`${name} must be a number, found ${kindOf(value)}`);
    }
    if (last > 0) return Math.min(Math.max(Math.floor((value - low) / step + 0.5), 0), last) / last;
    return Math.min(Math.max((at(Math.min(Math.max(value, low), high)) - first) / length, 0), 1);
  };
}

/** How many names there are, at most so many, and the function that gives the index of a name. */
function naming(names, what, most = 1_000_000) {
  if (Number.isInteger(names) && names > most) {
    throw new TypeError(`${what} must be at most ${most}, found ${names}`);
  }
  if (Number.isInteger(names) && names >= 2) {
    const fits = (name) => /^(0|[1-9]\d*)$/.test(`${name}`) && Number(name) < names;
    return { size: names, index: (name) => (fits(name) ? Number(name) : -1), known: `0 to ${names - 1}` };
  }
  const list = Array.isArray(names) && names.every((name) => typeof name === "string" && name !== "");
  if (!list || names.length < 2 || new Set(names).size < names.length) {
    const found = shown(names);
    throw new TypeError(`${what} must be two different names or more, or how many there are, found ${found}`);
  }
  const known = names.length > 8 ? `${names.slice(0, 8).join(", ")}, ...` : names.join(", ");
  return { size: names.length, index: (name) => names.indexOf(name), known };
}

function numericDomain({ numeric, step, scale }) {
  const scaled = scaling(numeric, "numeric", { step, scale });
  return { size: 1, values: valuesOf(numeric, step), read: (value) => scaled(value, "the value") };
}

function edgesDomain({ edges }) {
  if (!Array.isArray(edges) || edges.length < 3) {
    throw new TypeError(`edges must be 3 to 4097 numbers that ascend, found ${shown(edges)}`);
  }
  return numericDomain({ numeric: [edges[0], edges.at(-1)], scale: edges });
}

function categoriesDomain({ categories }) {
  const { size, index, known } = naming(categories, "categories");
  const read = (value) => {
    const found = index(value);
    if (found < 0) throw new TypeError(`unknown category, found ${kindOf(value)}; there are: ${known}`);
    return found;
  };
  return { size, read };
}

function keysDomain({ keys, values }) {
  const { size, index, known } = naming(keys, "keys");
  const scaled = scaling(values, "values", {});
  const [low, high] = values;
  const read = (value) => {
    // A Map has no keys of its own, and would be a person without any.
    const isObject = typeof value === "object" && value !== null;
    if (!isObject || typeof value[Symbol.iterator] === "function") {
      throw new TypeError(`the value must be an object with a number for each key, found ${kindOf(value)}`);
    }
    const pairs = Object.entries(value).map(([key, number]) => {
      const found = index(key);
      if (found < 0) throw new TypeError(`unknown key; there are: ${known}`);
      return [found, scaled(number, "the value of a key")];
    });
    return pairs.sort((one, other) => one[0] - other[0]);
  };
  return { size, read, scaled, low, high };
}

/** The names of coordinates, which are parts of the names of files. */
const COORDINATE = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/;

function vectorDomain({ coordinates, values, step, scale }) {
  const { size } = naming(coordinates, "coordinates", 10_000);
  const unfit = Array.isArray(coordinates) && coordinates.find((name) => !COORDINATE.test(name));
  if (unfit) {
    const rule = "have letters, digits, _ and -, at most 64, and start with a letter or digit";
    throw new TypeError(`names of coordinates ${rule}, found ${shown(unfit)}`);
  }
  const scaled = scaling(values, "values", { step, scale });
  const read = (value) => {
    if (!Array.isArray(value) || value.length !== size) {
      throw new TypeError(`the value must be an array of ${size} numbers, found ${kindOf(value)}`);
    }
    return Array.from(value, (number, k) => scaled(number, `coordinate ${k}`));
  };
  return { size, read };
}

/** The kinds of domains, each with what else it has. */
const KINDS = {
  numeric: { make: numericDomain, others: ["step", "scale"] },
  edges: { make: edgesDomain, others: [] },
  categories: { make: categoriesDomain, others: [] },
  keys: { make: keysDomain, others: ["values"] },
  coordinates: { make: vectorDomain, others: ["values", "step", "scale"] },
};

/**
 * A domain of a study, such as `{ numeric: [0, 180] }`, `{ numeric: [0, 100], step: 1 }`, `{ numeric: [1, 1e6], scale: "log" }`,
 * `{ edges: [0, 1, 10, 100] }`, `{ categories: ["car", "bus"] }`, `{ keys: 5, values: [0, 1] }` or `{ coordinates: 3, values: [0, 1] }`.
 *
 * @throws {TypeError} if it is none; its `read` throws one for a value that does not belong to it.
 */
export function readDomain(domain) {
  const given = Object.keys(KINDS).filter((kind) => domain?.[kind] !== undefined);
  if (given.length !== 1) {
    throw new TypeError(`domain must have one of ${Object.keys(KINDS).join(", ")}, found ${shown(domain)}`);
  }
  const [kind] = given;
  const { make, others } = KINDS[kind];
  checkKeys(domain, [kind, ...others], `a domain of ${kind}`);
  return { kind: kind === "edges" ? "numeric" : kind, ...make(domain) };
}
