/** The clients of services with a lifetime epsilon, which remember their noise. */

import { packed, words } from "./bytes.js";
import { olhParts } from "./categories.js";
import { kindOf, shown } from "./domains.js";
import { given, secure } from "./draws.js";
import { memosOf } from "./memos.js";
import { halfWidth } from "./numbers.js";
import { cellSteps, instantFrom, oueSteps, signSteps, sueSteps, waveSteps } from "./steps.js";

/** The keys of a service whose clients remember their noise, besides those of every service. */
export const REMEMBERED = [
  "lifetime_epsilon",
  "as_published",
  "memo_buckets",
  "device_key",
  "study",
  "attribute",
  "service",
  "version",
];
const CATEGORIES = ["grr", "oue", "sue", "olh"];
const NUMBERS = ["stochastic_rounding", "square_wave", "piecewise"];

/** How many hash values OLOLOHA has (EDBT 2023, equation 6). */
function publishedHashes(lifetime, epsilon) {
  const [a, b] = [Math.exp(lifetime), Math.exp(epsilon)];
  const root = Math.sqrt(a ** 4 - 14 * a ** 2 - 12 * (a * b) ** 2 + 12 * a * b + 12 * a ** 3 * b + 1);
  return Math.max(2, Math.round((1 - a ** 2 + 6 * a - 6 * b + root) / (6 * (a - b))));
}

function checkKey(key) {
  if (!(key instanceof Uint8Array) || key.length < 16) {
    const found = key instanceof Uint8Array ? `${key.length} bytes` : kindOf(key);
    throw new TypeError(
      `device_key must be a Uint8Array of 16 random bytes or more, which the device keeps, found ${found}`,
    );
  }
}

/**
 * A service with all that its clients need to remember their noise.
 *
 * @throws {TypeError} for a service that no study could have, or without a device key.
 */
export function checkRemembering(service, { kind }) {
  const { mechanism, epsilon, lifetime_epsilon, as_published = false, memo_buckets, version = "" } = service;
  const known = { categories: CATEGORIES, numeric: NUMBERS }[kind] ?? [];
  if (!known.includes(mechanism)) {
    const names = [...CATEGORIES, ...NUMBERS].join(", ");
    throw new TypeError(`lifetime_epsilon is for ${names}, and not for ${shown(mechanism)} of ${kind}`);
  }
  if (!(typeof lifetime_epsilon === "number" && lifetime_epsilon > epsilon && lifetime_epsilon <= 20)) {
    const found = shown(lifetime_epsilon);
    throw new TypeError(`lifetime_epsilon must be above epsilon (${epsilon}) and at most 20, found ${found}`);
  }
  if (typeof as_published !== "boolean" || (as_published && kind === "numeric")) {
    throw new TypeError("as_published is true or false, and for grr, olh, oue and sue");
  }
  const fits = Number.isInteger(memo_buckets) && memo_buckets >= 2 && memo_buckets <= 65_536;
  if (kind === "numeric" ? !fits : memo_buckets !== undefined) {
    const found = shown(memo_buckets);
    throw new TypeError(`memo_buckets is for numbers, a whole number from 2 to 65536 as in the study, found ${found}`);
  }
  for (const name of ["study", "attribute", "service"]) {
    if (typeof service[name] !== "string" || service[name] === "") {
      const found = kindOf(service[name]);
      throw new TypeError(`${name} must be its name in the study, as lifetime_epsilon needs it, found ${found}`);
    }
  }
  if (typeof version !== "string") throw new TypeError(`version must be text, found ${kindOf(version)}`);
  checkKey(service.device_key);
  const released =
    as_published && mechanism === "olh"
      ? { seeds: "any", hashed: "text", hashes: publishedHashes(lifetime_epsilon, epsilon) }
      : {};
  const device_key = service.device_key.slice();
  return { ...service, as_published, version, device_key, options: { ...released, ...service.options } };
}

/** Both steps of a client that answers from an input itself. */
function answering(service, steps, inputOf, reportOf) {
  const memos = memosOf(service, "", steps.constants);
  return async (x, draws) => {
    const input = inputOf(x);
    const permanent = steps.permanent(input, await memos("answer", `${input}`, steps.draws));
    return reportOf(permanent.map((answer) => instantFrom(steps, answer, draws.whole())));
  };
}

/** The same for `olh`, whose device has one seed for life. */
function hashing(service, size, options) {
  const { hashes, family, hash } = olhParts(service.epsilon, options, size);
  const steps = cellSteps(service, hashes);
  const memos = memosOf(service, `${family === 2 ** 32 ? "any" : family},${options.hashed}`, steps.constants);
  return async (k, draws) => {
    const [first] = await memos("seed", "", 1);
    const seed = first % family;
    const h = hash(k, seed);
    const [permanent] = steps.permanent(h, await memos("answer", `${h}`, 1));
    return words(seed, instantFrom(steps, permanent, draws.whole()));
  };
}

function perturbing(service, { size, values }, options) {
  const { mechanism, epsilon, lifetime_epsilon, memo_buckets: buckets } = service;
  const itself = (k) => k;
  const bucket = (x) => (values ? Math.round(x * (values - 1)) : Math.min(Math.floor(buckets * x), buckets - 1));
  switch (mechanism) {
    case "grr":
      return answering(service, cellSteps(service, size), itself, ([answer]) => answer);
    case "olh":
      return hashing(service, size, options);
    case "oue":
      return answering(service, oueSteps(service, size), itself, packed);
    case "sue":
      return answering(service, sueSteps(service, size), itself, packed);
    case "stochastic_rounding": {
      const bound = 1 / Math.tanh(epsilon / 2);
      return answering(service, signSteps(service, values), bucket, ([sign]) => (sign ? bound : -bound));
    }
    default: {
      const piecewise = mechanism === "piecewise";
      const b = piecewise ? 0.5 * Math.exp(-lifetime_epsilon / 2) : halfWidth(lifetime_epsilon);
      const middle = ([answer]) => -b + (answer + 0.5) * ((1 + 2 * b) / buckets);
      return answering(service, waveSteps(service, values), bucket, middle);
    }
  }
}

/**
 * The client of a service with a lifetime epsilon: a function from a value to a promise of a report's payload.
 *
 * The optional draws of that function are those of the instant step, for tests only.
 */
export function remembering(service, domain, options) {
  const perturb = perturbing(service, domain, options);
  return async (value, draws) => perturb(domain.read(value), draws === undefined ? secure : given(draws));
}
