import { StartError } from '../control/start-error.ts';
import { WORKERS_PER_CORE } from './run-options.ts';

/**
 * @param cores CPUs that this process may use.
 * @param isForced `--force-workers`.
 * @throws StartError
 */
export function assertFewWorkers(workers: number, cores: number, isForced: boolean): void {
	const most = cores * WORKERS_PER_CORE;
	if (workers <= most || isForced) return;
	throw new StartError(
		`--workers: ${workers} are too many for ${cores} ${cores === 1 ? 'core' : 'cores'}; at most ${most} (${WORKERS_PER_CORE} a core), ` +
			'write auto for one per core, or add --force-workers',
	);
}
