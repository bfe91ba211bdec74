/** What a device remembers, without storing it: a pseudo-random function of its key (docs/reports.md). */

import { hexadecimal, joined } from "./bytes.js";

const PURPOSE = "ldpbeam memo 1";
const utf8 = new TextEncoder();

function bigEndian(number) {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, number);
  return bytes;
}

/** Web Crypto of this page or program. */
export function subtle() {
  const found = globalThis.crypto?.subtle;
  if (!found) throw new TypeError("remembered noise and panels need Web Crypto, which pages over https have");
  return found;
}

/** The hash of a domain of categories or of numbers: 32 hexadecimal digits. */
async function domainHash({ categories, edges, numeric = edges && [edges[0], edges.at(-1)], step, scale = "" }) {
  const names = Number.isInteger(categories) ? Array.from({ length: categories }, (_, k) => `${k}`) : categories;
  const texts = numeric ? ["numeric"] : ["categories", ...names];
  const numbers = [...(numeric ?? []), ...(step === undefined ? [] : [step]), ...(edges ?? [])];
  const bytes = new DataView(new ArrayBuffer(8 * numbers.length));
  // Minus zero is zero.
  numbers.forEach((number, k) => bytes.setFloat64(8 * k, number + 0));
  const text = joined(utf8.encode(texts.map((each) => `${each}\0`).join("")), new Uint8Array(bytes.buffer), utf8.encode(scale));
  return hexadecimal(new Uint8Array(await subtle().digest("SHA-256", text))).slice(0, 32);
}

/** Some texts in UTF-8, each after its length. */
export function fieldsOf(texts) {
  return joined(...texts.map((text) => utf8.encode(text)).flatMap((field) => [bigEndian(field.length), field]));
}

/** The draws of one block: whole numbers below 2^53. */
function drawsIn(block) {
  const view = new DataView(block);
  return [0, 8, 16, 24].map(
    (at) => view.getUint32(at + 4, true) * 2 ** 21 + (view.getUint32(at, true) >>> 11),
  );
}

/**
 * The pseudo-random function of a device.
 *
 * @param {object} service with `device_key`, the names and the domain
 * @param {string} options the field of options
 * @param {number[]} constants those of the permanent step
 * @returns {(drawn: string, given: string, count: number) => Promise<number[]>} the first draws of what is drawn
 *   (`answer` or `seed`) for an input
 */
export function memosOf({ device_key, study, attribute, service, version, mechanism, domain }, options, constants) {
  let ready;
  async function prepared() {
    const hash = { name: "HMAC", hash: "SHA-256" };
    const key = await subtle().importKey("raw", device_key, hash, false, ["sign"]);
    const names = [study, attribute, service, version, mechanism];
    return { key, start: [PURPOSE, ...names, options, constants.join(","), await domainHash(domain)] };
  }
  return async (drawn, given, count) => {
    ready ??= prepared();
    const { key, start } = await ready;
    const text = fieldsOf([...start, drawn, given]);
    const blocks = Array.from({ length: Math.ceil(count / 4) }, (_, t) =>
      subtle().sign("HMAC", key, joined(text, bigEndian(t))),
    );
    return (await Promise.all(blocks)).flatMap(drawsIn).slice(0, count);
  };
}
