/**
 * What holds of every response, over generated and damaged ones. The generators are those of the fuzzer, which goes on
 * where these tests stop: `npm run fuzz -- --target parser`.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ResponseParser } from '../../../../packages/proxy/src/data/upstream/response-parser.ts';
import { readCorpus } from '../../../fuzz/corpus.ts';
import { type ParsedResponse, parsePieces } from '../../../fuzz/parsed-response.ts';
import { checkResponse } from '../../../fuzz/parser.ts';
import { Random } from '../../../fuzz/random.ts';
import { readWholeResponse } from '../../../fuzz/response-reading.ts';
import {
	oddResponse,
	RESPONSE_KINDS,
	type ResponseCase,
	type ResponseKind,
	validResponse,
} from '../../../fuzz/responses.ts';
import { returnedByTheContract, trailersBeyond } from '../../../models/header-contract.ts';

const OK = 'HTTP/1.1 200 OK\r\n';
const CHUNKED = `${OK}transfer-encoding: chunked\r\n\r\n`;
const corpus = readCorpus<ResponseCase & { told: string }>('parser');

/** One case for each number from 1 to `count`, the same ones in every run. */
function* cases(count: number, kinds: Readonly<Partial<Record<ResponseKind, number>>> = RESPONSE_KINDS) {
	for (let seed = 1; seed <= count; seed++) {
		const random = new Random(seed);
		const input = oddResponse(random, random.weighted(kinds as Record<ResponseKind, number>), [corpus[0]!.input]);
		yield { seed, random, input };
	}
}

const { 'at the limits': _, ...SHORT_KINDS } = RESPONSE_KINDS;

describe('any response, valid or damaged', () => {
	it('is read as the model reads the whole text, in however many pieces it comes', () => {
		const verdicts = { complete: 0, not: 0 };
		for (const { seed, random, input } of cases(3000)) {
			const wanted = readWholeResponse(input);
			for (const pieces of [[input.text], random.cut(input.text, 6), random.cut(input.text, 30)]) {
				const { verdict, reason: _reason, ...rest } = parsePieces(input, pieces);
				const told = verdict === 'complete' ? rest : undefined;
				assert.deepEqual(
					told,
					wanted && {
						...wanted,
						fields: returnedByTheContract(wanted.fields).flat(),
						trailers: trailersBeyond(wanted.fields, wanted.trailers).flat(),
					},
					`seed ${seed}: ${JSON.stringify(input)}`,
				);
			}
			verdicts[wanted === undefined ? 'not' : 'complete']++;
		}
		assert.ok(verdicts.complete > 300 && verdicts.not > 300, JSON.stringify(verdicts));
	});

	it('gets the same verdict at every byte boundary: cut in two at each place, and byte by byte', () => {
		for (const { seed, input } of cases(400, SHORT_KINDS)) {
			const whole = withoutReason(parsePieces(input, [input.text]));
			for (let at = 1; at < input.text.length; at++) {
				const cut = withoutReason(parsePieces(input, [input.text.slice(0, at), input.text.slice(at)]));
				assert.deepEqual(cut, whole, `seed ${seed}, cut at ${at}: ${JSON.stringify(input)}`);
			}
			assert.deepEqual(withoutReason(parsePieces(input, [...input.text])), whole, `seed ${seed}, byte by byte`);
		}
	});

	it('gets the same verdict on a connection that has brought others before', () => {
		let used = new ResponseParser();
		for (const { seed, random, input } of cases(3000, SHORT_KINDS)) {
			const told = withoutReason(parsePieces(input, random.cut(input.text, 4), used));
			assert.deepEqual(told, withoutReason(parsePieces(input, [input.text])), `seed ${seed}: ${JSON.stringify(input)}`);
			// What is not complete ends the connection.
			if (told.verdict !== 'complete') used = new ResponseParser();
		}
	});

	it('a complete response stays the same, whatever bytes follow', () => {
		for (const { seed, random, input } of cases(1500, SHORT_KINDS)) {
			const told = parsePieces({ ...input, closes: false }, [input.text]);
			if (told.verdict !== 'complete') continue;
			for (const rest of ['\r', '\n', '0', random.bytes(5), `${OK}content-length: 3\r\n\r\nbad`]) {
				const followed = parsePieces({ ...input, closes: false }, [input.text.slice(0, told.length) + rest]);
				assert.deepEqual(followed, told, `seed ${seed}: ${JSON.stringify(input)}`);
			}
		}
	});
});

describe('a valid response', () => {
	it('is reported as it was written', () => {
		for (let seed = 1; seed <= 1500; seed++) {
			const valid = validResponse(new Random(seed));
			const told = parsePieces(valid, [valid.text]);
			assert.deepEqual(
				{ ...told, reason: '', keepAlive: true },
				{
					verdict: 'complete',
					status: valid.status,
					fields: returnedByTheContract(valid.fields).flat(),
					body: valid.body,
					trailers: trailersBeyond(valid.fields, valid.trailers).flat(),
					length: valid.text.length,
					reason: '',
					keepAlive: true,
				},
				JSON.stringify(valid),
			);
		}
	});

	it('is neither refused nor complete before its last byte', () => {
		for (let seed = 1; seed <= 300; seed++) {
			const valid = validResponse(new Random(seed));
			for (let length = 0; length < valid.text.length; length++) {
				const { verdict } = parsePieces({ ...valid, closes: false }, [valid.text.slice(0, length)]);
				assert.equal(verdict, 'waiting', `${length} bytes of ${JSON.stringify(valid)}`);
			}
		}
	});

	it("a response that breaks off is never reported as complete, unless the connection's end is its end", () => {
		for (let seed = 1; seed <= 300; seed++) {
			const valid = validResponse(new Random(seed));
			if (valid.closes) continue;
			for (let length = 0; length < valid.text.length; length++) {
				const { verdict } = parsePieces({ ...valid, closes: true }, [valid.text.slice(0, length)]);
				assert.equal(verdict, 'waiting', `${length} bytes of ${JSON.stringify(valid)}`);
			}
		}
	});
});

describe('the limits of a response', () => {
	/** The whole in one, and cut in two at each of the last bytes. */
	function verdicts(text: string): string[] {
		const input = { method: 'GET', closes: false, text };
		const cuts = Array.from({ length: 12 }, (_, i) => text.length - 1 - i);
		const pieces = [[text], ...cuts.map((at) => [text.slice(0, at), text.slice(at)])];
		return [...new Set(pieces.map((cut) => parsePieces(input, cut)).map(({ verdict, reason }) => reason || verdict))];
	}

	it('a response head is limited to 64 KiB, however it is cut', () => {
		const head = (bytes: number) => {
			const start = `${OK}content-length: 0\r\nx: `;
			return `${start}${'a'.repeat(bytes - start.length)}\r\n\r\n`;
		};
		for (let bytes = 65_530; bytes <= 65_536; bytes++)
			assert.deepEqual(verdicts(head(bytes)), ['complete'], `${bytes}`);
		for (let bytes = 65_537; bytes <= 65_545; bytes++)
			assert.deepEqual(verdicts(head(bytes)), ['head too long'], `${bytes}`);
	});

	it('trailers of a response are limited to 64 KiB, however they are cut', () => {
		const trailers = (bytes: number) => `${CHUNKED}0\r\nx: ${'a'.repeat(bytes - 7)}\r\n\r\n`;
		for (let bytes = 65_530; bytes <= 65_536; bytes++)
			assert.deepEqual(verdicts(trailers(bytes)), ['complete'], `${bytes}`);
		for (let bytes = 65_537; bytes <= 65_545; bytes++) {
			assert.deepEqual(verdicts(trailers(bytes)), ['trailers too long'], `${bytes}`);
		}
	});

	it('extensions of a chunk are limited to 1 KiB, however they are cut', () => {
		const line = (bytes: number) => `${CHUNKED}0;${'a'.repeat(bytes - 1)}\r\n\r\n`;
		for (let bytes = 1020; bytes <= 1024; bytes++) assert.deepEqual(verdicts(line(bytes)), ['complete'], `${bytes}`);
		for (let bytes = 1025; bytes <= 1032; bytes++) {
			assert.deepEqual(verdicts(line(bytes)), ['chunk extensions too long'], `${bytes}`);
		}
	});
});

describe('a response is refused, as llhttp refuses it,', () => {
	const refused = (text: string) =>
		assert.equal(parsePieces({ method: 'GET', closes: true, text }, [text]).verdict, 'refused', text);

	it('refuses a chunk extension without a name, or with an incomplete value', () => {
		for (const extension of [
			';a="b',
			';a="b"c',
			';=b',
			';a;',
			';a b',
			';a=b c',
			';a="\\"',
			';a=(',
			'; a',
			';a =b',
			';a= b',
			';a=b ;c',
		]) {
			refused(`${CHUNKED}1${extension}\r\na\r\n0\r\n\r\n`);
			refused(`${CHUNKED}0${extension}\r\n\r\n`);
		}
		for (const extension of ['', ';a', ';a=b', ';a="b;\\" c"', ';a;b;c', ';a=""', ";!#$%&'*+-.^_`|~=1"]) {
			const text = `${CHUNKED}1${extension}\r\na\r\n0${extension}\r\n\r\n`;
			assert.equal(parsePieces({ method: 'GET', closes: false, text }, [text]).body, 'a', extension);
		}
	});

	it('refuses an interim response that ends the connection', () => {
		refused(`HTTP/1.1 103 x\r\nconnection: close\r\n\r\n${OK}content-length: 0\r\n\r\n`);
		refused(`HTTP/1.0 100 Continue\r\n\r\n${OK}content-length: 0\r\n\r\n`);
	});
});

describe('every input of the corpus', () => {
	for (const { name, input } of corpus) {
		it(`is still told as it was: ${name}`, async () => {
			assert.equal(summary(input), input.told);
			await checkResponse(input);
		});
	}
});

/** The same fault may be noticed by another rule first, depending on the cut. */
function withoutReason(told: ParsedResponse): ParsedResponse {
	return { ...told, reason: '' };
}

function summary(input: ResponseCase): string {
	const { verdict, status, body, reason, length, keepAlive } = parsePieces(input, [input.text]);
	if (verdict !== 'complete') return reason === '' ? verdict : `${verdict}: ${reason}`;
	const behind = input.text.length - length;
	return `${verdict}: ${status} with ${body.length} bytes, ${behind} behind it, ${keepAlive ? 'connection stays' : 'connection ends'}`;
}
