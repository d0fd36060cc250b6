import { parseUniqueObject } from '../gates/json-members.ts';
import { FETCH_LIMIT_MS } from '../identity/key-refresh.ts';
import { type KeySetReading, readJwks } from '../identity/key-set.ts';
import { connectionCause } from '../words/causes.ts';
import type { RemoteIssuer } from './remote-issuer.ts';

/** Size limit for one response. A set of 64 keys with certificates needs a tenth of it. */
const MAX_BYTES = 1024 * 1024;

/** A usable key set from an issuer. */
export interface FetchedKeys extends KeySetReading {
	/** The JWK Set as received. */
	readonly text: string;
	/** `max-age` of the response's `Cache-Control`, in ms; `undefined` if it has no usable value. */
	readonly maxAgeMs: number | undefined;
	/** For a conditional request next time; `undefined` if the issuer gives no validator. */
	readonly validators?: Validators | undefined;
}

/** The validators of one response (RFC 9110 section 8.8). */
interface Validators {
	/** The address that gave them. Metadata may name another address at the next fetch. */
	readonly address: string;
	readonly etag: string | undefined;
	readonly lastModified: string | undefined;
}

/** The part of the standard `fetch` that fetching keys needs. */
export type Fetch = (address: string, init: FetchInit) => Promise<FetchResponse>;

export interface FetchInit {
	/** Names in lower case. */
	readonly headers: Record<string, string>;
	/** A response that was redirected is refused. */
	readonly redirect: 'manual';
	/** Aborts the request. */
	readonly signal: AbortSignal;
}

/** The part of a `Response` that is read. */
export interface FetchResponse {
	readonly status: number;
	readonly redirected: boolean;
	readonly headers: { get(name: string): string | null };
	readonly body: AsyncIterable<Uint8Array> | null;
}

/** A failed fetch. The message is the cause in words, and never quotes the response. */
export class FetchError extends Error {
	override readonly name = 'FetchError';
}

/** Node's `fetch`. It refuses to fetch keys if the environment switches certificate checks off. */
export const systemFetch: Fetch = async (address, init) => {
	if (process.env.NODE_TLS_REJECT_UNAUTHORIZED === '0' && URL.parse(address)?.protocol === 'https:') {
		throw new FetchError('NODE_TLS_REJECT_UNAUTHORIZED=0 disables certificate verification; unset it');
	}
	return fetch(address, init);
};

/**
 * Fetches and checks the keys of an issuer: from its address or, if it has none, from the address in the issuer's metadata.
 * Redirects are not followed, and nothing is decompressed.
 *
 * @param fetch sends one request.
 * @param abandoned aborts the fetch.
 * @param last the last good result: if the issuer answers 304, that set stays valid.
 * @throws {FetchError} if there is no usable set.
 */
export async function fetchKeys(
	{ issuer, url, algorithms }: RemoteIssuer,
	fetch: Fetch,
	abandoned: AbortSignal,
	last?: FetchedKeys,
): Promise<FetchedKeys> {
	const signal = AbortSignal.any([abandoned, AbortSignal.timeout(FETCH_LIMIT_MS)]);
	const address = url ?? (await discover(issuer, (place) => get(place, fetch, signal)));
	const known = last?.validators?.address === address ? last : undefined;
	const { text, validators, notModified, cacheControl } = await get(address, fetch, signal, known?.validators);
	const maxAgeMs = maxAgeOf(cacheControl);
	if (known !== undefined && notModified) return { ...known, maxAgeMs };
	return { ...readSet(text, algorithms), text, validators, maxAgeMs };
}

function readSet(text: string, algorithms: RemoteIssuer['algorithms']): KeySetReading {
	try {
		return readJwks(text, algorithms);
	} catch (error) {
		throw new FetchError(`the response ${(error as Error).message}`);
	}
}

/** The URLs of an issuer's metadata: RFC 8414 section 3.1, and OpenID Connect Discovery 1.0 section 4. */
export function metadataAddresses(issuer: string): string[] {
	const url = new URL(issuer);
	const path = url.pathname.replace(/\/$/, '');
	return [
		`${url.origin}/.well-known/oauth-authorization-server${path}`,
		`${url.origin}${path}/.well-known/openid-configuration`,
	];
}

/** @returns the address of the JWK Set. */
async function discover(issuer: string, get: (address: string) => Promise<Fetched>): Promise<string> {
	const causes: string[] = [];
	for (const address of metadataAddresses(issuer)) {
		try {
			const { text } = await get(address);
			return jwksAddress(issuer, text);
		} catch (error) {
			if (!(error instanceof FetchError)) throw error;
			causes.push(error.message);
		}
	}
	throw new FetchError(`no metadata: ${[...new Set(causes)].join('; ')}`);
}

/** RFC 8414 section 3.3: metadata of another issuer must not be used. */
function jwksAddress(issuer: string, text: string): string {
	const metadata = parseUniqueObject(text);
	if (!metadata) throw new FetchError('the metadata is not a JSON object');
	if (metadata.issuer !== issuer) throw new FetchError('the metadata is for another issuer');
	const { jwks_uri: address } = metadata;
	const url = typeof address === 'string' ? URL.parse(address) : null;
	if (url === null) throw new FetchError('the metadata has no jwks_uri');
	// Without TLS, keys must come from the issuer's own origin, which is then on this machine.
	const plain = url.protocol === 'http:' && url.origin === new URL(issuer).origin;
	if (url.protocol !== 'https:' && !plain)
		throw new FetchError('the jwks_uri in the metadata is not an https:// address');
	return url.href;
}

interface Fetched {
	/** A 304 (RFC 9110 section 15.4.5) to a request with validators; it has no text. */
	readonly notModified: boolean;
	readonly text: string;
	readonly cacheControl: string;
	readonly validators: Validators | undefined;
}

async function get(address: string, fetch: Fetch, signal: AbortSignal, known?: Validators): Promise<Fetched> {
	const headers = {
		accept: 'application/jwk-set+json, application/json',
		'accept-encoding': 'identity',
		'user-agent': 'mtls-edge-proxy/jwks',
		...(known?.etag !== undefined && { 'if-none-match': known.etag }),
		...(known?.lastModified !== undefined && { 'if-modified-since': known.lastModified }),
	};
	let response: FetchResponse | undefined;
	try {
		response = await orAborted(fetch(address, { headers, redirect: 'manual', signal }), signal);
		if (typeof response?.headers?.get !== 'function') throw new FetchError('fetch did not return a Response');
		return await orAborted(read(address, response, known), signal);
	} catch (error) {
		void drop(response);
		throw error instanceof FetchError ? error : new FetchError(causeOf(error, signal));
	}
}

/** Stops reading the response, so that its connection is released or closed. */
async function drop(response: FetchResponse | undefined): Promise<void> {
	try {
		await (response?.body as ReadableStream | null | undefined)?.cancel();
	} catch {
		// The body has failed already, or the loop that reads it cancels it.
	}
}

/** A `fetch` from outside may ignore its signal. */
async function orAborted<T>(step: Promise<T>, signal: AbortSignal): Promise<T> {
	const aborted = Promise.withResolvers<never>();
	const abort = () => aborted.reject(signal.reason);
	signal.addEventListener('abort', abort);
	if (signal.aborted) abort();
	try {
		return await Promise.race([step, aborted.promise]);
	} finally {
		signal.removeEventListener('abort', abort);
	}
}

async function read(
	address: string,
	{ status, headers, body, redirected }: FetchResponse,
	known: Validators | undefined,
): Promise<Fetched> {
	const facts = { cacheControl: headers.get('cache-control') ?? '', validators: validatorsOf(address, headers) };
	if (status === 304 && known !== undefined) return { notModified: true, text: '', ...facts };
	if (redirected || (status >= 300 && status < 400 && status !== 304))
		throw new FetchError(`status ${status}: redirects are not followed`);
	if (status !== 200) throw new FetchError(`status ${status}`);
	const encoding = headers.get('content-encoding');
	if (encoding !== null && encoding !== 'identity') throw new FetchError('the response is compressed');
	return { notModified: false, text: await readText(body ?? []), ...facts };
}

/** RFC 9110 section 8.8.3, without the bytes that are not ASCII. */
const ETAG = /^(?:W\/)?"[\x21\x23-\x7e]{0,256}"$/;
/** RFC 9110 section 5.6.7. */
const HTTP_DATE = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/;

/** Malformed validators are dropped: the next request then asks for the whole set. */
function validatorsOf(address: string, headers: FetchResponse['headers']): Validators | undefined {
	const fitting = (value: string | null, grammar: RegExp) =>
		value !== null && grammar.test(value) ? value : undefined;
	const etag = fitting(headers.get('etag'), ETAG);
	const modified = fitting(headers.get('last-modified'), HTTP_DATE);
	// A set can change twice in a second, so a date that recent proves nothing (RFC 9110 section 8.8.2.2).
	const isStrong = modified !== undefined && Date.parse(String(headers.get('date'))) - Date.parse(modified) >= 1000;
	const lastModified = isStrong ? modified : undefined;
	return etag === undefined && lastModified === undefined ? undefined : { address, etag, lastModified };
}

async function readText(body: AsyncIterable<Uint8Array> | []): Promise<string> {
	const chunks: Uint8Array[] = [];
	let bytes = 0;
	for await (const chunk of body) {
		bytes += chunk.length;
		if (bytes > MAX_BYTES) throw new FetchError(`the response is larger than ${MAX_BYTES} bytes`);
		chunks.push(chunk);
	}
	try {
		return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(chunks));
	} catch {
		throw new FetchError('the response is not UTF-8 text');
	}
}

function causeOf(thrown: unknown, signal: AbortSignal): string {
	if (signal.aborted) return `no response within ${FETCH_LIMIT_MS / 1000} s`;
	// `fetch` throws "fetch failed" with the connection's error as its cause.
	const error = Object((thrown as Error | undefined)?.cause ?? thrown) as NodeJS.ErrnoException;
	const code = String(error.code ?? '');
	// OpenSSL's and Node's verdicts on the certificate, in capitals; undici's own codes name the protocol's faults.
	if (code.startsWith('HPE_') || code === 'UND_ERR_SOCKET') return 'no HTTP response';
	if (code.startsWith('UND_ERR_')) return `no response (${code})`;
	if (/CERT|ISSUER|SIGN|CRL|ALTNAME/.test(code)) return `the certificate is not trusted (${code})`;
	return connectionCause(error);
}

/** `undefined` for `no-store`, `no-cache` and an age of 0: they do not say how often to fetch. */
export function maxAgeOf(cacheControl: string | undefined): number | undefined {
	const directives = (cacheControl ?? '')
		.toLowerCase()
		.split(',')
		.map((directive) => directive.trim());
	if (directives.some((directive) => directive === 'no-store' || directive === 'no-cache')) return undefined;
	const seconds = Number(
		/^max-age="?(\d{1,9})"?$/.exec(directives.find((one) => one.startsWith('max-age')) ?? '')?.[1],
	);
	return seconds > 0 ? seconds * 1000 : undefined;
}
