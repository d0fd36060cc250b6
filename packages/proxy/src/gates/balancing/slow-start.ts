/** The part of its weight that a just recovered address gets: above 0, or it would never warm up. */
const LEAST = 0.1;

/**
 * The part of its weight that an address gets: it grows linearly while its caches and its pool of connections fill.
 *
 * @param ageMs time since it recovered.
 * @param slowStartMs 0: it gets its full weight at once.
 * @returns from `LEAST` to 1.
 */
export function warmth(ageMs: number, slowStartMs: number): number {
	if (ageMs >= slowStartMs) return 1;
	return Math.max(LEAST, ageMs / slowStartMs);
}
