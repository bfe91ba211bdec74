/** What the types take, and what they refuse: each line below "@ts-expect-error" must be an error. */

import { client, fromStudy, line, report, type Payload, type RememberedService, type Service } from "ldpbeam-client";

const maps = { mechanism: "square_wave", epsilon: 1, domain: { numeric: [0, 180] } } as const;
const payload: Payload = report(maps, 42);
const text: string = line({ user_id: "u", service: "maps", event_time: new Date(), city: "Kyoto", payload });

const services: Service[] = [
  maps,
  { mechanism: "gaussian", epsilon: 1, options: { delta: 1e-6 }, domain: { coordinates: 3, values: [0, 1] } },
  { mechanism: "olh", epsilon: 1, options: { seeds: "any" }, domain: { categories: ["car", "bus"] } },
  {
    mechanism: "privkvm",
    epsilon: 1,
    options: { round: 2 },
    means: [1, 5],
    domain: { keys: ["jaws", "alien"], values: [1, 5] },
  },
];
client({ mechanism: "square_wave", epsilon: 1, domain: { numeric: [0, 100], step: 1 } })(31);
client({ mechanism: "haar", epsilon: 1, domain: { coordinates: 2, values: [1, 5], step: 0.5 } })([1, 2]);
// @ts-expect-error categories have no step
client({ mechanism: "grr", epsilon: 1, domain: { categories: 5, step: 1 } });
const category = client({ mechanism: "auto", epsilon: 1, domain: { categories: 5 } });
const bytes: Payload = category(3);
client({ mechanism: "pckv_ue", epsilon: 1, domain: { keys: 2, values: [1, 5] } })({ 0: 4 });
client({ mechanism: "haar", epsilon: 1, domain: { coordinates: 2, values: [1, 5] } })([1, 2]);

const names = { study: "s", attribute: "x", service: "app", device_key: new Uint8Array(32) };
const remembered: RememberedService[] = [
  { mechanism: "oue", epsilon: 1, lifetime_epsilon: 2, domain: { categories: 5 }, ...names },
  { mechanism: "olh", epsilon: 1, lifetime_epsilon: 2, as_published: true, domain: { categories: 5 }, ...names },
];
const minutes = { mechanism: "piecewise", epsilon: 1, lifetime_epsilon: 2, domain: { numeric: [0, 180] } } as const;
const promised: Promise<Payload> = report({ ...minutes, memo_buckets: 64, ...names }, 42);

// @ts-expect-error no device key
report({ ...minutes, memo_buckets: 64, study: "s", attribute: "x", service: "app" }, 42);
// @ts-expect-error no memo buckets
report({ ...minutes, ...names }, 42);
// @ts-expect-error a promise of a payload
const early: Payload = report({ ...minutes, memo_buckets: 64, ...names }, 42);
// @ts-expect-error a number is no text
report(maps, "42");
// @ts-expect-error no such mechanism
client({ mechanism: "squarewave", epsilon: 1, domain: { numeric: [0, 1] } });
// @ts-expect-error a mechanism of categories
client({ mechanism: "grr", epsilon: 1, domain: { numeric: [0, 1] } });
// @ts-expect-error an option of another mechanism
client({ mechanism: "grr", epsilon: 1, options: { bins: 3 }, domain: { categories: 3 } });
// @ts-expect-error no epsilon
client({ mechanism: "grr", domain: { categories: 3 } });
// @ts-expect-error a vector has several numbers
client({ mechanism: "haar", epsilon: 1, domain: { coordinates: 2, values: [1, 5] } })(1);
// @ts-expect-error no user
line({ payload });
const ofNobody: string = line({ service: "maps", payload }, { users: "none" });
// @ts-expect-error a user of nobody
line({ user_id: "u", payload }, { users: "none" });
// @ts-expect-error there is no such word
line({ payload }, { users: "nobody" });
// @ts-expect-error no payload
line({ user_id: "u" });

export { bytes, early, promised, remembered, services, text };

const ofStudy = fromStudy({ clients: [] }, { attribute: "minutes", device_key: new Uint8Array(32) });
const either: Payload | Promise<Payload> = ofStudy.report({ jaws: 4 });
ofStudy.line({ user_id: "u", event_time: 1_790_000_000_000, city: "Kyoto", payload: await either });
ofStudy.line({ payload: 1 });
// @ts-expect-error no such name
fromStudy({}, { attributes: "minutes" });
// @ts-expect-error no payload
ofStudy.line({ user_id: "u" });
