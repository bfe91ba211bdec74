/** Mechanisms that add noise to the value: Laplace and Gaussian. */

import { U } from "./draws.js";
import { cell, fromTable, growth, ONE, roundedUp, spread } from "./grid.js";
import { analyticSigma, classicalSigma } from "./normal.js";
import { oneOf } from "./options.js";

/** D of Laplace: the number of cells from one end of the domain to the other. */
const CELLS = 2 ** 16;

/** How many draws move a report by less than 1, 2, ... cells. */
function laplaceTable(epsilon) {
  const scale = (U / 2) * (1 - 2 ** -40) * -Math.expm1(-epsilon / CELLS);
  const least = Number(roundedUp(BigInt(Math.floor(scale)) * ONE, growth(epsilon)));
  const sums = new Float64Array(CELLS);
  let sum = 0;
  for (let z = 0; z < CELLS; z += 1) {
    sum += Math.max(Math.floor(scale * Math.exp((-epsilon * z) / CELLS)), least);
    sums[z] = sum;
  }
  return sums;
}

export const laplace = {
  options: {},
  make(epsilon) {
    const table = laplaceTable(epsilon);
    return (x, draws) => {
      const [first, second, third] = [draws.whole(), draws.whole(), draws.whole()];
      const z = fromTable(table, first % (U / 2));
      const from = cell(x, CELLS, second);
      const k = first >= U / 2 ? from + z : from - 1 - z;
      if (k >= 0 && k < CELLS) return (2 * (k + spread(third))) / CELLS - 1;
      const steps = Math.floor(-(2 ** 30 / epsilon) * Math.log(1 - third / U));
      const end = 1 + (steps + 0.5) / 2 ** 29;
      return k < 0 ? -end : end;
    };
  },
};

/** The lattice of the Gaussian mechanism: D, R, N and the partial sums of its table. */
function gaussianLattice(sigma, epsilon) {
  const steps = Math.max(1, Math.ceil(2 ** 13 / sigma));
  const deviation = (1.000001 * sigma * steps) / 2;
  const reach = steps + Math.ceil(9 * deviation);
  const size = 2 * reach - steps + 1;
  const E = growth(epsilon);
  const leftOver = BigInt(size) * roundedUp(E, E - ONE);
  const weights = Float64Array.from({ length: 2 * reach + 1 }, (_, z) =>
    Math.exp(-0.5 * ((z - reach) / deviation) ** 2),
  );
  const scale = Number(2n ** 62n - 2n * leftOver) / weights.reduce((a, b) => a + b, 0);
  const sums = new BigInt64Array(weights.length);
  let sum = 0n;
  weights.forEach((weight, z) => {
    sum += BigInt(Math.floor(scale * weight));
    sums[z] = sum;
  });
  return { steps, reach, size, sums };
}

export const gaussian = {
  options: {
    delta: {
      fallback: 1e-6,
      fits: (value) => typeof value === "number" && value >= 1e-15 && value < 0.5,
      words: "a number from 1e-15 to below 0.5",
    },
    calibration: oneOf("analytic", "analytic", "classical"),
  },
  make(epsilon, { delta, calibration }) {
    if (calibration === "classical" && epsilon > 1) {
      throw new TypeError(
        `the classical calibration is proven up to epsilon 1, found ${epsilon}; use calibration analytic`,
      );
    }
    const sigma = (calibration === "classical" ? classicalSigma : analyticSigma)(epsilon, delta);
    const { steps, reach, size, sums } = gaussianLattice(sigma, epsilon);
    return (x, draws) => {
      const [first, second, third] = [draws.whole(), draws.whole(), draws.whole()];
      const m = 512n * BigInt(first) + BigInt(third % 512);
      const z = fromTable(sums, m);
      const moved = cell(x, steps, second) + z - reach;
      const k =
        z < sums.length
          ? Math.min(Math.max(moved, steps - reach), reach)
          : steps - reach + Number((2n ** 62n - 1n - m) % BigInt(size));
      return (2 * (k + spread(third) - 0.5)) / steps - 1;
    };
  },
};
