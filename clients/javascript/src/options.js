/** Options of mechanisms: the default of each, and which values are allowed. */

import { shown } from "./domains.js";

/** A whole number from low to high. */
export function whole(fallback, low, high) {
  return {
    fallback,
    fits: (value) => Number.isInteger(value) && value >= low && value <= high,
    words: `a whole number from ${low} to ${high}`,
  };
}

/** A number from low to high. */
export function number(fallback, low, high) {
  return {
    fallback,
    fits: (value) => typeof value === "number" && value >= low && value <= high,
    words: `a number from ${low} to ${high}`,
  };
}

/** A number above low and below high. */
export function between(fallback, low, high) {
  return {
    fallback,
    fits: (value) => typeof value === "number" && value > low && value < high,
    words: `a number above ${low} and below ${high}`,
  };
}

/** The same, or null for the default. */
export function orNull(option) {
  return { ...option, fits: (value) => value === null || option.fits(value) };
}

/** One of some words. */
export function oneOf(fallback, ...choices) {
  return { fallback, fits: (value) => choices.includes(value), words: `one of ${choices.join(", ")}` };
}

/** A power of a base, from the base itself to a greatest power. */
export function isPower(value, base, most) {
  let power = base;
  while (power < value && power <= most) power *= base;
  return power === value && power <= most;
}

/**
 * The values of a mechanism's options: the given ones, and defaults for the others.
 *
 * @throws {TypeError} for an option that the mechanism does not have, or a value that is not allowed.
 */
export function readOptions(name, known, options = {}) {
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    throw new TypeError(`options must be an object, found ${shown(options)}`);
  }
  for (const option of Object.keys(options)) {
    if (!Object.hasOwn(known, option)) {
      const names = Object.keys(known).sort().join(", ");
      throw new TypeError(`mechanism ${name} has no option "${option}"; it takes ${names || "none"}`);
    }
    if (!known[option].fits(options[option])) {
      const found = shown(options[option]);
      throw new TypeError(`${option} of ${name} must be ${known[option].words}, found ${found}`);
    }
  }
  const defaults = Object.entries(known).map(([option, { fallback }]) => [option, fallback]);
  return { ...Object.fromEntries(defaults), ...options };
}
