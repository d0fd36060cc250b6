/** The short form of `npm run fuzz` for both fronts: the corpus, and some inputs that are the same in every run. */
import { after, describe, it } from 'node:test';
import { BODY_MODE } from '../fixtures/proxy.ts';
import { type CorpusName, readCorpus } from '../fuzz/corpus.ts';
import { HTTP1 } from '../fuzz/http1.ts';
import { HTTP2 } from '../fuzz/http2.ts';
import { InboundTarget } from '../fuzz/inbound-target.ts';
import { Random } from '../fuzz/random.ts';
import { Tally, type Target } from '../fuzz/target.ts';

/** Each is a dozen inputs. CI runs the fuzzers themselves, too, for longer. */
const BATCHES = 8;

const FRONTS: readonly { front: CorpusName; target: Target }[] = [
	{ front: 'http1', target: new InboundTarget(HTTP1, new Tally(), BODY_MODE) },
	{ front: 'http2', target: new InboundTarget(HTTP2, new Tally(), BODY_MODE) },
];

for (const { front, target } of FRONTS) {
	describe(`hostile bytes on ${front}: the proxy lives, bystanders are served, and upstream goes only what was sent`, () => {
		after(() => target.close());

		it('survives every input of the corpus', async () => {
			for (const { input } of readCorpus(front)) await target.replay(input);
		});

		it(`survives ${BATCHES * 12} generated and damaged inputs`, async () => {
			for (let round = 0; round < BATCHES; round++) await target.batch(new Random(1, round));
		});
	});
}
