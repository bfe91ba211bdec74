/**
 * Mechanisms whose report is a number near the value, or one of two numbers.
 *
 * Each has a function `make(epsilon, options)`, which returns a function from a value in [0, 1] and a source of
 * draws to a report. A report's draws come first and in the document's order, so that their number does not
 * depend on the value.
 */

import { U } from "./draws.js";
import { STEPS, growth, inWave, makeWave, ONE, place, placeFrom, quotient, roundedUp } from "./grid.js";
import { number, orNull, whole } from "./options.js";

/** b of SW, the half width of the wave. */
export function halfWidth(epsilon) {
  if (epsilon < 0.1) {
    // Near zero both differences lose their digits; their power series do not.
    let [above, below, term] = [0, 0, 1 / 2];
    for (let k = 2; k < 14; k += 1) {
      above += (k - 1) * term;
      below += term;
      term *= epsilon / (k + 1);
    }
    return above / (2 * Math.exp(epsilon) * below);
  }
  const E = Math.exp(epsilon);
  return (epsilon * E - E + 1) / (2 * E * (E - 1 - epsilon));
}

export const squareWave = {
  options: {},
  make(epsilon) {
    const b = halfWidth(epsilon);
    const share = (2 * b * Math.expm1(epsilon)) / (2 * b * Math.exp(epsilon) + 1);
    const wave = makeWave(epsilon, share, 2 * b);
    return (x, draws) => (placeFrom(wave, place(x), draws.whole()) - (wave.width - 1) / 2) / STEPS;
  },
};

export const generalWave = {
  options: { top: number(0.8, 0, 1), half_width: orNull(number(undefined, 1e-9, 10)) },
  make(epsilon, { top, half_width }) {
    const b = half_width ?? halfWidth(epsilon);
    const trapezoid = Math.expm1(epsilon) * (1 + top) * b;
    const share = trapezoid / (1 + 2 * b + trapezoid);
    const wave = makeWave(epsilon, share, b * (1 + top), b * (1 - top));
    const part = quotient(U, wave.slope);
    return (x, draws) => {
      const [first, second] = [draws.whole(), draws.whole()];
      let found = placeFrom(wave, place(x), first);
      if (inWave(wave, first)) {
        const beyond = second - wave.slope * part;
        found = beyond < 0 ? found + quotient(second, part) : beyond % wave.size;
      }
      return (found - (wave.width + wave.slope - 2) / 2) / STEPS;
    };
  },
};

/** PM's wave, and its report at a place. PCKV-PM uses both. */
export function piecewiseParts(epsilon) {
  const wave = makeWave(epsilon, -Math.expm1(-epsilon / 2), Math.exp(-epsilon / 2));
  const unit = (1 / Math.tanh(epsilon / 4) + 1) / STEPS;
  return { wave, reportAt: (found) => (found - (wave.size - 1) / 2) * unit };
}

export const piecewise = {
  options: {},
  make(epsilon) {
    const { wave, reportAt } = piecewiseParts(epsilon);
    return (x, draws) => reportAt(placeFrom(wave, place(x), draws.whole()));
  },
};

export const stochasticRounding = {
  options: {},
  make(epsilon) {
    const bound = 1 / Math.tanh(epsilon / 2);
    const all = BigInt(U);
    const fewest = roundedUp(all * ONE, growth(epsilon) + ONE);
    return (x, draws) => {
      const up = fewest + (BigInt(place(x)) * (all - 2n * fewest)) / BigInt(STEPS);
      return draws.whole() < Number(up) ? bound : -bound;
    };
  },
};

export const hybrid = {
  options: {},
  make(epsilon) {
    const alpha = epsilon > 0.61 ? -Math.expm1(-epsilon / 2) : 0;
    const [near, rounded] = [piecewise.make(epsilon), stochasticRounding.make(epsilon)];
    return (x, draws) => (draws.whole() < Math.floor(alpha * U) ? near(x, draws) : rounded(x, draws));
  },
};

export const discreteSquareWave = {
  options: { bins: whole(64, 2, 2 ** 20) },
  whole: true,
  make(epsilon, { bins }) {
    const wave = 2 * Math.floor(bins * halfWidth(epsilon)) + 1;
    const E = Math.exp(epsilon);
    const inside = (wave * E) / (wave * E + bins - 1);
    return (x, draws) => {
      const [first, second] = [draws.unit(), draws.unit()];
      const bin = Math.min(Math.floor(bins * x), bins - 1);
      if (first < inside) return bin + Math.floor(wave * second);
      const other = Math.floor((bins - 1) * second);
      return other < bin ? other : other + wave;
    };
  },
};
