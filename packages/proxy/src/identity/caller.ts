import type { X509Certificate } from 'node:crypto';
import type { Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import type { CertificateHeaders, CertificateSource } from './certificate-headers.ts';
import type { CertificateNames, NameReader } from './certificate-names.ts';
import type { NameRules } from './name-rules.ts';

/**
 * What routes ask about the client certificate of one connection: whether its names match their rules, and the header lines for
 * their upstreams. Each answer is computed for the first request that needs it, and kept as long as the connection and the routing
 * table.
 */
export class Caller implements CertificateSource {
	readonly certificate: X509Certificate;
	/** The proxy's own certificate; `undefined` once the connection is gone. */
	readonly #own: () => X509Certificate | undefined;
	#names: { readonly value: CertificateNames | undefined } | undefined;
	/** By the rules of a route. Weak: the rules of a table that a reload has replaced are collected with it. */
	readonly #verdicts = new WeakMap<NameRules, Rejection | typeof PLEASED>();
	/** By `CertificateHeaders.key`, which has a few dozen values. */
	readonly #lines = new Map<string, string>();

	constructor(certificate: X509Certificate, own: () => X509Certificate | undefined) {
		this.certificate = certificate;
		this.#own = own;
	}

	/** The refusal, if the certificate's names do not satisfy the rules of a route. */
	judge(rules: NameRules): Rejection | undefined {
		let verdict = this.#verdicts.get(rules);
		if (verdict === undefined) {
			verdict = rules.judge(this.names(rules.read)) ?? PLEASED;
			this.#verdicts.set(rules, verdict);
		}
		return verdict === PLEASED ? undefined : verdict;
	}

	/** Header lines about the certificate, each ended by CRLF. */
	lines(headers: CertificateHeaders): string {
		let lines = this.#lines.get(headers.key);
		if (lines === undefined) {
			lines = headers.write(this, this.#own);
			this.#lines.set(headers.key, lines);
		}
		return lines;
	}

	/** `undefined` if they cannot be read. */
	names(read: NameReader): CertificateNames | undefined {
		this.#names ??= { value: read(this.certificate) };
		return this.#names.value;
	}
}

const PLEASED = null;
