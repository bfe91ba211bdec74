/** Any channel for categories, as a table of P(report | value), and the designs of surveys as such tables. */

import { shown } from "./domains.js";
import { oneOf, orNull, whole } from "./options.js";

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

/** How many numbers p has in each design. */
const DESIGNS = { warner: () => 1, crosswise: () => 1, forced_response: (size) => size, kuk: () => 2, unrelated: () => 2 };

/** C(n, k). */
function ways(n, k) {
  let many = 1;
  for (let i = 1; i <= k; i += 1) many = (many * (n - k + i)) / i;
  return Math.round(many);
}

function tableOf({ table, design, p, draws }, size) {
  if ((table === null) === (design === null) || (p === null) !== (design === null)) {
    throw new TypeError("give matrix a table, or a design with its p");
  }
  if (table !== null) {
    if (!(table.length > 1 && table.every((row) => Array.isArray(row) && row.length === size && row.every(isNumber)))) {
      throw new TypeError(`table must have a list for each report, with ${size} numbers, found ${shown(table)}`);
    }
    return table;
  }
  const given = Array.isArray(p) ? p : [p];
  const sum = given.reduce((total, part) => total + part, 0);
  const fits = given.length === DESIGNS[design](size) && given.every((part) => isNumber(part) && part > 0 && part < 1);
  if (!fits || (design === "forced_response" ? sum >= 1 : size !== 2)) {
    throw new TypeError(`p of ${design} does not fit ${size} categories, found ${shown(p)}`);
  }
  if (design === "forced_response") return given.map((part, r) => given.map((_, k) => part + (r === k ? 1 - sum : 0)));
  if (design === "kuk") {
    const red = Array.from({ length: draws + 1 }, (_, r) => r);
    return red.map((r) => given.map((part) => ways(draws, r) * part ** r * (1 - part) ** (draws - r)));
  }
  const [first, last] = [given[0], given.at(-1)];
  const yes = design === "unrelated" ? [first + (1 - first) * last, (1 - first) * last] : [first, 1 - first];
  return [yes, yes.map((part) => 1 - part)];
}

/** Whether the columns of a table are independent: Gauss's elimination with the greatest pivots. */
function tellsApart(table, size) {
  const rows = table.map((row) => [...row]);
  for (let k = 0; k < size; k += 1) {
    const pivot = rows.slice(k).reduce((best, row, i) => (Math.abs(row[k]) > Math.abs(rows[best][k]) ? k + i : best), k);
    if (k >= rows.length || Math.abs(rows[pivot][k]) < 1e-9) return false;
    [rows[k], rows[pivot]] = [rows[pivot], rows[k]];
    for (const row of rows.slice(k + 1)) {
      const factor = row[k] / rows[k][k];
      for (let j = k; j < size; j += 1) row[j] -= factor * rows[k][j];
    }
  }
  return true;
}

/** See that a table has about this epsilon, and tells all values apart. */
function checkTable(table, size, epsilon) {
  const columns = Array.from({ length: size }, (_, k) => table.map((row) => row[k]));
  const sums = columns.map((column) => column.reduce((total, part) => total + part, 0));
  if (!table.flat().every((part) => part > 0 && part <= 1) || sums.some((sum) => Math.abs(sum - 1) > 1e-6)) {
    throw new TypeError("a table has probabilities above 0, and those of each category sum to 1");
  }
  const actual = Math.log(Math.max(...table.map((row) => Math.max(...row) / Math.min(...row))));
  if (!tellsApart(table, size)) throw new TypeError("the reports of this table do not tell all categories apart");
  if (Math.abs(actual - epsilon) > 5e-3 * epsilon) {
    throw new TypeError(`the epsilon of this table is ${actual}, found ${epsilon}`);
  }
}

const list = { fallback: null, fits: (value) => value === null || Array.isArray(value), words: "a list" };

export const matrix = {
  options: {
    table: list,
    design: orNull(oneOf(null, ...Object.keys(DESIGNS))),
    p: { fallback: null, fits: (value) => list.fits(value) || isNumber(value), words: "a number or a list" },
    draws: whole(1, 1, 64),
    surveyed: { fallback: null, fits: (value) => value === null || (Number.isInteger(value) && value > 1), words: "2 or more people" },
  },
  whole: true,
  make(epsilon, options, size) {
    const table = tableOf(options, size);
    checkTable(table, size, epsilon);
    if (options.surveyed !== null && options.design !== "unrelated") {
      throw new TypeError("surveyed goes with the design unrelated");
    }
    return (k, draws) => {
      const drawn = draws.unit();
      let below = 0;
      const report = table.findIndex((row) => drawn < (below += row[k]));
      return report < 0 ? table.length - 1 : report;
    };
  },
};
