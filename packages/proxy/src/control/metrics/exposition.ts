import type { BucketTotal } from '../../memory/bucket-counts.ts';
import type { Summary } from '../../memory/histogram.ts';

export type MetricType = 'counter' | 'gauge' | 'summary' | 'histogram' | 'info';
export type Labels = Readonly<Record<string, string>>;

/** The description of one family, for the page and the documentation. */
export interface FamilyDescription {
	/** As in the text format: counters end in `_total`, an info in `_info`. */
	readonly name: string;
	readonly type: MetricType;
	readonly help: string;
	/** What each label holds: the list of its values, or words for it. */
	readonly labels: Readonly<Record<string, readonly string[] | string>>;
	/** The base unit; the name ends with it. */
	readonly unit?: 'seconds' | 'bytes' | 'ratio' | undefined;
}

export type ExpositionFormat = 'text' | 'openmetrics';

/**
 * Prometheus' text format 0.0.4 (https://prometheus.io/docs/instrumenting/exposition_formats/), and OpenMetrics 1.0.0
 * (https://prometheus.io/docs/specs/om/open_metrics_spec/).
 */
export const EXPOSITION_TYPES: Readonly<Record<ExpositionFormat, string>> = {
	text: 'text/plain; version=0.0.4; charset=utf-8',
	openmetrics: 'application/openmetrics-text; version=1.0.0; charset=utf-8',
};

/** Quantiles of all summaries. */
export const QUANTILES = [0.5, 0.9, 0.95, 0.99, 0.999];

/**
 * Writes families one after the other, in either format; one without samples still shows its HELP and TYPE. OpenMetrics adds units, the
 * time at which a series began, and exemplars.
 */
export class Exposition {
	readonly #isOpen: boolean;
	readonly #created: number;
	/** The open family, as in the text format, and its name in this one. */
	#name = '';
	#family = '';
	#isCounter = false;
	readonly #done: Buffer[] = [];
	#text = '';

	/** @param createdSeconds start of series without a time of their own, seconds since the epoch. */
	constructor(format: ExpositionFormat = 'text', createdSeconds = 0) {
		this.#isOpen = format === 'openmetrics';
		this.#created = createdSeconds;
	}

	/** Opens a family; its samples must be added before the next one is opened. */
	family({ name, type, help, unit }: Omit<FamilyDescription, 'labels'>): Family {
		const isOpen = this.#isOpen;
		// In OpenMetrics the family's name lacks the suffix of its samples.
		const family = isOpen ? name.replace(/_(total|info)$/, '') : name;
		const shown = type === 'info' && !isOpen ? 'gauge' : type;
		this.#write(`# HELP ${family} ${help.replace(isOpen ? /[\\\n"]/g : /[\\\n]/g, escaped)}\n`);
		this.#write(`# TYPE ${family} ${shown}\n`);
		if (isOpen && unit !== undefined) this.#write(`# UNIT ${family} ${unit}\n`);
		this.#name = name;
		this.#family = family;
		this.#isCounter = type === 'counter';
		return this;
	}

	/** @param created of a counter: when it began, seconds since the epoch. */
	sample(value: number, labels: Labels = {}, created: number = this.#created): this {
		const pairs = pairsOf(labels);
		this.#line(this.#name, pairs, value);
		if (this.#isCounter) this.#began(pairs, created);
		return this;
	}

	/** Quantiles, sum and count; milliseconds become seconds, the format's base unit. */
	summary(summary: Pick<Summary, 'quantiles' | 'sumMs' | 'count'>, labels: Labels = {}, created = this.#created): void {
		const pairs = pairsOf(labels);
		for (const [i, ms] of summary.quantiles(QUANTILES).entries()) {
			this.#line(this.#name, and(pairs, `quantile="${QUANTILES[i]}"`), ms / 1000);
		}
		this.#line(`${this.#name}_sum`, pairs, summary.sumMs / 1000);
		this.#line(`${this.#name}_count`, pairs, summary.count);
		this.#began(pairs, created);
	}

	/** @param bounds of all buckets except the last one, seconds. */
	histogram(bounds: readonly number[], total: BucketTotal, labels: Labels = {}, created = this.#created): void {
		const pairs = pairsOf(labels);
		let count = 0;
		for (const [i, own] of total.counts.entries()) {
			count += own;
			const le = i === bounds.length ? '+Inf' : decimal(bounds[i]!);
			const exemplar = this.#isOpen ? total.exemplars[i] : undefined;
			const trace =
				exemplar === undefined
					? ''
					: ` # {trace_id="${exemplar.traceId}"} ${exemplar.ms / 1000} ${exemplar.wallSeconds.toFixed(3)}`;
			this.#line(`${this.#name}_bucket`, and(pairs, `le="${le}"`), count, trace);
		}
		// The sum of the buckets just read; a separate cell might have been read a moment later.
		this.#line(`${this.#name}_count`, pairs, count);
		this.#line(`${this.#name}_sum`, pairs, total.sumMs / 1000);
		this.#began(pairs, created);
	}

	/** Ends the page. @returns it in UTF-8. */
	end(): Buffer {
		if (this.#isOpen) this.#text += '# EOF\n';
		this.#done.push(Buffer.from(this.#text));
		this.#text = '';
		return Buffer.concat(this.#done);
	}

	#began(pairs: string, seconds: number): void {
		if (this.#isOpen) this.#line(`${this.#family}_created`, pairs, seconds);
	}

	#line(name: string, pairs: string, value: number, behind = ''): void {
		this.#write(`${name}${pairs === '' ? '' : `{${pairs}}`} ${formatValue(value)}${behind}\n`);
	}

	/** Collects the page in pieces: a text of megabytes would have to be joined and encoded in one go. */
	#write(line: string): void {
		this.#text += line;
		if (this.#text.length < PIECE) return;
		this.#done.push(Buffer.from(this.#text));
		this.#text = '';
	}
}

/** The open family of a page. */
type Family = Pick<Exposition, 'sample' | 'summary' | 'histogram'>;

/** Characters. */
const PIECE = 65_536;

function pairsOf(labels: Labels): string {
	let pairs = '';
	for (const label in labels) {
		const text = labels[label]!;
		pairs = and(pairs, `${label}="${SPECIAL.test(text) ? text.replace(/[\\"\n]/g, escaped) : text}"`);
	}
	return pairs;
}

const SPECIAL = /[\\"\n]/;

function and(pairs: string, pair: string): string {
	return pairs === '' ? pair : `${pairs},${pair}`;
}

function escaped(character: string): string {
	return character === '\n' ? '\\n' : `\\${character}`;
}

/**
 * A bound in the form that OpenMetrics requires ("Canonical Numbers"): `1.0`, `2.5e-05`. The text format accepts it, so a series is the
 * same in both.
 */
function decimal(seconds: number): string {
	if (Number.isInteger(seconds)) return `${seconds}.0`;
	if (seconds >= 1e-4) return String(seconds);
	return seconds.toExponential().replace(/e-(\d)$/, 'e-0$1');
}

function formatValue(value: number): string {
	if (value === Number.POSITIVE_INFINITY) return '+Inf';
	if (value === Number.NEGATIVE_INFINITY) return '-Inf';
	return String(value);
}
