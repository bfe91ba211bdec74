/** Whose turn it is: of the windows of a period, a user answers one (docs/reports.md). */

import { joined } from "./bytes.js";
import { kindOf, shown } from "./domains.js";
import { fieldsOf, subtle } from "./memos.js";

const PURPOSE = "ldpbeam panel 1";
const DIGITS = "([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32})";
const UUID = new RegExp(`^(urn:uuid:)?${DIGITS}$|^[{]${DIGITS}[}]$`, "i");

/** The bytes of a user id: those of a UUID, and else UTF-8. */
function bytesOf(user_id) {
  if (user_id instanceof Uint8Array && user_id.length === 16) return user_id;
  if (typeof user_id !== "string" || user_id === "") {
    throw new TypeError(`user_id must be text, or the 16 bytes of a UUID, found ${kindOf(user_id)}`);
  }
  if (!UUID.test(user_id)) return new TextEncoder().encode(user_id);
  const digits = user_id.replace(/^urn:uuid:|[{}-]/gi, "");
  return Uint8Array.from(digits.match(/../g), (two) => parseInt(two, 16));
}

function check({ study, attribute, size, windows }) {
  for (const [name, text] of Object.entries({ study, attribute })) {
    if (typeof text !== "string" || text === "") {
      throw new TypeError(`${name} of a panel must be its name in the study, found ${kindOf(text)}`);
    }
  }
  if (!Number.isSafeInteger(size) || size < 1) {
    throw new TypeError(`size of a panel must be the milliseconds of a window, found ${shown(size)}`);
  }
  if (!Number.isSafeInteger(windows) || windows < 2) {
    throw new TypeError(`windows of a panel must be a whole number from 2 up, found ${shown(windows)}`);
  }
}

/**
 * The window that a user answers in the period of a time: when it begins and ends, in milliseconds since 1970.
 *
 * @throws {TypeError} for a panel that no study has, an id that is neither text nor 16 bytes, and no time.
 */
export async function turn(panel, user_id, time) {
  check(panel);
  const milliseconds = time instanceof Date ? time.getTime() : time;
  if (!Number.isFinite(milliseconds)) {
    throw new TypeError(`time must be a Date, or milliseconds since 1970, found ${kindOf(time)}`);
  }
  const { study, attribute, size, windows } = panel;
  const period = Math.floor(milliseconds / (size * windows));
  const text = joined(fieldsOf([PURPOSE, study, attribute, `${period}`]), bytesOf(user_id));
  const hash = new DataView(await subtle().digest("SHA-256", text)).getBigUint64(0);
  const begin = (period * windows + Number(hash % BigInt(windows))) * size;
  return [begin, begin + size];
}
