/**
 * Loaded into the process of every test file. node's runner waits for a file for as long as it keeps anything open,
 * which a forgotten server does for ever. Here the file fails, and says what it left open.
 */
import { isMainThread } from 'node:worker_threads';

/** In ms, for one file. */
const DEADLINE = Number(process.env.PROXY_TEST_DEADLINE_MS ?? 400_000);

if (isMainThread) {
	setTimeout(() => {
		const open = process.getActiveResourcesInfo().join(', ');
		const { testFiles = process.argv[1] } = globalThis as { testFiles?: string };
		console.error(`${testFiles} is not over after ${DEADLINE / 1000} s. It keeps open: ${open}`);
		process.exit(1);
	}, DEADLINE).unref();
}
