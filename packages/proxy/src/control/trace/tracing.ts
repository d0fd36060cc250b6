import { hostname } from 'node:os';
import type { Clock } from '@mtls-edge-proxy/gate/shared/clock.ts';
import type { Logger } from '@mtls-edge-proxy/gate/shared/log.ts';
import type { TraceConfig } from '../../config/config.ts';
import type { SpanRecord } from '../../shared/span-record.ts';
import type { TraceFiles } from '../files/trace-files.ts';
import type { ListenAddress } from '../listen.ts';
import { type Timers, within } from '../timers.ts';
import { CountingExporter } from './counting-exporter.ts';
import { finishedSpan, type SpanOrigin } from './finished-span.ts';

export interface Tracing {
	/** @param onDone called with a number of spans when these have been exported or given up. */
	exportSpans(spans: readonly SpanRecord[], onDone: (count: number) => void): void;
	/** Spans by their outcome here; workers count those that they drop. */
	readonly counts: { readonly exported: number; readonly failed: number; readonly dropped: number };
	/** Exports the waiting spans. Resolves when that has succeeded or failed, at the latest after `limitMs`. */
	flush(limitMs: number): Promise<unknown>;
}

interface TracingParts {
	readonly config: TraceConfig;
	readonly files: TraceFiles;
	readonly bind: ListenAddress;
	readonly version: string;
	readonly timers: Timers;
	readonly clock: Clock;
	readonly log: Logger;
}

/** How long spans are gathered, ms. Below: spans of a batch. */
const DELAY_MS = 500;
const BATCH_SPANS = 512;
/** Limit for one batch with the library's repetitions, ms. */
const EXPORT_MS = 10_000;
/** Additional time for delays that the library does not count, such as a slow answer. */
const GRACE_MS = 5_000;

/** Loads OpenTelemetry's libraries; no other module does. */
export async function startTracing(parts: TracingParts): Promise<Tracing> {
	const { config, files, timers, clock, log } = parts;
	const [{ BatchSpanProcessor }, { OTLPTraceExporter }, origin] = await Promise.all([
		import('@opentelemetry/sdk-trace'),
		import('@opentelemetry/exporter-trace-otlp-proto'),
		originOf(parts),
	]);
	const exporter = new CountingExporter({
		exporter: new OTLPTraceExporter({
			url: config.endpoint,
			headers: { ...files.headers },
			timeoutMillis: EXPORT_MS,
			// Enough for all waiting spans: the flush at the end begins all batches at once.
			concurrencyLimit: Math.ceil(config.maxQueueSpans / BATCH_SPANS) + 1,
			httpAgentOptions: { keepAlive: true, maxSockets: 2, ...(files.ca !== undefined && { ca: files.ca }) },
			userAgent: `mtls-edge-proxy/${parts.version}`,
		}),
		onDone: (spans) => queue.release(spans),
		limitMs: EXPORT_MS + GRACE_MS,
		timers,
		clock,
		log,
	});
	const processor = new BatchSpanProcessor({
		exporter,
		maxQueueSize: config.maxQueueSpans,
		maxExportBatchSize: Math.min(BATCH_SPANS, config.maxQueueSpans),
		scheduledDelayMillis: DELAY_MS,
		exportTimeoutMillis: EXPORT_MS + GRACE_MS,
	});
	const queue = new BoundedQueue(config.maxQueueSpans, origin, (span) => processor.onEnd(span));
	return {
		exportSpans: (spans, onDone) => queue.add(spans, onDone),
		get counts() {
			return { ...exporter.counts, dropped: queue.dropped };
		},
		flush: (limitMs) => within(Promise.allSettled([processor.shutdown()]), limitMs, timers),
	};
}

type Span = ReturnType<typeof finishedSpan>;

/**
 * Spans in the library, with their owners. Workers keep to their shares, but the replacement of a dead worker does not know which
 * spans that worker had sent.
 */
export class BoundedQueue {
	dropped = 0;
	readonly #max: number;
	readonly #origin: SpanOrigin;
	readonly #push: (span: Span) => void;
	readonly #owners: Map<Span, (count: number) => void> = new Map();

	constructor(max: number, origin: SpanOrigin, push: (span: Span) => void) {
		this.#max = max;
		this.#origin = origin;
		this.#push = push;
	}

	add(records: readonly SpanRecord[], onDone: (count: number) => void): void {
		// Rounding may give a worker more than its share.
		const taken = records.slice(0, Math.max(0, this.#max - this.#owners.size));
		const lost = records.length - taken.length;
		for (const record of taken) {
			const span = finishedSpan(record, this.#origin);
			this.#owners.set(span, onDone);
			this.#push(span);
		}
		if (lost === 0) return;
		this.dropped += lost;
		onDone(lost);
	}

	/** One call for each owner: each is a message to a thread. */
	release(spans: readonly Span[]): void {
		const counts = new Map<(count: number) => void, number>();
		for (const span of spans) {
			const onDone = this.#owners.get(span);
			if (onDone !== undefined) counts.set(onDone, (counts.get(onDone) ?? 0) + 1);
			this.#owners.delete(span);
		}
		for (const [onDone, count] of counts) onDone(count);
	}
}

async function originOf({ config, bind, version }: TracingParts): Promise<SpanOrigin> {
	const { resourceFromAttributes } = await import('@opentelemetry/resources');
	const isAny = bind.host === '0.0.0.0' || bind.host === '::';
	return {
		resource: resourceFromAttributes({
			'service.name': config.serviceName,
			'service.version': version,
			'service.instance.id': `${hostname()}:${process.pid}`,
			'host.name': hostname(),
			'process.pid': process.pid,
			'telemetry.sdk.name': 'opentelemetry',
			'telemetry.sdk.language': 'nodejs',
		}),
		scope: { name: 'mtls-edge-proxy', version },
		server: { ...(!isAny && { 'server.address': bind.host }), ...(bind.port !== 0 && { 'server.port': bind.port }) },
	};
}
