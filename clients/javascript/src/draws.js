/**
 * Sources of uniform draws.
 *
 * A source has two functions: `whole()` draws a whole number from 0 to U - 1, and `unit()` draws a number from
 * [0, 1) of 53 bits. docs/reports.md calls the first m1, m2, ... and the second u1, u2, ....
 */

/** The number of values of a draw. All whole numbers up to U are exact in doubles. */
export const U = 2 ** 53;

/** The whole number of 53 bits that two draws of 32 bits make: all bits of one, the upper 21 of the other. */
export function wholeOf([low, high]) {
  return (high >>> 11) * 2 ** 32 + low;
}

function drawn() {
  return wholeOf(globalThis.crypto.getRandomValues(new Uint32Array(2)));
}

/** Draws from the operating system's secure source. Real clients use no other. */
export const secure = { whole: drawn, unit: () => drawn() / U };

/**
 * Draws that are given, for tests: numbers from [0, 1), taken in their order.
 *
 * @param {number[]} numbers
 * @throws {TypeError} for anything else than an array of numbers from [0, 1).
 */
export function given(numbers) {
  if (!Array.isArray(numbers) || !numbers.every((u) => typeof u === "number" && u >= 0 && u < 1)) {
    throw new TypeError("draws must be an array of numbers from 0 to below 1");
  }
  let next = 0;
  const unit = () => {
    if (next === numbers.length) {
      throw new RangeError(`the report needs more than ${numbers.length} draws`);
    }
    return numbers[next++];
  };
  return { unit, whole: () => Math.floor(U * unit()) };
}
