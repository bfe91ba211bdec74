/** Whose turn it is: every form of a UUID, and what no panel, user or time is. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { turn } from "../index.js";

const panel = { study: "tea", attribute: "drink", size: 3_600_000, windows: 24 };
const uuid = "3f2504e0-4f89-41d3-9a0c-0305e82c3301";
const bytes = Uint8Array.from(uuid.replaceAll("-", "").match(/../g), (digits) => parseInt(digits, 16));
const time = Date.UTC(2026, 10, 20);

test("every form of a UUID has the turn that docs/reports.md says", async () => {
  const begin = time + 21 * panel.size;
  const digits = uuid.replaceAll("-", "");
  const forms = [uuid, digits, `{${uuid}}`, `{${digits}}`, `urn:uuid:${uuid}`];
  for (const id of [...forms, ...forms.map((form) => form.toUpperCase()), bytes]) {
    for (const when of [time, new Date(time)]) {
      assert.deepEqual(await turn(panel, id, when), [begin, begin + panel.size]);
    }
  }
});

test("what is no panel, user or time has no turn", async () => {
  const mistakes = [
    [{ windows: 1 }, uuid, time, "windows of a panel must be a whole number from 2 up, found 1"],
    [{ windows: 1.5 }, uuid, time, "windows of a panel must"],
    [{ windows: "24" }, uuid, time, "windows of a panel must"],
    [{ size: "1h" }, uuid, time, 'size of a panel must be the milliseconds of a window, found "1h"'],
    [{ size: 0 }, uuid, time, "size of a panel must"],
    [{ study: undefined }, uuid, time, "study of a panel must be its name in the study, found undefined"],
    [{ attribute: "" }, uuid, time, "attribute of a panel must"],
    [{}, undefined, time, "user_id must be text, or the 16 bytes of a UUID, found undefined"],
    [{}, 7, time, "user_id must be text"],
    [{}, "", time, "user_id must be text"],
    [{}, bytes.slice(1), time, "user_id must be text"],
    [{}, uuid, undefined, "time must be a Date, or milliseconds since 1970, found undefined"],
    [{}, uuid, "2026-11-20T00:00:00Z", "time must be a Date"],
    [{}, uuid, new Date(NaN), "time must be a Date"],
  ];
  for (const [other, id, when, message] of mistakes) {
    await assert.rejects(turn({ ...panel, ...other }, id, when), (error) => {
      assert(error instanceof TypeError);
      assert(error.message.startsWith(message), error.message);
      return true;
    });
  }
});
