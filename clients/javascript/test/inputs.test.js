/** Values are in the domain's units and names, and mistakes are refused with a sentence. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { client, report } from "../index.js";

const MINUTES = { mechanism: "square_wave", epsilon: 1, domain: { numeric: [0, 180] } };
const TRANSPORT = { mechanism: "grr", epsilon: 1, domain: { categories: ["car", "bus", "bike"] } };
const RATINGS = { mechanism: "privkv", epsilon: 1, domain: { keys: ["jaws", "alien"], values: [1, 5] } };
const STEPS = { mechanism: "laplace", epsilon: 1, domain: { coordinates: ["mon", "tue"], values: [0, 10] } };

function same(one, value, other, scaled, draws) {
  assert.deepEqual(report(one, value, draws), report({ ...one, domain: other }, scaled, draws));
}

test("numbers are scaled, and clipped to the domain", () => {
  same(MINUTES, 45, { numeric: [0, 1] }, 0.25, [0.3]);
  same(MINUTES, 500, { numeric: [0, 1] }, 1, [0.3]);
  same(MINUTES, -1, { numeric: [0, 1] }, 0, [0.3]);
  same(STEPS, [5, 10], { coordinates: 2, values: [0, 1] }, [0.5, 1], [0.7, 0.1, 0.2, 0.3]);
  same(RATINGS, { alien: 2, jaws: 5 }, { keys: 2, values: [0, 1] }, { 0: 1, 1: 0.25 }, [0.6, 0.1, 0.4]);
});

test("a step divides a range whose ends have few digits after the point", () => {
  const far = { numeric: [1700000000.1, 1700000002.3], step: 0.1 };
  same({ ...MINUTES, domain: far }, 1700000000.6, { numeric: [0, 22], step: 1 }, 5, [0.3]);
});

test("a Map is refused, which would be a person without keys", () => {
  assert.throws(() => report(RATINGS, new Map([["jaws", 2]])), /an object with a number for each key, found a Map/);
});

test("a BigInt is no number", () => {
  assert.throws(() => report(MINUTES, 45n), /the value must be a number, found a bigint$/);
});

test("categories have names, or numbers where the study gives how many there are", () => {
  same(TRANSPORT, "bike", { categories: 3 }, 2, [0.9, 0.7]);
  same(TRANSPORT, "bike", { categories: 3 }, "2", [0.9, 0.7]);
});

test("means of a later round are in the unit of the values", () => {
  const later = { ...RATINGS, mechanism: "privkvm", options: { round: 2 }, means: [1, 4] };
  const scaled = { ...later, domain: { keys: 2, values: [0, 1] }, means: [0, 0.75] };
  for (const sign of [0.2, 0.3, 0.4, 0.5, 0.6]) {
    assert.equal(report(later, {}, [0.9, 0.1, sign]), report(scaled, {}, [0.9, 0.1, sign]));
  }
  assert.throws(() => client({ ...later, means: [1] }), /means must be an array of 2 numbers/);
  assert.throws(() => client({ ...later, means: undefined }), /round 2 of privkvm needs means/);
  assert.throws(() => client({ ...RATINGS, means: [1, 4] }), /means belong to privkvm from round 2 on/);
});

test("auto is GRR for few categories and OLH for many", () => {
  const draws = [0.1, 0.2, 0.3];
  for (const [size, name] of [[10, "grr"], [11, "olh"]]) {
    const auto = { mechanism: "auto", epsilon: 1, domain: { categories: size } };
    assert.deepEqual(report(auto, 3, draws), report({ ...auto, mechanism: name }, 3, draws));
  }
});

const WRONG_VALUES = [
  [MINUTES, NaN, "the value must be a number, found NaN"],
  [MINUTES, "45", "the value must be a number, found text"],
  [MINUTES, undefined, "the value must be a number, found undefined"],
  [TRANSPORT, "tram", "unknown category, found text; there are: car, bus, bike"],
  [{ ...TRANSPORT, domain: { categories: 3 } }, 3, "unknown category, found a number; there are: 0 to 2"],
  [{ ...TRANSPORT, domain: { categories: 3 } }, 1.5, "unknown category, found a number; there are: 0 to 2"],
  [RATINGS, { dune: 3 }, "unknown key; there are: jaws, alien"],
  [RATINGS, { jaws: "3" }, "the value of a key must be a number, found text"],
  [RATINGS, [3], "the value must be an object with a number for each key, found an array"],
  [STEPS, [1], "the value must be an array of 2 numbers, found an array"],
  [STEPS, [1, null], "coordinate 1 must be a number, found null"],
];

for (const [service, value, message] of WRONG_VALUES) {
  test(`refused: ${message}`, () => {
    assert.throws(() => report(service, value), { name: "TypeError", message });
  });
}

test("with a step a client rounds to the nearest value, halves up, and clips", () => {
  const ages = { mechanism: "square_wave", epsilon: 1, domain: { numeric: [0, 1.8], step: 0.18 } };
  const rounded = { "-1": 0, 0.08: 0, 0.09: 1, 0.44: 2, 0.45: 3, 1.71: 10, 1.8: 10, 9: 10 };
  for (const [value, steps] of Object.entries(rounded)) {
    const exact = { mechanism: "square_wave", epsilon: 1, domain: { numeric: [0, 10] } };
    assert.equal(report(ages, Number(value), [0.3]), report(exact, steps, [0.3]), value);
  }
});

const WRONG_SERVICES = [
  [{ epsilon: 0 }, "epsilon must be a number above 1e-6 and at most 20, found 0"],
  [{ epsilon: "1" }, "epsilon must be a number above 1e-6 and at most 20, found \"1\""],
  [{ domain: { numeric: [1, 1] } }, "numeric must be [low, high] with low < high, found [1,1]"],
  [
    { domain: { numeric: [-1e308, 1e308] } },
    "numeric must be between 1e-100 and 1e100 wide, found [-1e+308,1e+308]",
  ],
  [
    { domain: { numeric: [1e15, 1e15 + 1] } },
    "numeric has too few digits: its ends differ by less than a billionth, found [1000000000000000,1000000000000001]",
  ],
  [
    { domain: { numeric: [0, 1], unit: "minutes" } },
    'a domain of numeric has no "unit"; it takes numeric, step, scale',
  ],
  [{ domain: { numeric: [0, 1], step: 0 } }, "step must be above 0, found 0"],
  [{ domain: { numeric: [0, 1], step: 0.5, scale: "log1p" } }, "a domain has a step or a scale, not both"],
  [{ domain: { edges: [0, 1, 1] } }, "edges must be 3 to 4097 numbers that ascend, found [0,1,1]"],
  [
    { domain: { numeric: [0, 1], scale: "log" } },
    'scale must be "log" of a range above 0, or "log1p" of one from 0 on, found "log"',
  ],
  [{ domain: { numeric: [0, 1], step: "1" } }, 'step must be above 0, found "1"'],
  [{ domain: { numeric: [0, 1], step: 0.3 } }, "step must divide the range into 1 to 4095 equal parts, found 0.3"],
  [{ domain: { numeric: [0, 1], step: 1e-4 } }, "step must divide the range into 1 to 4095 equal parts, found 0.0001"],
  [{ bins: 16 }, 'a service has no "bins"; it takes mechanism, epsilon, domain, options, means'],
  [{ options: 3 }, "options must be an object, found 3"],
  [{ domain: {} }, "domain must have one of numeric, edges, categories, keys, coordinates, found an object"],
  [
    { domain: { categories: ["a", "a"] } },
    'categories must be two different names or more, or how many there are, found ["a","a"]',
  ],
  [{ options: { bins: 3 } }, 'mechanism square_wave has no option "bins"; it takes none'],
  [
    { mechanism: "binned", options: { bins: 1 } },
    "bins of binned must be a whole number from 2 to 65536, found 1",
  ],
  [
    { mechanism: "hierarchy", options: { leaves: 100 } },
    "leaves must be a power of branching, 4, found 100",
  ],
  [
    { mechanism: "hierarchy", epsilon: 16, options: { oracle: "olh" } },
    "olh at epsilon 16 over 4 nodes has no counts by seed; use hadamard",
  ],
  [
    { mechanism: "gaussian", epsilon: 2, options: { calibration: "classical" } },
    "the classical calibration is proven up to epsilon 1, found 2; use calibration analytic",
  ],
  [
    { mechanism: "olh", domain: { categories: 5 }, options: { seeds: 2 } },
    'seeds of olh must be "any", or from 4 to 65536 with 4 hash values and 5 categories, found 2',
  ],
];

for (const [change, message] of WRONG_SERVICES) {
  test(`refused: ${message}`, () => {
    assert.throws(() => client({ ...MINUTES, ...change }), { name: "TypeError", message });
  });
}

/** Services, and whether Python takes them too: tests/clients/test_javascript.py of ldpbeam reads this table. */
const SERVICES = JSON.parse(readFileSync(new URL("services.json", import.meta.url), "utf-8"));

test("a service is taken or refused as the table says", () => {
  assert.ok(SERVICES.length > 300);
  for (const { taken, service } of SERVICES) {
    const text = JSON.stringify(service).slice(0, 300);
    if (taken) assert.equal(typeof client(service), "function", text);
    else assert.throws(() => client(service), TypeError, text);
  }
});

test("an unknown mechanism is refused with those that there are", () => {
  const known = "grr, olh, oue, sue, subset_selection, hadamard, block_hadamard, matrix";
  assert.throws(() => client({ ...TRANSPORT, mechanism: "square_wave" }), {
    message: `unknown mechanism "square_wave"; for categories there are: ${known}`,
  });
});
