/** The clients of a study, from what `ldpbeam explain --json` says of it. */

import { kindOf } from "./domains.js";
import { line } from "./lines.js";
import { REMEMBERED } from "./remembering.js";
import { client, OF_SERVICE } from "./report.js";

const NAMES = ["attribute", "service", "version"];

function chosen(from, names) {
  return Object.fromEntries(names.filter((name) => from[name] !== undefined).map((name) => [name, from[name]]));
}

/** What tells a client from the others, such as `service "maps"`. */
function named(known) {
  return NAMES.filter((name) => known[name] !== undefined)
    .map((name) => `${name} "${known[name]}"`)
    .join(", ");
}

/**
 * The client of one service of a study.
 *
 * @param {object} study the JSON that `ldpbeam explain --study FILE --json` prints
 * @param {object} [of] which client, where there are several: `attribute`, `service` and `version`; the
 *   `device_key` of a client that remembers its noise; the `means` of `privkvm` from round 2 on
 * @returns {{ report: (value: any) => any, line: (record: object) => string }} `report` perturbs a value as
 *   `client` does; `line` writes the report, with the names of the attribute, the service and the version
 * @throws {TypeError} for anything else than a study, and where not exactly one client is meant; `line` throws
 *   one where a field is missing that the study needs.
 */
export function fromStudy(study, { device_key, means, ...of } = {}) {
  if (!Array.isArray(study?.clients) || study.clients.some((known) => typeof (known ?? 0) !== "object")) {
    throw new TypeError(`a study is what ldpbeam explain --json prints, parsed; found ${kindOf(study)}`);
  }
  const meant = study.clients.filter((known) => Object.entries(of).every(([name, is]) => known[name] === is));
  if (meant.length !== 1) {
    const known = study.clients.map((each) => named(each)).join("; ");
    throw new TypeError(`${meant.length} clients of the study are meant; name one of: ${known}`);
  }
  const [known] = meant;
  const remembers = known.lifetime_epsilon !== undefined;
  const keys = remembers ? [...OF_SERVICE, ...REMEMBERED] : OF_SERVICE;
  const service = chosen({ ...known, device_key, means }, keys);
  return {
    report: client(service),
    line(record) {
      // A record that has these names, or has them undefined, does not change whose report it is.
      const whole = { ...known.fields, ...record, ...known.fields };
      const missing = known.needs.filter((name) => whole[name] === undefined);
      if (missing.length > 0) throw new TypeError(`the study needs ${missing.join(" and ")} in each report`);
      return line(whole, { users: known.users });
    },
  };
}
