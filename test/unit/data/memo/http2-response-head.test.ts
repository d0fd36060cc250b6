import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { http2ResponseHead } from '../../../../packages/proxy/src/data/memo/http2-response-head.ts';
import { ProtocolError } from '../../../../packages/proxy/src/data/upstream/response-head.ts';
import { mayBeTrailer, passableTrailers } from '../../../../packages/proxy/src/gates/trailers.ts';
import {
	ReceivedField,
	readResponse,
	readTrailers,
	responseDecoder,
} from '../../../../packages/proxy/src/http2/client/response-fields.ts';
import { HeaderBlock } from '../../../../packages/proxy/src/http2/hpack-decoder.ts';
import { codedInteger } from '../../../../packages/proxy/src/http2/hpack-encoder.ts';

type Field = readonly [name: string, value: string];
type Block = HeaderBlock<ReceivedField>;

/** Every field as a literal that the decoder inserts into its table, or not. */
function coded(fields: readonly Field[], isIndexed: boolean): Buffer {
	const text = (value: string) => codedInteger(value.length, 0x7f, 0) + value;
	return Buffer.from(
		fields.map(([name, value]) => (isIndexed ? '\x40' : '\x00') + text(name) + text(value)).join(''),
		'latin1',
	);
}

/** A block that no memo knows. */
function newBlock(fields: readonly Field[]): Block {
	const block = new HeaderBlock<ReceivedField>();
	block.fields.push(...fields.map(([name, value]) => new ReceivedField(name, value)));
	block.count = fields.length;
	return block;
}

function headIn(block: Block): unknown {
	const facts = readResponse(block);
	if (typeof facts === 'string') return facts;
	try {
		const { fields, ...head } = http2ResponseHead(facts);
		return { ...head, list: fields.list, announced: fields.announcedTrailers, length: facts.length };
	} catch (error) {
		assert.ok(error instanceof ProtocolError, String(error));
		return error.message;
	}
}

function trailersIn(block: Block): unknown {
	const trailers = readTrailers(block);
	return { trailers, passable: trailers && passableTrailers(trailers) };
}

function newTrailers(fields: readonly Field[]): unknown {
	const trailers = readTrailers(newBlock(fields));
	const passable = trailers?.filter((_, i) => mayBeTrailer(trailers[i - (i % 2)]!));
	return { trailers, passable: passable?.length === 0 && trailers!.length > 0 ? undefined : passable };
}

describe('the head and the trailers of an HTTP/2 response', () => {
	const field = fc.constantFrom<Field>(
		['server', 'a'],
		['server', 'b'],
		['vary', 'client-cert'],
		['trailer', 'x-late'],
		['content-length', '2'],
		['content-length', '02x'],
		['x-late', '1'],
		['x-late', '2'],
		['via', '1.1 x'],
		['te', 'trailers'],
		['Upper', 'a'],
		['x', ' padded'],
	);
	const status = fc.constantFrom<Field>([':status', '200'], [':status', '204'], [':status', '404'], [':status', '101']);
	const head = fc.tuple(status, fc.array(field, { maxLength: 4 })).map(([first, rest]) => [first, ...rest]);
	const fields = fc.oneof({ weight: 2, arbitrary: head }, fc.array(field, { maxLength: 3 }));
	const block = fc.record({ fields, isIndexed: fc.boolean() });
	// A head may end its stream, and trailers do.
	const part = fc.constantFrom('head', 'last head', 'trailers');
	const use = fc.record({ at: fc.nat(2), part, times: fc.integer({ min: 1, max: 4 }) });

	it('are those of a connection that has received no other response, whatever came before and however often', () => {
		const seen = { repeated: 0, refused: 0, heads: 0, trailers: 0 };
		fc.assert(
			fc.property(fc.array(block, { minLength: 3, maxLength: 3 }), fc.array(use, { maxLength: 12 }), (blocks, uses) => {
				const decoder = responseDecoder(1000);
				const before = new Set<Block>();
				for (const { at, part, times } of uses) {
					const isHead = part !== 'trailers';
					const { fields, isIndexed } = blocks[at]!;
					const bytes = coded(fields, isIndexed);
					for (let i = 0; i < times; i++) {
						const read = decoder.decode(bytes, 0, bytes.length, part !== 'head');
						if (before.has(read)) seen.repeated++;
						before.add(read);
						const found = isHead ? headIn(read) : trailersIn(read);
						assert.deepEqual(found, isHead ? headIn(newBlock(fields)) : newTrailers(fields));
						if (typeof found === 'string') seen.refused++;
						else seen[isHead ? 'heads' : 'trailers']++;
					}
				}
			}),
			{ numRuns: 1000 },
		);
		for (const [kind, times] of Object.entries(seen)) assert.ok(times > 500, `${kind}: ${times}`);
	});
});
