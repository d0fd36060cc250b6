/** An address that has just come back gets this part of its weight: something, or it would never get warm. */
const LEAST = 0.1;

/**
 * The part of its weight that an address is to get: it grows in a line while its caches and its pool of connections fill.
 *
 * @param ageMs since it has come back.
 * @param slowStartMs 0: it gets all of it at once.
 * @returns from `LEAST` to 1.
 */
export function warmth(ageMs: number, slowStartMs: number): number {
	if (ageMs >= slowStartMs) return 1;
	return Math.max(LEAST, ageMs / slowStartMs);
}
