import type { HealthSettings } from '../../config/config.ts';

/** Consecutive verdicts of one kind. */
export interface VerdictCount {
	readonly healthy: boolean;
	readonly count: number;
	/** There are enough of them to take effect. */
	readonly isEnough: boolean;
}

/**
 * Counts one more verdict. The very first one takes effect at once, because nothing else is known about the upstream. After that it
 * takes as many consecutive ones as the settings require.
 *
 * @param before `undefined`: there was none.
 */
export function countVerdict(
	before: VerdictCount | undefined,
	healthy: boolean,
	{ unhealthyAfter, healthyAfter }: Pick<HealthSettings, 'unhealthyAfter' | 'healthyAfter'>,
): VerdictCount {
	const wanted = healthy ? healthyAfter : unhealthyAfter;
	const count = before === undefined ? wanted : before.healthy === healthy ? Math.min(before.count + 1, wanted) : 1;
	return { healthy, count, isEnough: count >= wanted };
}
