import { type Content, html, type Markup } from './markup.ts';

/** Formats numbers and times for people; pure. Unknown values are dashes. */

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
