/**
 * Draws in whole numbers, so that the probability of each report is known exactly ("The grid" of
 * docs/reports.md).
 *
 * Numbers that can exceed 2^53 are BigInt. All others are exact in doubles.
 */

import { U } from "./draws.js";

/** n of the document: the number of steps to which values in [0, 1] are rounded. */
export const STEPS = 2 ** 30;

/** exp(epsilon) and its relatives are whole multiples of 1 / ONE. */
const BITS = 256n;
export const ONE = 1n << BITS;

/** A number of doubles, at least 1e-7, times ONE. */
export function exact(number) {
  return BigInt(number * 2 ** 80) << (BITS - 80n);
}

/** exp(epsilon) times ONE, rounded down; it is correct to more than sixty digits. Epsilon is at least 1e-7. */
export function growth(epsilon) {
  const x = exact(epsilon);
  let sum = 0n;
  for (let term = ONE, k = 1n; term > 0n; k += 1n) {
    sum += term;
    term = (term * x) / (ONE * k);
  }
  return sum;
}

/** The quotient of two whole numbers above zero, rounded up. */
export function roundedUp(numerator, denominator) {
  return (numerator + denominator - 1n) / denominator;
}

/** The quotient of two whole numbers up to 2^53, rounded down. A division of doubles alone may round up. */
export function quotient(numerator, denominator) {
  return (numerator - (numerator % denominator)) / denominator;
}

/** The place of a value in [0, 1]. */
export function place(x) {
  return Math.floor(STEPS * x + 0.5);
}

/**
 * How many draws a place of a wave has, besides those of the uniform part.
 *
 * @param {number} epsilon the budget, which the wave never exceeds
 * @param {number} share the probability of the wave
 * @param {number} width the number of places of the wave
 * @param {number} size the number of all places
 */
export function fittingExcess(epsilon, share, width, size) {
  const wanted = BigInt(Math.floor((share * U) / width));
  const [all, wide, places] = [U, width, size].map(BigInt);
  const more = growth(epsilon) - ONE;
  const fewest = (all - wide * wanted) / places;
  const fitting = [fewest, fewest + 1n].map((even) =>
    [wanted, (all - places * even) / wide, (more * even) >> BITS].reduce((a, b) => (a < b ? a : b)),
  );
  return Number(fitting[0] > fitting[1] ? fitting[0] : fitting[1]);
}

/** A wave of a width and a slope, both relative to the range of values, with a share of all reports. */
export function makeWave(epsilon, share, relativeWidth, relativeSlope = 0) {
  const width = Math.ceil(relativeWidth * STEPS);
  const slope = Math.max(1, Math.round(relativeSlope * STEPS));
  const size = STEPS + width + slope - 1;
  return { width, slope, size, excess: fittingExcess(epsilon, share, width, size) };
}

/** Whether a draw belongs to the wave, and not to the uniform part. */
export function inWave(wave, m) {
  return m < wave.width * wave.excess;
}

/** K(i, m) of the document: the place to which the draw m leads from the value's place i. */
export function placeFrom(wave, i, m) {
  return inWave(wave, m) ? i + quotient(m, wave.excess) : (m - wave.width * wave.excess) % wave.size;
}

/** The cell of a value in [0, 1] on some steps: one of the two next to it, so that the mean is the value. */
export function cell(x, steps, m) {
  const below = Math.floor(steps * x);
  return below + (m < U * (steps * x - below) ? 1 : 0);
}

/** How many of a table's ascending partial sums are at most m. */
export function fromTable(sums, m) {
  let low = 0;
  let high = sums.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (sums[middle] <= m) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The position in a cell, in (0, 1), over which a report is spread. */
export function spread(m) {
  return (Math.floor(m / 2 ** 39) + 0.5) / 2 ** 14;
}
