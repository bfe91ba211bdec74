/** The deviation of the Gaussian mechanism. */

const LOG_ROOT_2_PI = Math.log(2 * Math.PI) / 2;

/** The probability that a normal number is above x, from 0 on, divided by the density there (Mills' ratio). */
function millsRatio(x) {
  if (x < 3) {
    // The series of the probability between 0 and x, divided by the density: x + x^3/3 + x^5/15 + ...
    let [sum, term] = [0, x];
    for (let k = 3; sum + term !== sum; k += 2) {
      sum += term;
      term *= (x * x) / k;
    }
    return Math.exp((x * x) / 2 + LOG_ROOT_2_PI) / 2 - sum;
  }
  // Laplace's continued fraction 1/(x + 1/(x + 2/(x + 3/(x + ...)))), from its far end.
  let rest = x;
  for (let k = 200; k > 0; k -= 1) rest = x + k / rest;
  return 1 / rest;
}

/** The logarithm of the normal distribution function Phi. */
export function logPhi(x) {
  const tail = Math.log(millsRatio(Math.abs(x))) - (x * x) / 2 - LOG_ROOT_2_PI;
  return x < 0 ? tail : Math.log1p(-Math.exp(tail));
}

/** The least delta at which a deviation on [-1, 1] is (epsilon, delta)-private (Balle and Wang, 2018). */
export function leastDelta(sigma, epsilon) {
  const shift = (epsilon * sigma) / 2;
  const [above, below] = [logPhi(1 / sigma - shift), logPhi(-1 / sigma - shift)];
  return Math.exp(above) * -Math.expm1(epsilon + below - above);
}

/** The least deviation on [-1, 1] that is (epsilon, delta)-private, to the last digits of doubles. */
export function analyticSigma(epsilon, delta) {
  // As much noise as the upper end suffices even at epsilon 0.
  let [low, high] = [Math.log(1e-3), -Math.log(delta)];
  for (;;) {
    const middle = (low + high) / 2;
    if (middle <= low || middle >= high) return Math.exp(high);
    if (leastDelta(Math.exp(middle), epsilon) > delta) low = middle;
    else high = middle;
  }
}

/** The deviation that is proven for epsilon up to 1 only (Dwork and Roth, 2014). */
export function classicalSigma(epsilon, delta) {
  return (2 * Math.sqrt(2 * Math.log(1.25 / delta))) / epsilon;
}
