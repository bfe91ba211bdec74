/** Whose turn it is: of the windows of a period, a user answers one (docs/reports.md). */

import { joined } from "./bytes.js";
import { fieldsOf, subtle } from "./memos.js";

const PURPOSE = "ldpbeam panel 1";
const UUID = /^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$/i;

/** The bytes of a user id: those of a UUID, and else UTF-8. */
function bytesOf(user_id) {
  if (!UUID.test(user_id)) return new TextEncoder().encode(user_id);
  return Uint8Array.from(user_id.replaceAll("-", "").match(/../g), (digits) => parseInt(digits, 16));
}

/** The window that a user answers in the period of a time: when it begins and ends, in milliseconds since 1970. */
export async function turn({ study, attribute, size, windows }, user_id, time) {
  const period = Math.floor(Number(time) / (size * windows));
  if (!Number.isSafeInteger(period)) throw new TypeError("a turn needs the panel's size and windows, and a time");
  const text = joined(fieldsOf([PURPOSE, study, attribute, `${period}`]), bytesOf(user_id));
  const hash = new DataView(await subtle().digest("SHA-256", text)).getBigUint64(0);
  const begin = (period * windows + Number(hash % BigInt(windows))) * size;
  return [begin, begin + size];
}
