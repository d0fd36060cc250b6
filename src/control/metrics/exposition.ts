import type { Summary } from '../../shared/histogram.ts';

export type MetricType = 'counter' | 'gauge' | 'summary';
export type Labels = Readonly<Record<string, string>>;

/** Content type of the format (https://prometheus.io/docs/instrumenting/exposition_formats/, text format). */
export const EXPOSITION_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

/** What the summaries show (issue "The proxy, end to end"). */
const QUANTILES = [0.5, 0.9, 0.95, 0.99, 0.999];

/**
 * Writes the text exposition format 0.0.4. Families are written one after the other; one without samples still shows
 * its HELP and TYPE.
 */
export class Exposition {
	#text = '';

	/** Opens a family; its samples must be added before the next one is opened. */
	family(name: string, type: MetricType, help: string): Family {
		this.#text += `# HELP ${name} ${help.replace(/[\\\n]/g, escaped)}\n# TYPE ${name} ${type}\n`;
		return new Family(name, (line) => {
			this.#text += line;
		});
	}

	/** All families so far. */
	get text(): string {
		return this.#text;
	}
}

export class Family {
	readonly #name: string;
	readonly #write: (line: string) => void;

	constructor(name: string, write: (line: string) => void) {
		this.#name = name;
		this.#write = write;
	}

	sample(value: number, labels: Labels = {}): this {
		this.#line('', labels, value);
		return this;
	}

	/** Quantiles, sum and count; milliseconds become seconds, the format's base unit. */
	summary(summary: Summary, labels: Labels = {}): this {
		for (const q of QUANTILES) this.#line('', { ...labels, quantile: String(q) }, summary.quantile(q) / 1000);
		this.#line('_sum', labels, summary.sumMs / 1000);
		this.#line('_count', labels, summary.count);
		return this;
	}

	#line(suffix: string, labels: Labels, value: number): void {
		const pairs = Object.entries(labels).map(([label, text]) => `${label}="${text.replace(/[\\"\n]/g, escaped)}"`);
		this.#write(`${this.#name}${suffix}${pairs.length === 0 ? '' : `{${pairs.join(',')}}`} ${formatValue(value)}\n`);
	}
}

function escaped(character: string): string {
	return character === '\n' ? '\\n' : `\\${character}`;
}

function formatValue(value: number): string {
	if (value === Number.POSITIVE_INFINITY) return '+Inf';
	if (value === Number.NEGATIVE_INFINITY) return '-Inf';
	return String(value);
}
