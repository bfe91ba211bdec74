/**
 * Mechanisms for keys with values.
 *
 * `make(epsilon, options, size, means)` returns a function from a person's pairs and a source of draws to a
 * report. The pairs are [key, x], with keys from 0, ascending, and x in [0, 1].
 */

import { joined, packed } from "./bytes.js";
import { another } from "./categories.js";
import { U } from "./draws.js";
import { growth, ONE, place, placeFrom, roundedUp } from "./grid.js";
import { piecewiseParts } from "./numbers.js";
import { between, whole } from "./options.js";

const padding = whole(1, 1, 10000);

/** The probability of the sign +1 for x, if a sign is kept with probability p. */
function plusShare(x, p) {
  return x * p + (1 - x) * (1 - p);
}

/** PrivKV, where a missing key has the x of `fakes`. */
function oneKey(epsilon, keyShare, size, fakes) {
  const first = keyShare * epsilon;
  const p1 = 1 / (1 + Math.exp(-first));
  const p2 = 1 / (1 + Math.exp(first - epsilon));
  return (pairs, draws) => {
    const [key, presence, sign] = [Math.floor(size * draws.unit()), draws.unit(), draws.unit()];
    const own = pairs.find((pair) => pair[0] === key);
    if (presence >= (own ? p1 : 1 - p1)) return 3 * key;
    return 3 * key + (sign < plusShare(own ? own[1] : fakes[key], p2) ? 1 : 2);
  };
}

export const privkv = {
  options: { key_share: between(0.5, 0, 1) },
  make: (epsilon, { key_share }, size) => oneKey(epsilon, key_share, size, Array(size).fill(0.5)),
};

export const privkvm = {
  options: { key_share: between(0.5, 0, 1), round: whole(1, 1, Number.MAX_SAFE_INTEGER) },
  make(epsilon, { key_share, round }, size, means) {
    if (round > 1 && means === undefined) {
      throw new TypeError(
        `round ${round} of privkvm needs means: the mean of each key in round ${round - 1}`,
      );
    }
    return oneKey(epsilon, key_share, size, round > 1 ? means : Array(size).fill(0.5));
  },
};

/** One of a person's pairs, or undefined for a dummy. */
function drawnPair(pairs, length, u) {
  return pairs[Math.floor(u * Math.max(pairs.length, length))];
}

export const pckvGrr = {
  options: { padding },
  make(epsilon, { padding: ell }, size) {
    const G = ell * Math.expm1(epsilon);
    const D = size + ell;
    const [a, p] = [(G + 2) / (G + 2 * D), (G + 1) / (G + 2)];
    return (pairs, draws) => {
      const [which, dummy, kept, other, sign] = Array.from({ length: 5 }, () => draws.unit());
      const [key, x] = drawnPair(pairs, ell, which) ?? [size + Math.floor(ell * dummy), 0.5];
      if (kept < a) return 2 * key + (sign < plusShare(x, p) ? 1 : 0);
      return 2 * another(key, D, other) + (sign < 1 / 2 ? 1 : 0);
    };
  },
};

export const pckvUe = {
  options: { padding },
  make(epsilon, { padding: ell }, size) {
    const E = Math.exp(epsilon);
    const [b, p] = [2 / (E + 3), E / (E + 1)];
    return (pairs, draws) => {
      const [key, x] = drawnPair(pairs, ell, draws.unit()) ?? [];
      const slots = Array.from({ length: size }, (_, k) => {
        const u = draws.unit();
        const [plus, either] = k === key ? [plusShare(x, p) / 2, 1 / 2] : [b / 2, b];
        return { plus: u < plus, minus: u >= plus && u < either };
      });
      return joined(packed(slots.map(({ plus }) => plus)), packed(slots.map(({ minus }) => minus)));
    };
  },
};

/** PM's wave, with an excess that keeps a row of slots within epsilon, and T of the document. */
function slotWave(wave, epsilon) {
  const [E, all, N, w] = [growth(epsilon), ...[U, wave.size, wave.width].map(BigInt)];
  const A = all / N;
  const evenWith = (P) => (all - w * P) / N;
  const given = BigInt(wave.excess);
  const Q = evenWith(given);
  const most = (E * Q * A) / ((A + 1n) * ONE) - Q - 1n;
  const P = most < given ? most : given;
  const likelier = (P + evenWith(P) + 1n) * ONE;
  const T = roundedUp(all * likelier, likelier + E * A);
  return { wave: { ...wave, excess: Number(P) }, T: Number(T) };
}

export const pckvPm = {
  options: { padding },
  make(epsilon, { padding: ell }, size) {
    const { wave: piecewise, reportAt } = piecewiseParts(epsilon);
    const { wave, T } = slotWave(piecewise, epsilon);
    return (pairs, draws) => {
      const [key, x] = drawnPair(pairs, ell, draws.unit()) ?? [];
      const present = Array.from({ length: size }, (_, k) => draws.whole() < (k === key ? U / 2 : T));
      const places = Array.from({ length: size }, () => draws.whole() % wave.size);
      const last = draws.whole();
      if (key !== undefined) places[key] = placeFrom(wave, place(x), last);
      const values = new DataView(new ArrayBuffer(4 * size));
      places.forEach((found, k) => values.setFloat32(4 * k, present[k] ? reportAt(found) : 0, true));
      return joined(packed(present), new Uint8Array(values.buffer));
    };
  },
};
