import { CERTIFICATE_FORBIDDEN, Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import type { CertificateNames, NameReader } from './certificate-names.ts';
import { matches, type NameKind, type NamePattern, namesOfKind } from './name-pattern.ts';

/** Which names in client certificates a route admits. */
export class NameRules {
	readonly read: NameReader;
	readonly #allow: readonly NamePattern[] | undefined;
	readonly #deny: readonly { readonly pattern: NamePattern; readonly refusal: Rejection }[];
	/** The kinds of the patterns: names of other kinds are ignored. */
	readonly #kinds: readonly NameKind[];

	/**
	 * @param allow a certificate needs a name that matches one of these; `undefined`: it needs none.
	 * @param deny a certificate with a name that matches one of these is refused, even if `allow` matches.
	 */
	constructor(allow: readonly NamePattern[] | undefined, deny: readonly NamePattern[], read: NameReader) {
		this.read = read;
		this.#allow = allow;
		this.#deny = deny.map((pattern) => ({
			pattern,
			refusal: CERTIFICATE_FORBIDDEN.because(`denied by ${pattern.text}`),
		}));
		this.#kinds = [...new Set([...(allow ?? []), ...deny].map(({ kind }) => kind))];
	}

	/** @param names `undefined` if the certificate cannot be read. */
	judge(names: CertificateNames | undefined): Rejection | undefined {
		if (names === undefined) return UNREADABLE;
		const byKind = new Map<NameKind, string[][]>();
		for (const kind of this.#kinds) {
			const known = namesOfKind(kind, names);
			if (known instanceof Rejection) return known;
			byKind.set(kind, known);
		}
		const isNamed = (pattern: NamePattern) => byKind.get(pattern.kind)!.some((name) => matches(pattern, name));
		const denied = this.#deny.find(({ pattern }) => isNamed(pattern));
		if (denied !== undefined) return denied.refusal;
		return this.#allow === undefined || this.#allow.some(isNamed) ? undefined : NOT_ALLOWED;
	}
}

const UNREADABLE = CERTIFICATE_FORBIDDEN.because('names in the certificate cannot be read');
const NOT_ALLOWED = CERTIFICATE_FORBIDDEN.because('no allowed name in the certificate');
