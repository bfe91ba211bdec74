/**
 * Mechanisms for categories.
 *
 * `make(epsilon, options, size)` returns a function from a category's index, from 0, and a source of draws to a
 * report.
 */

import { packed, words } from "./bytes.js";
import { fittingExcess, quotient } from "./grid.js";
import { between, oneOf, readOptions, whole } from "./options.js";
import { xxh32 } from "./xxh32.js";

/** A uniform choice of a whole number below `size`, other than `own`. */
export function another(own, size, u) {
  const drawn = Math.floor((size - 1) * u);
  return drawn < own ? drawn : drawn + 1;
}

/** Entry (row, column) of a Hadamard matrix: whether it is +1. */
export function positive(row, column) {
  let odd = 0;
  for (let shared = row & column; shared; shared &= shared - 1) odd ^= 1;
  return odd === 0;
}

/** The least power of two that is at least a number. */
function powerOfTwo(least) {
  let power = 1;
  while (power < least) power *= 2;
  return power;
}

export const grr = {
  options: {},
  whole: true,
  make(epsilon, options, size) {
    const p = Math.exp(epsilon) / (Math.exp(epsilon) + size - 1);
    return (k, draws) => {
      const [first, second] = [draws.unit(), draws.unit()];
      return first < p ? k : another(k, size, second);
    };
  },
};

/** S of OLH: the given number of seeds, or the default for this number of categories. */
function seedsOf(seeds, size, hashes) {
  const most = Math.min(2 ** 16, Math.floor(2 ** 22 / hashes), Math.floor(2 ** 27 / size));
  if (seeds === 0) {
    const wanted = Math.min(Math.max(1024, Math.ceil((32 * size) / (hashes - 1))), most);
    return wanted * (hashes - 1) < 4 * size ? 2 ** 32 : wanted;
  }
  if (seeds === "any") return 2 ** 32;
  const least = Math.floor((2 * size) / (hashes - 1)) + 1;
  if (seeds < least || seeds > most) {
    const family = least <= most ? `"any", or from ${least} to ${most}` : `"any"`;
    throw new TypeError(
      `seeds of olh must be ${family} with ${hashes} hash values and ${size} categories, found ${seeds}`,
    );
  }
  return seeds;
}

/** Whether OLH has so many categories that by default its clients draw any 32-bit seed. */
export function hasAnySeed(epsilon, size) {
  return seedsOf(0, size, Math.round(Math.exp(epsilon)) + 1) === 2 ** 32;
}

/** What of a category is hashed: its index as four bytes, or as decimal digits. */
const HASHED = { index: (k) => words(k), text: (k) => new TextEncoder().encode(`${k}`) };

/** g and S of OLH, and the hash of a category under a seed. */
export function olhParts(epsilon, { seeds, hashed, hashes: asked }, size) {
  const hashes = asked || Math.round(Math.exp(epsilon)) + 1;
  const family = seedsOf(seeds, size, hashes);
  return { hashes, family, hash: (k, seed) => xxh32(HASHED[hashed](k), seed) % hashes };
}

export const olh = {
  options: {
    seeds: {
      fallback: 0,
      fits: (value) => value === "any" || (Number.isInteger(value) && value >= 0),
      words: `a whole number of seeds (0 for the default), or "any"`,
    },
    hashed: oneOf("index", "index", "text"),
    hashes: {
      fallback: 0,
      fits: (value) => Number.isInteger(value) && (value === 0 || (value >= 2 && value <= 2 ** 22)),
      words: `a whole number of hash values from 2 to ${2 ** 22} (0 for the default)`,
    },
  },
  make(epsilon, options, size) {
    const E = Math.exp(epsilon);
    const { hashes, family, hash } = olhParts(epsilon, options, size);
    const p = E / (E + hashes - 1);
    return (k, draws) => {
      const [first, second, third] = [draws.unit(), draws.unit(), draws.unit()];
      const seed = Math.floor(family * first);
      const h = hash(k, seed);
      return words(seed, second < p ? h : another(h, hashes, third));
    };
  },
};

/** One bit per category, set with probability `own` for the category itself, with `other` for all others. */
function unary(size, own, other) {
  return (k, draws) =>
    packed(Array.from({ length: size }, (_, j) => draws.unit() < (j === k ? own : other)));
}

export const oue = {
  options: { own: between(0.5, 0, 1) },
  make: (epsilon, { own }, size) => unary(size, own, 1 / (1 + Math.exp(epsilon) * ((1 - own) / own))),
};

export const sue = {
  options: {},
  make(epsilon, options, size) {
    const s = Math.exp(epsilon / 2);
    return unary(size, s / (s + 1), 1 / (s + 1));
  },
};

export const subsetSelection = {
  options: {
    subset: {
      fallback: 0,
      fits: (value) => Number.isInteger(value) && value >= 0,
      words: "a whole number of categories (0 for the default)",
    },
  },
  make(epsilon, { subset }, size) {
    const E = Math.exp(epsilon);
    const m = subset || Math.max(1, Math.round(size / (E + 1)));
    if (m >= size) throw new TypeError(`subset must be from 1 to ${size - 1}, found ${m}`);
    const p = (m * E) / (m * E + size - m);
    return (k, draws) => {
      const drawn = Array.from({ length: size }, () => draws.unit());
      drawn[k] = drawn[k] < p ? -1 : 1;
      const places = drawn.map((_, j) => j).sort((i, j) => drawn[i] - drawn[j]);
      const taken = new Set(places.slice(0, m));
      return packed(drawn.map((_, j) => taken.has(j)));
    };
  },
};

export const hadamard = {
  options: {},
  whole: true,
  make(epsilon, options, size) {
    const order = powerOfTwo(size);
    const p = 1 / (1 + Math.exp(-epsilon));
    return (k, draws) => {
      const [first, second] = [draws.unit(), draws.unit()];
      const row = Math.floor(order * first);
      return 2 * row + (positive(row, k) === second < p ? 1 : 0);
    };
  },
};

/** B of block Hadamard response: the largest power of two that is below a bound above one. */
function powerBelow(bound) {
  let power = 1;
  while (2 * power < bound) power *= 2;
  return power;
}

export const blockHadamard = {
  options: { most_blocks: whole(2 ** 20, 1, 2 ** 20) },
  whole: true,
  make(epsilon, options, size) {
    const blocks = powerBelow(Math.min(Math.exp(epsilon), 2 * size, options.most_blocks + 1));
    const order = powerOfTwo(Math.ceil(size / blocks) + 1);
    const share = Math.expm1(epsilon) / (Math.expm1(epsilon) + 2 * blocks);
    const width = order / 2;
    const excess = fittingExcess(epsilon, share, width, blocks * order);
    return (k, draws) => {
      const m = draws.whole();
      if (m >= width * excess) return (m - width * excess) % (blocks * order);
      const block = Math.floor(k / (order - 1));
      const column = 1 + (k % (order - 1));
      const lowest = column & -column;
      const count = quotient(m, excess);
      const report = count + lowest * Math.floor(count / lowest);
      return block * order + report + (positive(report, column) ? 0 : lowest);
    };
  },
};

/** The name of GRR or OLH, whichever has the lower variance. */
export function better(size, epsilon) {
  return size - 2 < 3 * Math.exp(epsilon) ? "grr" : "olh";
}

/** The mechanisms by their names in a study. */
export const ORACLES = {
  grr,
  olh,
  oue,
  sue,
  subset_selection: subsetSelection,
  hadamard,
  block_hadamard: blockHadamard,
};

/** The reports of a mechanism, or of the better one for "auto", with its default options. */
export function oracleOver(name, epsilon, size) {
  const oracle = ORACLES[name === "auto" ? better(size, epsilon) : name];
  return oracle.make(epsilon, readOptions(name, oracle.options), size);
}
