/** The clients of a study. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { fromStudy, report } from "../index.js";

const minutes = {
  study: "commute",
  attribute: "minutes",
  service: "maps",
  mechanism: "square_wave",
  epsilon: 1,
  options: {},
  domain: { numeric: [0, 180] },
  users: "ids",
  fields: { attribute: "minutes", service: "maps", app: "2" },
  needs: ["event_time", "region"],
};
const code = {
  ...minutes,
  attribute: "code",
  mechanism: "grr",
  domain: { categories: 3 },
  users: "none",
  fields: { attribute: "code", service: "maps" },
  needs: [],
};
const study = { study: "commute", sentences: [], clients: [minutes, code] };

test("a client of a study perturbs as one of its service, and writes its names", () => {
  const { mechanism, epsilon, domain } = minutes;
  const maps = fromStudy(study, { attribute: "minutes" });
  const payload = maps.report(42, [0.2, 0.7]);
  assert.equal(payload, report({ mechanism, epsilon, domain }, 42, [0.2, 0.7]));
  assert.equal(
    maps.line({ user_id: "u1", event_time: "2026-11-20T10:00:00Z", region: "north", payload: 1 }),
    '{"user_id":"u1","attribute":"minutes","service":"maps","app":"2","region":"north",' +
      '"event_time":"2026-11-20T10:00:00.000Z","payload":1}',
  );
  assert.equal(
    fromStudy(study, { attribute: "code" }).line({ payload: 1, service: undefined, attribute: "minutes" }),
    '{"attribute":"code","service":"maps","payload":1}',
  );
});

test("one that remembers needs a device key, and its promise is of the study's names", async () => {
  const remembered = { ...minutes, lifetime_epsilon: 2, memo_buckets: 64 };
  const of = { clients: [remembered] };
  assert.throws(() => fromStudy(of), /device_key must be/);
  const device_key = new Uint8Array(32);
  const { users, fields, needs, ...service } = remembered;
  assert.equal(
    await fromStudy(of, { device_key }).report(42, [0.2, 0.7, 0.1]),
    await report({ ...service, device_key }, 42, [0.2, 0.7, 0.1]),
  );
});

for (const [what, known, of, said] of [
  ["text", '{"clients": []}', {}, /explain --json prints, parsed; found text/],
  ["nothing", undefined, {}, /found undefined/],
  ["a study file", { attributes: {} }, {}, /found an object/],
  ["nothing in place of a client", { clients: [null] }, {}, /explain --json prints, parsed; found an object/],
  ["two clients", study, {}, /^TypeError: 2 clients .* attribute "minutes", service "maps"; attribute "code"/],
  ["another name", study, { attribute: "hours" }, /^TypeError: 0 clients/],
]) {
  test(`no client is made of ${what}`, () => {
    assert.throws(() => fromStudy(known, of), said);
  });
}

test("a report has what the study needs", () => {
  const maps = fromStudy(study, { attribute: "minutes" });
  assert.throws(() => maps.line({ user_id: "u1", payload: 1 }), /needs event_time and region in each report/);
  assert.throws(() => fromStudy(study, { attribute: "code" }).line({ user_id: "u1", payload: 1 }), /users: none/);
});
