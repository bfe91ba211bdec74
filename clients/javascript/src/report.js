/** The report of a value to a service. */

import { better, ORACLES } from "./categories.js";
import { double, joined, words } from "./bytes.js";
import { checkKeys, readDomain, shown } from "./domains.js";
import { given, secure } from "./draws.js";
import { pckvGrr, pckvPm, pckvUe, privkv, privkvm } from "./keys.js";
import { gaussian, laplace } from "./noise.js";
import { matrix } from "./matrix.js";
import * as numbers from "./numbers.js";
import { readOptions } from "./options.js";
import { checkRemembering, remembering, REMEMBERED } from "./remembering.js";
import { binned, haar, hierarchy } from "./ranges.js";

const FOR_NUMBERS = {
  square_wave: numbers.squareWave,
  piecewise: numbers.piecewise,
  stochastic_rounding: numbers.stochasticRounding,
  hybrid: numbers.hybrid,
  laplace,
  gaussian,
  general_wave: numbers.generalWave,
  discrete_square_wave: numbers.discreteSquareWave,
  binned,
  hierarchy,
  haar,
};

/** The mechanisms by their names in a study, for each kind of domain. */
export const MECHANISMS = {
  numeric: FOR_NUMBERS,
  categories: { ...ORACLES, matrix },
  keys: { privkv, privkvm, pckv_grr: pckvGrr, pckv_ue: pckvUe, pckv_pm: pckvPm },
  coordinates: FOR_NUMBERS,
};

function mechanismOf({ mechanism, epsilon, options }, { kind, size }) {
  if (typeof epsilon !== "number" || !(epsilon > 1e-6 && epsilon <= 20)) {
    throw new TypeError(`epsilon must be a number above 1e-6 and at most 20, found ${shown(epsilon)}`);
  }
  const name = mechanism === "auto" && kind === "categories" ? better(size, epsilon) : mechanism;
  const known = MECHANISMS[kind];
  if (typeof name !== "string" || !Object.hasOwn(known, name)) {
    const names = Object.keys(known).join(", ");
    throw new TypeError(`unknown mechanism ${shown(name)}; for ${kind} there are: ${names}`);
  }
  return { ...known[name], chosen: readOptions(name, known[name].options, options) };
}

/** The last round's mean of each key, scaled to [0, 1]. */
function meansOf({ mechanism, options, means }, { size, scaled, low, high }) {
  if (means === undefined) return undefined;
  if (mechanism !== "privkvm" || !(options?.round > 1)) {
    throw new TypeError("means belong to privkvm from round 2 on");
  }
  if (!Array.isArray(means) || means.length !== size) {
    throw new TypeError(`means must be an array of ${size} numbers, in the order of the keys`);
  }
  return means.map((mean, k) => {
    const x = scaled(mean, `the mean of key ${k}`);
    if (mean < low || mean > high) {
      throw new TypeError(`the mean of key ${k} must be in [${low}, ${high}], found ${mean}`);
    }
    return x;
  });
}

/** The keys of every service. */
export const OF_SERVICE = ["mechanism", "epsilon", "domain", "options", "means"];

/** The report of one coordinate of a vector, after the coordinate's index. */
function onCoordinate(perturb, size, isWhole) {
  return (vector, draws) => {
    const c = Math.floor(size * draws.unit());
    const report = perturb(vector[c], draws);
    if (typeof report !== "number") return joined(words(c), report);
    return joined(words(c), isWhole ? words(report) : double(report));
  };
}

/**
 * The client of a service: a function that perturbs values.
 *
 * @param {object} service
 * @param {string} service.mechanism the mechanism's name in the study
 * @param {number} service.epsilon the budget of one report, above 1e-6 and at most 20
 * @param {object} service.domain the attribute's domain as in the study, such as `{ numeric: [0, 180] }`
 * @param {object} [service.options] the mechanism's options
 * @param {number[]} [service.means] the last round's mean of each key, for `privkvm` from round 2 on
 * @param {number} [service.lifetime_epsilon] where clients remember their noise: what all reports about one value
 *   reveal. It needs `device_key`, 16 random bytes or more that the device keeps and never sends, and the names
 *   `study`, `attribute`, `service` and `version` (if it has several); for numbers also `memo_buckets`
 * @returns {(value: any, draws?: number[]) => number | Uint8Array} a function from a value, in the domain's
 *   units and names, to a report's payload, or to a promise of it where clients remember their noise. The optional draws, numbers from [0, 1), are for tests only:
 *   without them the report draws from the operating system's secure source.
 * @throws {TypeError} for a service that no study could have; the function throws one for a value that does not
 *   belong to the domain.
 */
export function client(service) {
  if (typeof service !== "object" || service === null) {
    throw new TypeError("a service is an object with mechanism, epsilon and domain");
  }
  const remembers = service.lifetime_epsilon !== undefined;
  checkKeys(service, remembers ? [...OF_SERVICE, ...REMEMBERED] : OF_SERVICE, "a service");
  const domain = readDomain(service.domain);
  if (remembers) {
    const given = checkRemembering(service, domain);
    return remembering(given, domain, mechanismOf(given, domain).chosen);
  }
  const { make, chosen, whole } = mechanismOf(service, domain);
  const inner = make(service.epsilon, chosen, domain.size, meansOf(service, domain));
  const perturb = domain.kind === "coordinates" ? onCoordinate(inner, domain.size, whole) : inner;
  return (value, draws) => perturb(domain.read(value), draws === undefined ? secure : given(draws));
}

/** One report of a value to a service; for many values `client` computes the service's constants only once. */
export function report(service, value, draws) {
  return client(service)(value, draws);
}
