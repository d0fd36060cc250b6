import type { Clock } from '@mtls-edge-proxy/gate/shared/clock.ts';
import type { Logger } from '@mtls-edge-proxy/gate/shared/log.ts';
import { connectionCause } from '@mtls-edge-proxy/gate/words/causes.ts';
import type { ReadableSpan, SpanExporter } from '@opentelemetry/sdk-trace';
import type { Timers } from '../timers.ts';

interface CountingParts {
	readonly exporter: Pick<SpanExporter, 'export' | 'shutdown'>;
	/** Called when spans have been exported or given up. */
	readonly onDone: (spans: readonly ReadableSpan[]) => void;
	/** Limit for one batch with its repetitions, ms: a collector that sends its answer byte by byte does not keep spans for ever. */
	readonly limitMs: number;
	readonly timers: Timers;
	readonly clock: Clock;
	readonly log: Logger;
}

type ExportCallback = Parameters<SpanExporter['export']>[1];

/** Between two warnings about an unavailable collector, ms. */
export const WARNING_PERIOD_MS = 60_000;
const TARGET = 'proxy::trace';
// `ExportResultCode` of `@opentelemetry/core`.
const SUCCESS = 0;
const FAILED = 1;

/** Counts the results of another exporter, and logs when the collector becomes unreachable and reachable again. */
export class CountingExporter implements SpanExporter {
	readonly counts: { exported: number; failed: number } = { exported: 0, failed: 0 };
	readonly #parts: CountingParts;
	/** Monotonic milliseconds of the last warning; `undefined` while the collector takes spans. */
	#warnedAt: number | undefined;
	/** Spans lost since the collector became unreachable. */
	#lost = 0;

	constructor(parts: CountingParts) {
		this.#parts = parts;
	}

	export(spans: ReadableSpan[], onResult: ExportCallback): void {
		const { exporter, limitMs, timers, onDone } = this.#parts;
		let isOver = false;
		const settle = (error: Error | undefined) => {
			if (isOver) return;
			isOver = true;
			cancel();
			if (error === undefined) this.#succeeded(spans.length);
			else this.#failed(spans.length, error);
			onDone(spans);
			onResult(error === undefined ? { code: SUCCESS } : { code: FAILED, error });
		};
		const cancel = timers.after(limitMs, () => settle(new Error(`no response within ${limitMs / 1000} s`)));
		exporter.export(spans, ({ code, error }) => {
			settle(code === SUCCESS ? undefined : (error ?? new Error('no reason was given')));
		});
	}

	shutdown(): Promise<void> {
		return this.#parts.exporter.shutdown();
	}

	#succeeded(spans: number): void {
		this.counts.exported += spans;
		if (this.#warnedAt === undefined) return;
		this.#parts.log.info(TARGET, 'the collector accepts spans again', { lost: this.#lost });
		this.#warnedAt = undefined;
		this.#lost = 0;
	}

	#failed(spans: number, error: Error): void {
		const { clock, log } = this.#parts;
		this.counts.failed += spans;
		this.#lost += spans;
		const now = clock.now();
		if (this.#warnedAt !== undefined && now - this.#warnedAt < WARNING_PERIOD_MS) return;
		this.#warnedAt = now;
		log.warn(TARGET, 'the collector accepts no spans', { cause: causeOf(error), lost: this.#lost });
	}
}

/** The cause, without any text from the collector: the library copies the text of answers into its errors. */
export function causeOf(error: Error & { readonly code?: unknown }): string {
	const { name, code, message } = error;
	if (typeof code === 'number') return `status ${code}`;
	if (typeof code === 'string') {
		return /CERT|ISSUER|SIGN|ALTNAME|^ERR_(?:SSL|TLS)/.test(code)
			? `the certificate is not trusted, or TLS failed (${code})`
			: connectionCause(error as NodeJS.ErrnoException);
	}
	if (name === 'OTLPExporterError') return 'status 429, 502, 503 or 504, on every attempt';
	return message.slice(0, 200);
}
