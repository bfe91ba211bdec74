/** Reports of bytes. */

/** Some 32-bit whole numbers, as four little-endian bytes each. */
export function words(...numbers) {
  const view = new DataView(new ArrayBuffer(4 * numbers.length));
  numbers.forEach((number, k) => view.setUint32(4 * k, number, true));
  return new Uint8Array(view.buffer);
}

/** A number, as the eight little-endian bytes of a double. */
export function double(number) {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, number, true);
  return new Uint8Array(view.buffer);
}

/** Bits, eight per byte, the first one lowest; zeros fill the last byte. */
export function packed(bits) {
  const bytes = new Uint8Array(Math.ceil(bits.length / 8));
  bits.forEach((bit, k) => {
    if (bit) bytes[k >> 3] |= 1 << (k & 7);
  });
  return bytes;
}

/** Several arrays of bytes, one after another. */
export function joined(...parts) {
  const bytes = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let start = 0;
  for (const part of parts) {
    bytes.set(part, start);
    start += part.length;
  }
  return bytes;
}

/** Two hexadecimal digits per byte. */
export function hexadecimal(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
