/** The test vectors that every client must pass: what `ldpbeam vectors` prints. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { report } from "../index.js";
import { hexadecimal, words } from "../src/bytes.js";
import { MECHANISMS } from "../src/report.js";
import { xxh32 } from "../src/xxh32.js";

const ROOT = new URL("../../../", import.meta.url);
const VECTORS = JSON.parse(readFileSync(new URL("schemas/test_vectors.json", ROOT), "utf-8"));

/** What a client of so many times the vector's epsilon sends, as the vector states it. */
function sent(vector, budget = 1) {
  const { mechanism, epsilon, options, domain, means, value, draws } = vector;
  const payload = report({ mechanism, epsilon: budget * epsilon, options, domain, means }, value, draws);
  return payload instanceof Uint8Array ? hexadecimal(payload) : Number(payload.toPrecision(12));
}

test("there are vectors of every mechanism", () => {
  const names = Object.values(MECHANISMS).flatMap((kind) => Object.keys(kind));
  assert.deepEqual(new Set(VECTORS.map(({ mechanism }) => mechanism)), new Set(names));
});

for (const vector of VECTORS) {
  const { mechanism, epsilon, options, draws } = vector;
  test(`${mechanism} ${epsilon} ${JSON.stringify(options)} ${draws.join(" ")}`, () => {
    assert.equal(sent(vector), vector.report);
  });
}

for (const name of new Set(VECTORS.map(({ mechanism }) => mechanism))) {
  test(`${name} with an epsilon that is off by a hundredth fails some vector`, () => {
    const own = VECTORS.filter(({ mechanism }) => mechanism === name);
    for (const budget of [0.99, 1.01]) {
      if (name === "matrix") {
        assert.throws(() => sent(own[0], budget), /the epsilon of this table is/);
        continue;
      }
      assert.ok(own.some((vector) => sent(vector, budget) !== vector.report));
    }
  });
}

test("hashes are those of the document", () => {
  const document = readFileSync(new URL("docs/reports.md", ROOT), "utf-8");
  const rows = [...document.matchAll(/^\| (\d+) \| (\d+) \| (\d+) \| \d \|$/gm)];
  assert.ok(rows.length > 3);
  for (const [category, seed, hash] of rows.map((row) => row.slice(1).map(Number))) {
    assert.equal(xxh32(words(category), seed), hash);
  }
});
