import {
	canonicalSerial,
	canonicalThumbprint,
	issuerKey,
	NOTHING_REVOKED,
	type RevocationList,
	SERIAL,
	THUMBPRINT,
} from '@mtls-edge-proxy/gate/identity/revocations.ts';

/**
 * Revocations in the store: a stream, to which operators only add (`XADD proxy:revoked '*' revoke tenant:acme`). Reading its entries in
 * order gives the revocations in force; pure.
 *
 * An entry has fields `revoke` and `lift`, each with `tenant:NAME`, `token:JTI`, `certificate:SHA-256` or `serial:SERIAL ISSUER`, and may
 * have a `note`. If a field cannot be read, the entry's other fields still count: a mistake in one must not undo another.
 */
export class RevocationLog {
	readonly #revoked = new Map<string, Revoked>();

	/**
	 * @param fields names and values in turn.
	 * @returns its fault, in words that quote nothing of it.
	 */
	add(fields: readonly string[]): string[] {
		const problems: string[] = [];
		for (let i = 0; i < fields.length; i += 2) {
			const [action, text] = [fields[i], fields[i + 1] ?? ''];
			if (action === 'note') continue;
			if (action !== 'revoke' && action !== 'lift') {
				problems.push('has a field that is not revoke, lift or note');
				continue;
			}
			const entry = parseRevoked(text);
			if (typeof entry === 'string') {
				problems.push(`${action}: ${entry}`);
				continue;
			}
			const key = JSON.stringify(entry);
			if (action === 'lift') this.#revoked.delete(key);
			else if (this.#revoked.size < MAX_REVOKED || this.#revoked.has(key)) this.#revoked.set(key, entry);
			else problems.push(`is beyond the ${MAX_REVOKED} entries that are read; lift expired ones`);
		}
		if (fields.length === 0) problems.push('is empty');
		return problems;
	}

	get size(): number {
		return this.#revoked.size;
	}

	get list(): RevocationList {
		const entries = [...this.#revoked.values()];
		const of = (kind: Exclude<Revoked['kind'], 'serial'>) =>
			entries.flatMap((entry) => (entry.kind === kind ? [entry.value] : []));
		return {
			tenants: of('tenant'),
			tokens: of('token'),
			certificates: of('certificate'),
			serials: entries.flatMap((entry) =>
				entry.kind === 'serial' ? [{ issuer: entry.issuer, serial: entry.serial }] : [],
			),
		};
	}
}

type Revoked =
	| { readonly kind: 'tenant' | 'token' | 'certificate'; readonly value: string }
	| { readonly kind: 'serial'; readonly serial: string; readonly issuer: string };

/** Each takes some 100 bytes here and in each worker. */
export const MAX_REVOKED = 100_000;
const MAX_LENGTH = 2048;

const FORMS = 'write tenant:NAME, token:JTI, certificate:SHA-256 or serial:SERIAL ISSUER';

/** @returns the fault, in words. */
function parseRevoked(text: string): Revoked | string {
	if (text.length > MAX_LENGTH) return `is longer than ${MAX_LENGTH} characters`;
	// A name that was not UTF-8 would become another one than was meant.
	if (text.includes('\ufffd')) return 'is not UTF-8 text';
	const colon = text.indexOf(':');
	const value = text.slice(colon + 1);
	switch (colon === -1 ? '' : text.slice(0, colon)) {
		case 'tenant':
			return value === '' ? 'names no tenant' : { kind: 'tenant', value };
		case 'token':
			return value === '' ? 'names no token' : { kind: 'token', value };
		case 'certificate':
			if (!THUMBPRINT.test(value)) return 'is not the SHA-256 of a certificate, 64 hexadecimal digits';
			return { kind: 'certificate', value: canonicalThumbprint(value) };
		case 'serial':
			return parseSerial(value);
		default:
			return FORMS;
	}
}

function parseSerial(text: string): Revoked | string {
	const blank = text.indexOf(' ');
	const serial = text.slice(0, blank);
	const issuer = blank === -1 ? undefined : issuerKey(text.slice(blank + 1));
	if (issuer === undefined || !SERIAL.test(serial)) {
		return 'is not a serial number in hexadecimal, a space and the name of its issuer, such as 0A1B C=DE, CN=Clients';
	}
	return { kind: 'serial', serial: canonicalSerial(serial), issuer };
}

export function mergeRevoked(a: RevocationList, b: RevocationList): RevocationList {
	if (b === NOTHING_REVOKED) return a;
	return {
		certificates: [...new Set([...a.certificates, ...b.certificates])],
		serials: [...a.serials, ...b.serials],
		tokens: [...new Set([...a.tokens, ...b.tokens])],
		tenants: [...new Set([...a.tenants, ...b.tenants])],
	};
}
