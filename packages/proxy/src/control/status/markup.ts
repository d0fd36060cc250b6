/**
 * HTML that is always escaped: a value in a template is text, unless it is markup itself. Route prefixes,
 * subjects of certificates and names of issuers come from files of others.
 */

/** Text that is HTML already. Only `html` makes it. */
export class Markup {
	readonly #text: string;

	/** @param text trusted: no part of it may come from outside. */
	constructor(text: string) {
		this.#text = text;
	}

	toString(): string {
		return this.#text;
	}
}

export type Content = Markup | string | number | undefined | false | readonly Content[];

/** A template whose values are escaped, in text and in quoted attributes alike. Its indentation is dropped. */
export function html(texts: TemplateStringsArray, ...values: readonly Content[]): Markup {
	let out = compact(texts[0]!);
	for (const [i, value] of values.entries()) out += render(value) + compact(texts[i + 1]!);
	return new Markup(out);
}

/** A path, name or address that may go on in the next line after its signs, and not within a word. */
export function inParts(text: string): Content {
	return text.split(/(?<=[/.:=@,_-])/).map((part, i) => [i > 0 && html`<wbr>`, part]);
}

function render(content: Content): string {
	if (content === undefined || content === false) return '';
	if (content instanceof Markup) return content.toString();
	if (Array.isArray(content)) return content.map(render).join('');
	return escapeText(String(content));
}

function compact(text: string): string {
	return text.replaceAll(/\n\t*/g, '\n');
}

/**
 * Text escaped for HTML. Control characters, and those that change the direction of writing, are shown by number: a name must not
 * change how the text around it reads.
 */
function escapeText(text: string): string {
	return text
		.replaceAll(INVISIBLE, (character) => `\\u{${character.codePointAt(0)!.toString(16)}}`)
		.replaceAll(/[&<>"']/g, (character) => ENTITIES[character]!);
}

const INVISIBLE = /[\0-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g;
const ENTITIES: Readonly<Record<string, string>> = {
	'&': '&amp;',
	'<': '&lt;',
	'>': '&gt;',
	'"': '&quot;',
	"'": '&#39;',
};

/** Instead of an unknown number. */
const NOT_KNOWN = html`<span class="none">–</span>`;

const whole = formatter({ maximumFractionDigits: 0 });
const threeDigits = formatter({ maximumSignificantDigits: 3 });

/** Made for the first page: it takes 20 ms, for which a start need not wait. */
function formatter(options: Intl.NumberFormatOptions): (value: number) => string {
	let format: Intl.NumberFormat | undefined;
	return (value) => {
		format ??= new Intl.NumberFormat('en', options);
		return format.format(value);
	};
}

export function count(value: number | null): Markup {
	return value === null ? NOT_KNOWN : html`${whole(value)}`;
}

/** The highest value of a chart; `null`: none is known. */
export function peakOf(values: readonly (number | null)[]): number | null {
	const known = values.filter((value) => value !== null);
	return known.length === 0 ? null : Math.max(...known);
}

/** Per second: 0.3, 12.5, 1,240. */
export function rate(value: number | null): Markup {
	if (value === null) return NOT_KNOWN;
	return html`${value >= 100 ? whole(value) : threeDigits(Number(value.toFixed(value < 10 ? 2 : 1)))}`;
}

/** A short time: 0.42 ms, 12.3 ms, 1.2 s. */
export function latency(seconds: number | null): Markup {
	if (seconds === null) return NOT_KNOWN;
	return html`${seconds < 1 ? `${threeDigits(seconds * 1000)} ms` : `${threeDigits(seconds)} s`}`;
}

const BYTE_UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

export function bytes(value: number): string {
	const power = value < 1 ? 0 : Math.min(Math.floor(Math.log2(value) / 10), BYTE_UNITS.length - 1);
	return `${threeDigits(value / 1024 ** power)} ${BYTE_UNITS[power]}`;
}

export function percent(share: number | null): Markup {
	if (share === null) return NOT_KNOWN;
	const rounded = Number((share * 100).toFixed(share < 0.01 ? 2 : 1));
	return html`${share > 0 && rounded === 0 ? 'under 0.01' : threeDigits(rounded)} %`;
}

/** A long time, in its two largest units: 3 d 4 h, 12 min, 40 s. */
export function duration(seconds: number): string {
	const minutes = Math.floor(seconds / 60);
	if (minutes < 1) return `${Math.floor(seconds)} s`;
	const [days, hours] = [Math.floor(minutes / 1440), Math.floor(minutes / 60) % 24];
	if (days > 0) return hours > 0 && days < 10 ? `${days} d ${hours} h` : `${days} d`;
	return hours > 0 ? `${hours} h ${minutes % 60} min` : `${minutes} min`;
}

/** How long ago `since` was. */
export function ago(since: string, now: string): string {
	return duration(Math.max(0, Date.parse(now) - Date.parse(since)) / 1000);
}

/** The moment, to the second, in UTC, as in the log. Without the day if it is the day of `now`. */
export function moment(iso: string, now: string): Markup {
	const text = iso.slice(0, 10) === now.slice(0, 10) ? iso.slice(11, 19) : iso.slice(0, 19).replace('T', ' ');
	return html`<time datetime="${iso}">${text} UTC</time>`;
}

export function day(iso: string): Markup {
	return html`<time datetime="${iso}">${iso.slice(0, 10)}</time>`;
}

/** A sign next to each colour, for people who do not see colours. */
export const SIGNS = { good: '●', doubtful: '◆', bad: '▲' } as const;

export function badge(state: keyof typeof SIGNS, content: Content): Markup {
	return html`<span class="badge ${state}"><span aria-hidden="true">${SIGNS[state]}</span> ${content}</span>`;
}
