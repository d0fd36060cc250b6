/** nghttp2 in a separate process: assertions in Node's binding sometimes fail when a session is collected. */
import { readByNghttp2 } from './client-judge.ts';
import type { JudgeQuestion } from './judge-process.ts';

process.on('message', async ({ id, requests, pieces }: JudgeQuestion) => {
	process.send!({
		id,
		reading: await readByNghttp2(
			requests,
			pieces.map((piece) => Buffer.from(piece)),
		),
	});
});
