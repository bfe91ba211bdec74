/** Mechanisms that report the bin of a value, or a range of bins that holds it. */

import { joined, words } from "./bytes.js";
import { better, hasAnySeed, ORACLES, oracleOver, positive } from "./categories.js";
import { isPower, oneOf, whole } from "./options.js";

const MOST_BINS = 2 ** 16;

function binOf(x, bins) {
  return Math.min(Math.floor(bins * x), bins - 1);
}

export const binned = {
  options: { bins: whole(32, 2, MOST_BINS), oracle: oneOf("auto", "auto", ...Object.keys(ORACLES)) },
  whole: true,
  make(epsilon, { bins, oracle }) {
    const perturb = oracleOver(oracle, epsilon, bins);
    return (x, draws) => perturb(binOf(x, bins), draws);
  },
};

export const hierarchy = {
  options: {
    branching: whole(4, 2, MOST_BINS),
    leaves: whole(256, 2, MOST_BINS),
    oracle: oneOf("auto", "auto", "grr", "olh", "hadamard"),
  },
  make(epsilon, { branching, leaves, oracle }) {
    if (!isPower(leaves, branching, MOST_BINS)) {
      throw new TypeError(`leaves must be a power of branching, ${branching}, found ${leaves}`);
    }
    const levels = [];
    for (let nodes = branching; nodes <= leaves; nodes *= branching) {
      const name = oracle === "auto" ? better(nodes, epsilon) : oracle;
      if (name === "olh" && hasAnySeed(epsilon, nodes)) {
        throw new TypeError(`olh at epsilon ${epsilon} over ${nodes} nodes has no counts by seed; use hadamard`);
      }
      levels.push({ leavesPerNode: leaves / nodes, perturb: oracleOver(name, epsilon, nodes) });
    }
    return (x, draws) => {
      const level = Math.floor(levels.length * draws.unit());
      const { leavesPerNode, perturb } = levels[level];
      const report = perturb(Math.floor(binOf(x, leaves) / leavesPerNode), draws);
      // OLH's report is a seed and a value; the others have no seed.
      return joined([level + 1], typeof report === "number" ? words(0, report) : report);
    };
  },
};

export const haar = {
  options: {
    leaves: {
      fallback: 256,
      fits: (value) => isPower(value, 2, MOST_BINS),
      words: `a power of two from 2 to ${MOST_BINS}`,
    },
  },
  whole: true,
  make(epsilon, { leaves }) {
    const levels = Math.log2(leaves);
    const p = 1 / (1 + Math.exp(-epsilon));
    return (x, draws) => {
      const [first, second, third] = [draws.unit(), draws.unit(), draws.unit()];
      const level = Math.floor(levels * first);
      const row = Math.floor(2 ** level * second);
      const half = binOf(x, leaves) >> (levels - level - 1);
      const plus = positive(row, half >> 1) === (half % 2 === 0);
      return 2 * (2 ** level - 1 + row) + (plus === third < p ? 1 : 0);
    };
  },
};
