/** What clients send, as lines of JSON: standard input has services, each with its people and their values. */

import { readFileSync } from "node:fs";

import { client, line } from "../../clients/javascript/index.js";

for (const { service, people } of JSON.parse(readFileSync(0, "utf-8"))) {
  const perturb = client(service);
  for (const { value, draws, ...record } of people) {
    console.log(line({ ...record, payload: perturb(value, draws) }));
  }
}
