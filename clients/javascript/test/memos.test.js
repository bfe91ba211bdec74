/** Clients that remember their noise: permanent answers from the device key, and instant ones drawn afresh. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { mock, test } from "node:test";

import { client, report } from "../index.js";
import { hexadecimal } from "../src/bytes.js";

const ROOT = new URL("../../../", import.meta.url);
const VECTORS = JSON.parse(readFileSync(new URL("schemas/memo_vectors.json", ROOT), "utf-8"));
const KEY = Uint8Array.from({ length: 16 }, (_, k) => k);
const DRINK = {
  mechanism: "grr",
  epsilon: 1,
  lifetime_epsilon: 2,
  domain: { categories: ["tea", "coffee", "water"] },
  study: "drinks",
  attribute: "drink",
  service: "app",
  device_key: KEY,
};
const MINUTES = { ...DRINK, mechanism: "square_wave", domain: { numeric: [0, 180] }, memo_buckets: 64 };

for (const { value, draws, device_key, report: expected, ...service } of VECTORS) {
  test(`${service.mechanism} ${service.epsilon} for ${value}`, async () => {
    const { categories } = service.domain;
    const key = Uint8Array.from(Buffer.from(device_key, "hex"));
    const named = Array.isArray(categories) ? categories[value] : value;
    const payload = await report({ ...service, device_key: key }, named, draws);
    const sent = payload instanceof Uint8Array ? hexadecimal(payload) : Number(payload.toPrecision(12));
    assert.equal(sent, expected);
  });
}

test("instant draws are asked of the secure source for each report, and never of the key", async () => {
  const drawn = [];
  const source = globalThis.crypto.getRandomValues.bind(globalThis.crypto);
  const asked = mock.method(globalThis.crypto, "getRandomValues", (array) => {
    const found = source(array);
    drawn.push(found.join());
    return found;
  });
  try {
    const perturb = client(DRINK);
    const sent = await Promise.all(Array.from({ length: 500 }, () => perturb("tea")));
    assert.equal(asked.mock.callCount(), 500);
    assert.equal(new Set(drawn).size, 500);
    assert.ok(new Set(sent).size > 1);
  } finally {
    asked.mock.restore();
  }
});

test("another key, name, domain, lifetime epsilon or number of buckets has other permanent answers", async () => {
  // Of 300 answers, two independent functions agree in about a third or more, and one function in all.
  const many = { ...DRINK, domain: { categories: 300 }, mechanism: "sue" };
  const changes = [
    { device_key: KEY.map((byte) => byte + 1) },
    { study: "s" },
    { attribute: "s" },
    { service: "s" },
    { version: "s" },
    { domain: { categories: Array.from({ length: 300 }, (_, k) => `c${k}`) } },
    { lifetime_epsilon: 2.0000001 },
    { mechanism: "oue" },
  ];
  const memo = async (service, value) => hexadecimal(await report(service, value, Array(300).fill(0)));
  const own = await memo(many, 7);
  assert.equal(await memo({ ...many, epsilon: 0.5 }, 7), own);
  const names = changes.map(({ domain }) => (domain ? "c7" : 7));
  const others = await Promise.all(changes.map((change, k) => memo({ ...many, ...change }, names[k])));
  others.push(await memo(many, 8));
  assert.equal(new Set([own, ...others]).size, changes.length + 2);
});

test("a key that is changed later does not change the client", async () => {
  const key = KEY.slice();
  const perturb = client({ ...DRINK, domain: { categories: 1000 }, device_key: key });
  const before = await perturb(3, [0]);
  key.fill(9);
  assert.equal(await perturb(3, [0]), before);
});

test("values that do not belong to the domain are refused", async () => {
  await assert.rejects(report(DRINK, "milk"), { name: "TypeError", message: /unknown category, found text/ });
});

const WRONG = [
  [{ ...DRINK, device_key: undefined }, /device_key must be a Uint8Array of 16 random bytes or more/],
  [{ ...DRINK, device_key: KEY.slice(1) }, /which the device keeps, found 15 bytes/],
  [{ ...DRINK, device_key: "0123456789abcdef" }, /device_key must be a Uint8Array/],
  [{ ...DRINK, study: undefined }, /study must be its name in the study/],
  [{ ...DRINK, service: "" }, /service must be its name in the study/],
  [{ ...DRINK, version: 2 }, /version must be text, found a number/],
  [{ ...DRINK, lifetime_epsilon: 1 }, /lifetime_epsilon must be above epsilon \(1\) and at most 20, found 1/],
  [{ ...DRINK, lifetime_epsilon: 21 }, /at most 20, found 21/],
  [{ ...DRINK, mechanism: "hadamard" }, /lifetime_epsilon is for grr, .*, and not for "hadamard"/],
  [{ ...DRINK, mechanism: "auto" }, /and not for "auto"/],
  [{ ...DRINK, memo_buckets: 64 }, /memo_buckets is for numbers/],
  [{ ...DRINK, options: { bins: 2 } }, /mechanism grr has no option "bins"/],
  [{ ...MINUTES, memo_buckets: undefined }, /a whole number from 2 to 65536 as in the study/],
  [{ ...MINUTES, memo_buckets: 65_537 }, /found 65537/],
  [{ ...MINUTES, as_published: true }, /as_published is true or false, and for grr/],
  [{ ...DRINK, lifetime_epsilon: undefined }, /a service has no "study"/],
];

for (const [service, message] of WRONG) {
  test(`refused: ${message.source}`, () => {
    assert.throws(() => client(service), { name: "TypeError", message });
  });
}
