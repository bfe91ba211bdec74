/** XXH32 (Collet, https://github.com/Cyan4973/xxHash) of fewer than sixteen bytes. */

const [P1, P2, P3, P4, P5] = [2654435761, 2246822519, 3266489917, 668265263, 374761393];

function rotated(number, bits) {
  return (number << bits) | (number >>> (32 - bits));
}

/**
 * The hash of some bytes, a whole number below 2^32.
 *
 * @param {Uint8Array} bytes fewer than sixteen: longer input has another beginning, and no index is as long
 * @param {number} seed a whole number below 2^32
 */
export function xxh32(bytes, seed) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  let h = seed + P5 + bytes.length;
  let at = 0;
  for (; at + 4 <= bytes.length; at += 4) {
    h = Math.imul(rotated(h + Math.imul(view.getUint32(at, true), P3), 17), P4);
  }
  for (; at < bytes.length; at += 1) {
    h = Math.imul(rotated(h + Math.imul(bytes[at], P5), 11), P1);
  }
  h = Math.imul(h ^ (h >>> 15), P2);
  h = Math.imul(h ^ (h >>> 13), P3);
  return (h ^ (h >>> 16)) >>> 0;
}
