/** A client of ldpbeam: it perturbs a value on the device, and writes the report as a line of JSON. */

export { client, report } from "./src/report.js";
export { turn } from "./src/panels.js";
export { line } from "./src/lines.js";
export { fromStudy } from "./src/study.js";
