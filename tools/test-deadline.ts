/**
 * Loaded into the process of every test file. node's runner waits for a file for as long as it keeps anything open,
 * which a forgotten server does for ever. Here the file fails, and says what it left open.
 */
import { appendFileSync, readFileSync } from 'node:fs';
import { isMainThread } from 'node:worker_threads';

/** See tools/test.ts. */
const CPU_FILE = process.env.PROXY_TEST_CPU;

/** In ms, for one file. */
const DEADLINE = Number(process.env.PROXY_TEST_DEADLINE_MS ?? 400_000);

if (isMainThread) {
	const name = () => (globalThis as { testFiles?: string }).testFiles ?? process.argv[1];
	if (CPU_FILE !== undefined) {
		process.on('exit', () =>
			appendFileSync(CPU_FILE, `${cpuSeconds().toFixed(1)} s of CPU: ${name()} [${process.env.PROXY_TEST_BODY}]\n`),
		);
	}
	setTimeout(() => {
		const open = process.getActiveResourcesInfo().join(', ');
		console.error(`${name()} is not over after ${DEADLINE / 1000} s. It keeps open: ${open}`);
		process.exit(1);
	}, DEADLINE).unref();
}

/** Of this process and of those that it has started and that are over. Linux counts them, a hundred times a second. */
function cpuSeconds(): number {
	const fields = readFileSync('/proc/self/stat', 'latin1').split(') ')[1]!.split(' ');
	return fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0) / 100;
}
