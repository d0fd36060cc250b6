/** The short form of `npm run fuzz -- --target http2-client`: the corpus, and some inputs that are the same in every run. */
import { after, describe, it } from 'node:test';
import { readCorpus } from '../../../fuzz/corpus.ts';
import { Http2ClientTarget } from '../../../fuzz/http2-client.ts';
import { Random } from '../../../fuzz/random.ts';
import { Tally } from '../../../fuzz/target.ts';

/** Each is 16 inputs. */
const BATCHES = 20;

describe('the client’s half of HTTP/2 and nghttp2 read the same, and what nghttp2 refuses is refused', () => {
	const target = new Http2ClientTarget(new Tally());
	after(() => target.close());

	it('with every input of the corpus', async () => {
		for (const { input } of readCorpus('http2-client')) await target.replay(input);
	});

	it(`with ${BATCHES * 16} inputs made up and damaged`, async () => {
		for (let round = 0; round < BATCHES; round++) await target.batch(new Random(1, round));
	});
});
