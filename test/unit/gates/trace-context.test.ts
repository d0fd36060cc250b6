import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ROOT_CONTEXT, SpanKind, trace } from '@opentelemetry/api';
import { ParentBasedSampler, SamplingDecision, TraceIdRatioBasedSampler } from '@opentelemetry/sdk-trace';
import fc from 'fast-check';
import { isTraceparent } from '../../../packages/proxy/src/gates/correlation.ts';
import { createTracing, ratioSampler, UNIDENTIFIED } from '../../../packages/proxy/src/gates/trace-context.ts';

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const PARENT = 'b7ad6b7169203331';
const hex = (digits: number) => 'e'.repeat(digits);

const identified = (
	traceparent: string | null | undefined,
	more: { requestId?: string; tracestate?: string } = {},
) => ({
	...UNIDENTIFIED,
	traceparent,
	...more,
});
const ids = (length: number) =>
	fc.string({ unit: fc.constantFrom(...'0123456789abcdef'), minLength: length, maxLength: length });

describe('sampling', () => {
	it("decides as OpenTelemetry's parent-based sampler with a ratio", () => {
		const context = fc.option(
			fc.record({ traceId: ids(32), parentId: ids(16), flags: fc.integer({ min: 0, max: 255 }) }),
			{ nil: undefined },
		);
		fc.assert(
			fc.property(fc.double({ min: 0, max: 1, noNaN: true }), context, ids(32), (ratio, parent, newId) => {
				fc.pre(!/^0+$/.test(newId));
				const root = new TraceIdRatioBasedSampler(ratio);
				const sampler = new ParentBasedSampler({ root });
				const header =
					parent && `00-${parent.traceId}-${parent.parentId}-${parent.flags.toString(16).padStart(2, '0')}`;
				const isValid = isTraceparent(header);
				const remote = isValid && {
					traceId: parent!.traceId,
					spanId: parent!.parentId,
					traceFlags: parent!.flags,
					isRemote: true,
				};
				const inherited = remote ? trace.setSpanContext(ROOT_CONTEXT, remote) : ROOT_CONTEXT;
				const id = remote ? remote.traceId : newId;
				const { decision } = sampler.shouldSample(inherited, id, 'x', SpanKind.SERVER, {}, []);
				const tracing = createTracing({ ratio, requestIds: false }, (digits) => newId.repeat(2).slice(0, digits));
				const { span, traceId, lines } = tracing(identified(header));
				assert.equal(span !== undefined, decision === SamplingDecision.RECORD_AND_SAMPLED);
				assert.equal(traceId, id);
				assert.equal(Number.parseInt(lines.slice(66, 68), 16) & 1, span === undefined ? 0 : 1);
			}),
			{ numRuns: 2000 },
		);
	});

	it('decides so for identifiers at the very edge of the ratio', () => {
		fc.assert(
			fc.property(
				fc.double({ min: 0, max: 1, noNaN: true }),
				fc.tuple(ids(8), ids(8), ids(8)),
				fc.integer({ min: -20, max: 20 }),
				(ratio, words, off) => {
					// The four words of this identifier add up, without carry, to a number next to the last one that is sampled.
					const sum = Math.min(0xffffffff, Math.max(0, Math.floor(ratio * 0xffffffff) + off));
					const last = words.reduce((rest, word) => rest ^ Number.parseInt(word, 16), sum) >>> 0;
					const id = words.join('') + last.toString(16).padStart(8, '0');
					fc.pre(!/^0+$/.test(id));
					const { decision } = new TraceIdRatioBasedSampler(ratio).shouldSample(ROOT_CONTEXT, id);
					assert.equal(ratioSampler(ratio)(id), decision === SamplingDecision.RECORD_AND_SAMPLED);
				},
			),
			{ numRuns: 2000 },
		);
	});

	it('samples about the ratio of traces, and the same ones each time', () => {
		const isSampled = ratioSampler(0.25);
		const traces = Array.from({ length: 4096 }, (_, i) => (i * 2_654_435_761).toString(16).padStart(32, '0'));
		const sampled = traces.filter(isSampled);
		assert.ok(Math.abs(sampled.length - 1024) < 200, `${sampled.length}`);
		assert.deepEqual(traces.filter(isSampled), sampled);
		assert.equal(traces.filter(ratioSampler(0)).length, 0);
		assert.equal(traces.filter(ratioSampler(1)).length, traces.length);
	});
});

describe('the traceparent that the upstream gets', () => {
	const all = createTracing({ ratio: 1, requestIds: false }, hex);
	const none = createTracing({ ratio: 0, requestIds: false }, hex);

	it('has our span as the parent, and the unchanged tracestate', () => {
		for (const tracing of [all, none]) {
			const { span, lines, isShown } = tracing(
				identified(`00-${TRACE}-${PARENT}-01`, { tracestate: 'tracestate: a=1\r\ntracestate: b=2\r\n' }),
			);
			assert.deepEqual(span, { traceId: TRACE, spanId: hex(16), parentId: PARENT, flags: 1 });
			assert.equal(lines, `traceparent: 00-${TRACE}-${hex(16)}-01\r\ntracestate: a=1\r\ntracestate: b=2\r\n`);
			assert.ok(isShown);
		}
	});

	it('keeps the flag of a random identifier, and no flag that we do not know', () => {
		assert.equal(none(identified(`00-${TRACE}-${PARENT}-ff`)).lines, `traceparent: 00-${TRACE}-${hex(16)}-03\r\n`);
	});

	it('has our version if the client has a later one', () => {
		const { lines } = none(identified(`01-${TRACE}-${PARENT}-01-more`));
		assert.equal(lines, `traceparent: 00-${TRACE}-${hex(16)}-01\r\n`);
	});

	it("is the client's own if it does not sample", () => {
		const { span, lines, isShown } = all(identified(`00-${TRACE}-${PARENT}-00`, { tracestate: 'tracestate: a=1\r\n' }));
		assert.deepEqual([span, isShown], [undefined, false]);
		assert.equal(lines, `traceparent: 00-${TRACE}-${PARENT}-00\r\ntracestate: a=1\r\n`);
	});

	for (const [what, sent] of [
		['none', undefined],
		['two', null],
		['a malformed one', `00-${TRACE}-${PARENT}-0`],
		['one of zeros', `00-${'0'.repeat(32)}-${PARENT}-01`],
	] as const) {
		it(`is a new trace if the client sends ${what}, without the state of another one`, () => {
			const { span, lines } = all(identified(sent, { tracestate: 'tracestate: a=1\r\n' }));
			assert.deepEqual(span, { traceId: hex(32), spanId: hex(16), parentId: undefined, flags: 1 });
			assert.equal(lines, `traceparent: 00-${hex(32)}-${hex(16)}-01\r\n`);
			assert.equal(none(identified(sent)).lines, `traceparent: 00-${hex(32)}-${hex(16)}-00\r\n`);
		});
	}

	it('comes with a request identifier if that is configured', () => {
		const both = createTracing({ ratio: 0, requestIds: true }, hex);
		assert.ok(both(identified(undefined, { requestId: 'mine' })).lines.endsWith('x-request-id: mine\r\n'));
		assert.equal(both(identified(undefined, { requestId: 'a b' })).requestId, hex(32));
	});
});
