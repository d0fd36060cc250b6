/** Loaded before a test file: sets another seed for its properties, and reports their number of inputs on descriptor 3. */
import { writeSync } from 'node:fs';
import fc from 'fast-check';

fc.configureGlobal({
	seed: Number(process.env.FUZZ_SEED),
	reporter: (details) => {
		if (details.failed) throw new Error(fc.defaultReportMessage(details));
		writeSync(3, `${JSON.stringify({ runs: details.numRuns })}\n`);
	},
});
