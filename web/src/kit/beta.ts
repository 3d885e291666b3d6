// The density of a Beta distribution: what is believed of a workflow's worth.
const COEFFICIENTS = [676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059, 12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7];

function logGamma(x: number): number {
  if (x < 0.5) return Math.log(Math.PI / Math.sin(Math.PI * x)) - logGamma(1 - x);
  const sum = COEFFICIENTS.reduce((total, coefficient, index) => total + coefficient / (x + index), 0.9999999999998099);
  const base = x + 6.5;
  return 0.5 * Math.log(2 * Math.PI) + (x - 0.5) * Math.log(base) - base + Math.log(sum);
}

/** Points of the density, from 0 to 1. */
export function density(alpha: number, beta: number, steps = 120): { x: number; y: number }[] {
  const scale = logGamma(alpha + beta) - logGamma(alpha) - logGamma(beta);
  const inside = (x: number) => Math.min(1 - 1e-6, Math.max(1e-6, x)); // at the ends a density may have no bound
  return Array.from({ length: steps + 1 }, (_, index) => index / steps).map((x) => ({ x, y: Math.exp(scale + (alpha - 1) * Math.log(inside(x)) + (beta - 1) * Math.log(1 - inside(x))) }));
}

export function mean(alpha: number, beta: number): number {
  return alpha / (alpha + beta);
}

/** The deviation around the mean. */
export function spread(alpha: number, beta: number): number {
  return Math.sqrt((alpha * beta) / ((alpha + beta) ** 2 * (alpha + beta + 1)));
}
