/** Reports as lines of JSON, as `ldpbeam estimate` and `ldpbeam stream` read them. */

import { hexadecimal } from "./bytes.js";
import { kindOf } from "./domains.js";

/** The most bytes of a text. */
const LONGEST = 256;
/** 1990 and 2200: event times outside are a mistake. */
const [EARLIEST, LATEST] = [Date.UTC(1990, 0, 1), Date.UTC(2200, 0, 1)];
/** Text of which no character can be seen, which ldpbeam takes for a missing id. */
const BLANK = /^[\p{Z}\p{Cc}\p{Cf}]+$/u;
/** With more digits of a second, V8 forgets zeros after the point. */
const ZONED = /^\d{4}-\d\d-\d\d[Tt ]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)$/;

function bytesOf(text) {
  return new TextEncoder().encode(text).length;
}

function userId(id) {
  const length = typeof id === "string" && id.isWellFormed() ? bytesOf(id) : 0;
  const blank = length > 0 && BLANK.test(id);
  if (length < 1 || length > LONGEST || blank) {
    const kind = blank ? "text without a visible character" : kindOf(id);
    const found = length > LONGEST ? `${length} bytes` : kind;
    throw new TypeError(`user_id must be text of 1 to ${LONGEST} bytes, found ${found}`);
  }
  return id;
}

function checkText(name, text) {
  if (typeof text !== "string" || !text.isWellFormed()) {
    throw new TypeError(`${name} must be text, found ${kindOf(text)}`);
  }
  if (bytesOf(text) > LONGEST) {
    throw new TypeError(`${name} must be text of at most ${LONGEST} bytes, found ${bytesOf(text)} bytes`);
  }
}

function momentOf(text) {
  // V8 takes 30 February for 2 March.
  const day = new Date(`${text.slice(0, 10)}T00:00:00Z`).getUTCDate();
  return ZONED.test(text) && day === Number(text.slice(8, 10)) ? Date.parse(text) : NaN;
}

function eventTime(time) {
  const found = kindOf(time);
  let milliseconds = time;
  if (time instanceof Date) milliseconds = time.getTime();
  if (typeof time === "string") milliseconds = momentOf(time);
  if (!Number.isFinite(milliseconds)) {
    throw new TypeError(
      `event_time must be a Date, milliseconds since 1970, or RFC 3339 with a zone, found ${found}`,
    );
  }
  if (milliseconds < EARLIEST || milliseconds >= LATEST) {
    const hint = typeof time === "number" ? "; is it in milliseconds?" : "";
    throw new TypeError(`event_time must be in the years 1990 to 2199, found ${found}${hint}`);
  }
  return new Date(milliseconds).toISOString();
}

function payloadOf(payload) {
  if (payload instanceof Uint8Array) return hexadecimal(payload);
  if (typeof payload === "number" && Number.isFinite(payload)) return payload;
  throw new TypeError(`payload must be what report returned, found ${kindOf(payload)}`);
}

/**
 * A report as one line of JSON, without the line's end.
 *
 * @param {object} record
 * @param {string} [record.user_id] 1 to 256 bytes; where reports have users
 * @param {number | Uint8Array} record.payload what `report` returned
 * @param {Date | number | string} [record.event_time] where the study has windows or versions by time
 * @param {string} [record.attribute] at most 256 bytes; likewise `service`, `report_id`, and the study's group
 *   and version fields
 * @param {object} [study]
 * @param {"none"} [study.users] where the study, or the attribute, has `users: none`: the report then has no user_id
 * @throws {TypeError} for a field that ldpbeam would refuse.
 */
export function line({ user_id, payload, event_time, ...others }, { users = "ids" } = {}) {
  if (users !== "ids" && users !== "none") {
    throw new TypeError(`users must be "none", or be left out, found ${kindOf(users)}`);
  }
  if (users === "none" && user_id !== undefined) {
    throw new TypeError("user_id must be left out, because the study has users: none");
  }
  for (const [name, text] of Object.entries(others)) {
    if (text !== undefined) checkText(name, text);
  }
  const time = event_time === undefined ? {} : { event_time: eventTime(event_time) };
  const user = users === "none" ? {} : { user_id: userId(user_id) };
  return JSON.stringify({ ...user, ...others, ...time, payload: payloadOf(payload) });
}
