/** What clients that remember their noise send for test vectors: standard input has them, each without its report. */

import { readFileSync } from "node:fs";

import { report } from "../../clients/javascript/index.js";

const written = [];
for (const { value, draws, device_key, ...service } of JSON.parse(readFileSync(0, "utf-8"))) {
  const { categories } = service.domain;
  const named = Array.isArray(categories) ? categories[value] : value;
  const key = Uint8Array.from(Buffer.from(device_key, "hex"));
  const payload = await report({ ...service, device_key: key }, named, draws);
  const bytes = payload instanceof Uint8Array;
  written.push(bytes ? Buffer.from(payload).toString("hex") : Number(payload.toPrecision(12)));
}
console.log(JSON.stringify(written));
