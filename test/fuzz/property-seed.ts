/** Loaded before a test file: gives its properties another seed, and says on descriptor 3 how many inputs they had. */
import { writeSync } from 'node:fs';
import fc from 'fast-check';

fc.configureGlobal({
	seed: Number(process.env.FUZZ_SEED),
	reporter: (details) => {
		if (details.failed) throw new Error(fc.defaultReportMessage(details));
		writeSync(3, `${JSON.stringify({ runs: details.numRuns })}\n`);
	},
});
