/** Draws come from the secure source, and use all of their bits. */

import assert from "node:assert/strict";
import { mock, test } from "node:test";

import { report } from "../index.js";
import { given, secure, U, wholeOf } from "../src/draws.js";

const NUMBER = { mechanism: "square_wave", epsilon: 1, domain: { numeric: [0, 1] } };

test("a draw has 53 bits, each from one bit of the source", () => {
  const bits = new Set();
  for (let bit = 0; bit < 64; bit += 1) {
    const words = [bit < 32 ? 2 ** bit : 0, bit < 32 ? 0 : 2 ** (bit - 32)];
    bits.add(wholeOf(new Uint32Array(words)));
  }
  assert.deepEqual(bits, new Set([0, ...Array.from({ length: 53 }, (_, bit) => 2 ** bit)]));
  assert.equal(wholeOf(new Uint32Array([2 ** 32 - 1, 2 ** 32 - 1])), U - 1);
});

test("without given draws, each draw asks the secure source", () => {
  const asked = mock.method(globalThis.crypto, "getRandomValues", (array) => array.fill(0));
  try {
    assert.equal(secure.whole(), 0);
    assert.equal(secure.unit(), 0);
    assert.equal(report(NUMBER, 0.25), report(NUMBER, 0.25, [0]));
    assert.equal(asked.mock.callCount(), 3);
  } finally {
    asked.mock.restore();
  }
});

test("given draws are the ones that are used", () => {
  const source = given([0.5, 0.25]);
  assert.equal(source.unit(), 0.5);
  assert.equal(source.whole(), U / 4);
  assert.throws(() => source.unit(), /^RangeError: the report needs more than 2 draws$/);
  for (const wrong of [[1], [-0.1], [NaN], ["0.5"], 0.5]) {
    assert.throws(() => given(wrong), /draws must be an array of numbers from 0 to below 1/);
  }
});
