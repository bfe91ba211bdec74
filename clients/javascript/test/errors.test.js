/** No error says what a person's value, id or time is, nor what a device's key is: errors are logged and sent. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { client, line, report, turn } from "../index.js";

/** What no sentence may have, in whatever form it is given. */
const SECRET = "4242424242";
const FORMS = [
  SECRET,
  Number(SECRET),
  -Number(SECRET) - 0.5,
  BigInt(SECRET),
  Symbol(SECRET),
  [Number(SECRET)],
  { [SECRET]: SECRET },
  { jaws: SECRET },
  new Map([[SECRET, SECRET]]),
  new Uint8Array([42, 42, 42, 42, 42]),
  new Date(1000 * Number(SECRET)),
  new Error(SECRET),
  () => SECRET,
  Object(SECRET),
  SECRET.repeat(100),
  `${SECRET}\ud800`,
];
const KEY = new Uint8Array(16).fill(7);
const NAMES = { study: "s", attribute: "a", service: "v", lifetime_epsilon: 2, device_key: KEY };
const SERVICES = [
  { mechanism: "grr", domain: { categories: ["car", "bus"] } },
  { mechanism: "grr", domain: { categories: 3 } },
  { mechanism: "square_wave", domain: { numeric: [0, 1] } },
  { mechanism: "privkv", domain: { keys: ["jaws", "alien"], values: [0, 1] } },
  { mechanism: "laplace", domain: { coordinates: 3, values: [0, 1] } },
  { mechanism: "grr", domain: { categories: ["car", "bus"] }, ...NAMES },
  { mechanism: "square_wave", domain: { numeric: [0, 1] }, memo_buckets: 16, ...NAMES },
];
const PANEL = { study: "s", attribute: "a", size: 3_600_000, windows: 24 };

/** Each call that a program makes with what a person or a device has. */
const CALLS = {
  ...Object.fromEntries(
    SERVICES.map((service, n) => [`value of service ${n}`, (form) => report({ epsilon: 1, ...service }, form)]),
  ),
  "a value of a key": (form) => report({ epsilon: 1, ...SERVICES[3] }, { jaws: form }),
  "a coordinate": (form) => report({ epsilon: 1, ...SERVICES[4] }, [0, form, 0]),
  "device_key": (form) => client({ epsilon: 1, ...SERVICES[5], device_key: form }),
  ...Object.fromEntries(
    ["version", "study", "attribute", "service", "lifetime_epsilon", "as_published", "memo_buckets"].map((name) => [
      `what is no setting as ${name}`,
      (form) => client({ epsilon: 1, ...SERVICES[5], [name]: typeof form === "object" && !Array.isArray(form) ? form : null }),
    ]),
  ),
  "user_id of a line": (form) => line({ user_id: form, payload: 1 }),
  "event_time of a line": (form) => line({ user_id: "u", payload: 1, event_time: form }),
  "payload of a line": (form) => line({ user_id: "u", payload: form }),
  "group of a line": (form) => line({ user_id: "u", payload: 1, group: form }),
  "user_id of a turn": (form) => turn(PANEL, form, 0),
  "time of a turn": (form) => turn(PANEL, "u", form),
};

for (const [name, call] of Object.entries(CALLS)) {
  test(`no error repeats ${name}`, async () => {
    let refused = 0;
    for (const form of FORMS) {
      try {
        await call(form);
      } catch (error) {
        refused += 1;
        assert.equal(error.name, "TypeError", `${error.stack}`);
        assert.doesNotMatch(error.message, /4242|42,|"0":|2104|1970-0/, error.message);
      }
    }
    assert.ok(refused >= 4, `${refused} forms were refused`);
  });
}
