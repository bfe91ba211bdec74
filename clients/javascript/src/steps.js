/**
 * Both steps of a client that remembers its noise, in whole numbers ("Clients that remember their noise" of
 * docs/reports.md).
 *
 * Each function returns `answers` and `kept` of the instant step, the `constants` of the permanent step, how many
 * `draws` an answer takes, and `permanent`, a function from the input and that many draws to the answers.
 */

import { U } from "./draws.js";
import { exact, growth, ONE, quotient, roundedUp, STEPS } from "./grid.js";

const ALL = BigInt(U);

/** P: how many draws each of `width` answers of `size` has, besides those that any answer has. */
function excessOf(life, size, width) {
  const more = life - ONE;
  return (more * (ALL - size + 1n)) / (more * width + size * ONE);
}

/** K: how many draws of the instant step keep the permanent answer. */
function keptOf(window, answers, excess, even) {
  const more = window - ONE;
  const apart = answers * (excess * ONE - more * even);
  return (more * ALL * (ALL - answers + 1n)) / (more * ALL + (apart > 0n ? apart : 0n));
}

/** The same for a bit that `other` draws of the permanent step set for another category. */
function keptBits(window, other) {
  const below = window + ONE;
  const wanted = ALL * ALL * ONE - other * ALL * below;
  return wanted > 0n ? ALL - 2n * roundedUp(wanted, below * (ALL - 2n * other)) : ALL;
}

/** K of the published constants of L-GRR and LOLOHA. */
function publishedKept(life, window, answers) {
  const [likelier, apart] = [life * window - ONE * ONE, (life - window) * ONE];
  return (ALL * (likelier - apart)) / (likelier + (answers - 1n) * apart);
}

export function cellSteps({ lifetime_epsilon, epsilon, as_published }, cells) {
  const [life, window, many] = [growth(lifetime_epsilon), growth(epsilon), BigInt(cells)];
  const P = excessOf(life, many, 1n);
  let K = keptOf(window, many, P, (ALL - P) / many);
  if (as_published) {
    const published = publishedKept(life, window, many);
    if (published < K) K = published;
  }
  const excess = Number(P);
  return {
    answers: cells,
    kept: Number(K),
    constants: [cells, excess],
    draws: 1,
    permanent: (input, [m]) => [m < excess ? input : (m - excess) % cells],
  };
}

function bitSteps(size, kept, own, other) {
  return {
    answers: 2,
    kept: Number(kept),
    constants: [size, own, other],
    draws: size,
    permanent: (input, draws) => draws.map((m, j) => (m < (j === input ? own : other) ? 1 : 0)),
  };
}

export function oueSteps({ lifetime_epsilon, epsilon }, size) {
  const other = roundedUp(ALL * ONE, growth(lifetime_epsilon) + ONE);
  return bitSteps(size, keptBits(growth(epsilon), other), U / 2, Number(other));
}

export function sueSteps({ lifetime_epsilon, epsilon }, size) {
  const other = roundedUp(ALL * ONE, growth(lifetime_epsilon / 2) + ONE);
  return bitSteps(size, keptBits(growth(epsilon / 2), other), U - Number(other), Number(other));
}

/** Where an input lies, from 0 to so many equal parts of the range: a value, or the middle of a memo bucket. */
function placesOf(buckets, values) {
  return values
    ? { parts: values - 1, placeOf: (input) => input }
    : { parts: 2 * buckets, placeOf: (input) => 2 * input + 1 };
}

export function signSteps({ lifetime_epsilon, epsilon, memo_buckets: buckets }, values) {
  const { parts, placeOf } = placesOf(buckets, values);
  const fewest = roundedUp(ALL * ONE, growth(lifetime_epsilon) + ONE);
  const span = ALL - 2n * fewest;
  const up = (input) => fewest + (BigInt(placeOf(input)) * span) / BigInt(parts);
  return {
    answers: 2,
    kept: Number(keptOf(growth(epsilon), 2n, span, fewest)),
    constants: [buckets, Number(fewest)],
    draws: 1,
    permanent: (input, [m]) => [m < Number(up(input)) ? 1 : 0],
  };
}

/** Twice b of SW, exactly, as the numerator and the denominator of a fraction. */
function squareWidth(epsilon) {
  const [E, own] = [growth(epsilon), exact(epsilon)];
  return [own * E - E * ONE + ONE * ONE, E * (E - ONE - own)];
}

export function waveSteps({ mechanism, lifetime_epsilon, epsilon, memo_buckets: buckets }, values) {
  const { parts, placeOf } = placesOf(buckets, values);
  const [above, below] =
    mechanism === "piecewise" ? [ONE, growth(lifetime_epsilon / 2)] : squareWidth(lifetime_epsilon);
  const width = Number(roundedUp(BigInt(STEPS) * above, below));
  const size = STEPS + width;
  const P = excessOf(growth(lifetime_epsilon), BigInt(size), BigInt(width));
  const even = (ALL - BigInt(width) * P) / BigInt(size);
  const places = BigInt(Math.ceil(size / buckets));
  const excess = Number(P);
  const inWave = width * excess;
  return {
    answers: buckets,
    kept: Number(keptOf(growth(epsilon), BigInt(buckets), places * P, places * even)),
    constants: [buckets, width, excess],
    draws: 1,
    permanent(input, [m]) {
      const middle = quotient(2 * STEPS * placeOf(input) + parts, 2 * parts);
      const found = m < inWave ? middle + quotient(m, excess) : (m - inWave) % size;
      return [quotient(found * buckets, size)];
    },
  };
}

/** An instant answer. */
export function instantFrom({ kept, answers }, permanent, m) {
  return m < kept ? permanent : (m - kept) % answers;
}
