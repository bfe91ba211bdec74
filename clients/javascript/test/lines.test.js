/** Lines of JSON. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { line } from "../index.js";

test("the lines of the document", () => {
  assert.equal(
    line({
      user_id: "u1",
      attribute: "minutes",
      service: "maps",
      event_time: "2026-11-20T11:00:00+01:00",
      payload: 0.73,
    }),
    '{"user_id":"u1","attribute":"minutes","service":"maps","event_time":"2026-11-20T10:00:00.000Z","payload":0.73}',
  );
  assert.equal(
    line({ user_id: "u1", attribute: "app", service: "olh", payload: Uint8Array.of(0xcc, 2, 0, 0, 2, 0, 0, 0) }),
    '{"user_id":"u1","attribute":"app","service":"olh","payload":"cc02000002000000"}',
  );
});

test("event times are dates, milliseconds or text with a zone", () => {
  const time = Date.UTC(2026, 10, 20, 10);
  assert.match(line({ user_id: "u", event_time: "2028-02-29T10:00:00Z", payload: 1 }), /"2028-02-29T10:00:00.000Z"/);
  for (const event_time of [time, new Date(time), "2026-11-20T10:00:00Z", "2026-11-20 05:00:00.000999999-05:00"]) {
    assert.match(line({ user_id: "u", event_time, payload: 1 }), /"event_time":"2026-11-20T10:00:00.000Z"/);
  }
});

test("texts have up to 256 bytes", () => {
  const longest = "\u00e9".repeat(128);
  const record = { user_id: longest, report_id: longest, region: longest, payload: 1 };
  assert.deepEqual(JSON.parse(line(record)), record);
});

test("a report of a study without users has no user id", () => {
  assert.equal(line({ attribute: "app", payload: 1 }, { users: "none" }), '{"attribute":"app","payload":1}');
  for (const user_id of ["u1", "", null, 7]) {
    assert.throws(() => line({ user_id, payload: 1 }, { users: "none" }), /^TypeError: user_id must be left out/);
  }
  assert.throws(() => line({ payload: 1 }, { users: "ids" }), /user_id must be text/);
  assert.throws(() => line({ payload: 1 }, { users: null }), /^TypeError: users must be "none", or be left out/);
});

const WRONG = [
  [{ user_id: "" }, /user_id must be text of 1 to 256 bytes/],
  [{ user_id: " \u200b\u00a0\0" }, /user_id must be text of 1 to 256 bytes, found text without a visible character$/],
  [{ user_id: 7 }, /user_id must be text of 1 to 256 bytes, found a number/],
  [{ user_id: 7n }, /user_id must be text of 1 to 256 bytes, found a bigint$/],
  [{ user_id: "a\ud800" }, /user_id must be text of 1 to 256 bytes, found text that is not Unicode$/],
  [{ region: "a\ud800" }, /region must be text, found text that is not Unicode$/],
  [{ user_id: "\u00e9".repeat(129) }, /user_id must be text of 1 to 256 bytes/],
  [{ event_time: 1763632800 }, /years 1990 to 2199, found a number; is it in milliseconds\?/],
  [{ event_time: "2026-11-20T10:00:00" }, /RFC 3339 with a zone, found text$/],
  [{ event_time: "yesterday" }, /RFC 3339 with a zone, found text$/],
  [{ event_time: "2026-02-30T10:00:00Z" }, /RFC 3339 with a zone, found text$/],
  [{ event_time: "2026-04-31T10:00:00+02:00" }, /RFC 3339 with a zone, found text$/],
  [{ event_time: "2026-04-30T24:00:00Z" }, /RFC 3339 with a zone, found text$/],
  [{ event_time: "2026-11-20T10:00:00.03203374205Z" }, /RFC 3339 with a zone, found text$/],
  [{ payload: NaN }, /payload must be what report returned, found NaN/],
  [{ payload: "cc02" }, /payload must be what report returned, found text$/],
  [{ attribute: 3 }, /attribute must be text, found a number/],
  [{ report_id: "i".repeat(257) }, /report_id must be text of at most 256 bytes, found 257 bytes/],
  [{ region: "\u00e9".repeat(129) }, /region must be text of at most 256 bytes, found 258 bytes/],
];

for (const [change, message] of WRONG) {
  test(`refused: ${message.source}`, () => {
    assert.throws(() => line({ user_id: "u", payload: 1, ...change }), message);
  });
}
