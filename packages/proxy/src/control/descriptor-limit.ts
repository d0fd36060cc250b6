import { readFileSync } from 'node:fs';
import { StartError } from './start-error.ts';

/** Descriptors that are not for clients: standard streams, Node's own, files being read, scrapes, probes. */
const RESERVED = 256;
/** And for each worker: its listener, its event loop, its share of probes. */
const RESERVED_PER_WORKER = 32;
/** Used if the system sets no limit: memory runs out long before this. */
const UNLIMITED = 1_000_000;
/** Fewer connections than this are not even enough for tests. */
const LEAST = 16;

/**
 * How many client connections the process may hold if `max_connections` is not set: each may need one to an
 * upstream as well.
 *
 * @param openFiles soft open-file limit, `Infinity` for none.
 */
export function connectionsFor(openFiles: number, workers: number): number {
	const forConnections = Math.min(openFiles, UNLIMITED) - RESERVED - RESERVED_PER_WORKER * workers;
	return Math.max(LEAST, Math.floor(forConnections / 2));
}

/** Descriptors of the main thread at its start, with one file, one probe and one scrape: counted, and rounded up. */
const LEAST_OPEN_FILES = 32;
/** Descriptors of each worker's event loop and listener. */
const LEAST_PER_WORKER = 8;

/**
 * Without descriptors Node and its threads fail in many ways, some of them silent, so this check comes first.
 *
 * @throws StartError if the process could not start, or could not serve a single request.
 */
export function assertEnoughFiles(openFiles: number, workers: number): void {
	const least = LEAST_OPEN_FILES + LEAST_PER_WORKER * workers;
	if (openFiles >= least) return;
	throw new StartError(
		`the open-file limit is ${openFiles}, and with ${workers} ${workers === 1 ? 'worker' : 'workers'} the proxy needs ` +
			`at least ${least}; raise it (ulimit -n, LimitNOFILE)`,
	);
}

/** The soft open-file limit that this process runs under. Node has raised it to the hard one at its start. */
export function openFilesLimit(): number {
	try {
		return parseProcLimits(readFileSync('/proc/self/limits', 'utf8'));
	} catch {
		return fromReport();
	}
}

/** @param text of `/proc/self/limits`: name, soft limit, hard limit, unit. Exported for its tests. */
export function parseProcLimits(text: string): number {
	const soft = /^Max open files\s+(\S+)/m.exec(text)?.[1];
	if (soft === undefined) throw new Error('no such line');
	return soft === 'unlimited' ? Number.POSITIVE_INFINITY : Number(soft);
}

/** For systems without `/proc`: the limit in Node's diagnostic report. */
function fromReport(): number {
	// Otherwise the report looks up the names of all peers, which can take as long as the name server wants.
	Object.assign(process.report, { excludeNetwork: true });
	const { userLimits } = process.report.getReport() as { userLimits?: { open_files?: { soft?: number | string } } };
	const soft = userLimits?.open_files?.soft;
	return typeof soft === 'number' ? soft : Number.POSITIVE_INFINITY;
}
