import { parseHostPort } from '../config/authority.ts';
import { durationMs } from '../config/units.ts';
import { quote } from '../config/wording.ts';

import { Malformed } from './command.ts';

/** Parsers of values that options of several commands share. */

export interface Address {
	/** Host name or IP literal as `listen` takes it (IPv6 without brackets). */
	readonly host: string;
	/** 0 to 65535; 0 lets the system choose. */
	readonly port: number;
}

/** Default folder of `proxy init`. */
export const DEVELOPMENT_FOLDER = 'dev';

export function parseFileName(text: string): string {
	if (text === '' || text.includes('\0')) throw new Malformed(`must be a path (got ${quote(text)}); name one`);
	return text;
}

export function parseAddress(text: string): Address {
	if (/^unix:|^[./]/.test(text)) {
		throw malformedAddress(text, 'the listener is TCP, Unix sockets are not supported', 'for example 127.0.0.1:8443');
	}
	const [, inUrl] = /^[a-z][a-z\d+.-]*:\/\/([^/?#]*)/i.exec(text) ?? [];
	if (inUrl !== undefined) {
		const isAddress = typeof parseHostPort(inUrl) !== 'string' && /:\d+$/.test(inUrl);
		throw malformedAddress(text, 'it is a URL, not an address', isAddress ? inUrl : 'for example 0.0.0.0:8443');
	}
	const parsed = parseHostPort(text);
	if (typeof parsed === 'string') throw malformedAddress(text, parsed, 'for example 0.0.0.0:8443');
	if (parsed.port === undefined) throw malformedAddress(text, 'it has no port', `${text}:PORT`);
	return { host: parsed.host, port: parsed.port };
}

function malformedAddress(text: string, reason: string, suggestion: string): Malformed {
	// `8443` and `:8443` usually mean "on all interfaces", which the operator should write explicitly.
	const port = /^:?(\d{1,5})$/.exec(text)?.[1];
	const remedy = port === undefined ? suggestion : `0.0.0.0:${port}`;
	return new Malformed(`must be HOST:PORT (got ${quote(text)}): ${reason}; write ${remedy}`);
}

/** `30s`, `500ms`, `5m`, `1h`, `7d`; a number without a unit is seconds. @returns milliseconds, more than 0 */
export function parseDuration(text: string): number {
	const ms = durationMs(/\d$/.test(text) ? `${text}s` : text);
	if (ms !== undefined && ms > 0) return ms;
	throw new Malformed(
		`must be a time such as 30s, 500ms or 5m (got ${quote(text)}); a number without a unit is in seconds`,
	);
}
