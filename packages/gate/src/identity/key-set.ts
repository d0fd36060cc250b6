import { createPublicKey, type KeyObject, type webcrypto } from 'node:crypto';
import { type Algorithm, fitsAlgorithm } from '../gates/algorithm.ts';
import { parseUniqueObject } from '../gates/json-members.ts';
import { type TokenKey, type TokenKeys, WRONG_ALG } from '../gates/jwt.ts';
import { readPem } from '../gates/pem.ts';
import { checkPublicKey, readPublicKey } from '../gates/public-key.ts';
import { type Rejection, TOKEN_INVALID } from '../gates/rejection.ts';

/** A larger set is not a plausible key rotation. */
export const MAX_KEYS = 64;
/** Keys tried for each token: a bound on the work that an unauthenticated client can cause. */
export const MAX_TRIES = 8;

/** The keys of an issuer in a form that can be cloned, compared and kept. */
export interface KeySetSeed {
	/** Whether `kid` selects a key, as in a JWK Set. A PEM file has no names: its key is tried for every `kid`. */
	readonly named: boolean;
	/** At least one, at most `MAX_KEYS`. */
	readonly keys: readonly KeySeed[];
}

interface KeySeed {
	readonly kid: string | undefined;
	/** SPKI. */
	readonly pem: string;
	/** Algorithms that it may verify, at least one: those that the issuer allows, that fit its type and that its JWK permits. */
	readonly algorithms: readonly Algorithm[];
}

/** The result of reading a text with keys. */
export interface KeySetReading {
	readonly seed: KeySetSeed;
	/** Skipped entries of the JWK Set, each with the reason: `keys[2]: use is not "sig"`. */
	readonly skipped: readonly string[];
}

/**
 * Reads the keys of an issuer: one public key as PEM, or a JWK Set (RFC 7517), recognised by content.
 *
 * @param algorithms those that the issuer may use.
 * @throws Error that names the fault and the expected form; it never quotes the text.
 */
export function readKeySet(text: string, algorithms: readonly Algorithm[]): KeySetReading {
	if (/^\s*[{[]/.test(text)) return readJwks(text, algorithms);
	const key = readPublicKey(text, algorithms);
	// An incomplete block may be the remains of another key.
	const blocks = readPem(text);
	if (typeof blocks === 'string') throw new Error(blocks);
	return { seed: { named: false, keys: [seedOf(key, undefined, algorithms)] }, skipped: [] };
}

/**
 * Reads a JWK Set. Entries with another key type or use are skipped (RFC 7517 section 5).
 *
 * @throws Error as above, and if the set has a private or symmetric key: that key is compromised.
 */
export function readJwks(text: string, algorithms: readonly Algorithm[]): KeySetReading {
	const entries = entriesOf(text);
	const keys: KeySeed[] = [];
	const skipped: string[] = [];
	for (const [i, entry] of entries.entries()) {
		const read = readEntry(entry, algorithms, `keys[${i}]`);
		if (typeof read === 'string') skipped.push(`keys[${i}]: ${read}`);
		else keys.push(read);
	}
	if (keys.length > 0) return { seed: { named: true, keys }, skipped };
	const first = skipped[0] === undefined ? '' : ` (${skipped[0]})`;
	throw new Error(`is a JWK Set without a key that can be used for ${algorithms.join(', ')}${first}`);
}

function entriesOf(text: string): readonly unknown[] {
	const set = parseUniqueObject(text);
	if (set === null) throw new Error('is JSON in which an object has a duplicate name');
	if (set === undefined) throw new Error('is not a JWK Set: it is not a JSON object');
	const { keys } = set;
	if (Array.isArray(keys) && keys.length > 0) {
		if (keys.length <= MAX_KEYS) return keys;
		throw new Error(`is a JWK Set of ${keys.length} keys; at most ${MAX_KEYS} are read`);
	}
	if (Array.isArray(keys)) throw new Error('is an empty JWK Set');
	if ('kty' in set) throw new Error('is a single JWK; write it as a set: {"keys": [...]}');
	throw new Error('is JSON, but not a JWK Set: it has no list "keys"');
}

/** @returns the key, or why the entry is skipped. */
function readEntry(entry: unknown, algorithms: readonly Algorithm[], place: string): KeySeed | string {
	if (typeof entry !== 'object' || entry === null || Array.isArray(entry)) return 'no object';
	const { kty, use, alg, kid, key_ops: operations } = entry as Record<string, unknown>;
	// Refused rather than skipped: a published private key lets anyone forge tokens.
	if (kty === 'oct') throw new Error(`has a symmetric key (${place}), which is a secret: publish only public keys`);
	if (PRIVATE_MEMBERS.some((member) => Object.hasOwn(entry, member))) {
		throw new Error(
			`has a private key (${place}), which is no longer secret: replace it, and publish only its public members`,
		);
	}
	if (kid !== undefined && typeof kid !== 'string') return 'kid is not a string';
	if (use !== undefined && use !== 'sig') return 'use is not "sig"';
	if (operations !== undefined && !(Array.isArray(operations) && operations.includes('verify'))) {
		return 'key_ops does not include "verify"';
	}
	const allowed = alg === undefined ? algorithms : algorithms.filter((algorithm) => algorithm === alg);
	if (allowed.length === 0) return `alg is not one of ${algorithms.join(', ')}`;
	let key: KeyObject;
	try {
		key = createPublicKey({ key: entry as webcrypto.JsonWebKey, format: 'jwk' });
	} catch {
		return 'cannot be read';
	}
	try {
		return seedOf(checkPublicKey(key, allowed), kid, allowed);
	} catch (error) {
		return (error as Error).message;
	}
}

/** Members with secrets: RFC 7518 sections 6.2.2, 6.3.2 and 6.4.1, RFC 8037 section 2. */
const PRIVATE_MEMBERS = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k'];

function seedOf(key: KeyObject, kid: string | undefined, algorithms: readonly Algorithm[]): KeySeed {
	const pem = key.export({ type: 'spki', format: 'pem' }) as string;
	return { kid, pem, algorithms: algorithms.filter((algorithm) => fitsAlgorithm(key, algorithm)) };
}

/** A key that can verify. */
export interface SetKey extends TokenKey {
	readonly seed: KeySeed;
}

/** The keys of one issuer, ready to verify with. */
export class KeySet implements TokenKeys<SetKey> {
	readonly #named: boolean;
	readonly #keys: readonly SetKey[];
	readonly #byKid: ReadonlyMap<string | undefined, readonly SetKey[]>;

	/** @throws Error if a key cannot be read, which cannot happen with a valid seed. */
	constructor({ named, keys }: KeySetSeed) {
		this.#named = named;
		this.#keys = keys.map((seed) => ({ seed, key: createPublicKey(seed.pem) }));
		this.#byKid = Map.groupBy(this.#keys, ({ seed }) => seed.kid);
	}

	candidates(alg: unknown, kid: unknown): readonly SetKey[] | Rejection {
		const named = this.#named && kid !== undefined;
		if (named && typeof kid !== 'string') return BAD_KID;
		const keys = named ? this.#byKid.get(kid as string) : this.#keys;
		if (keys === undefined) return UNKNOWN_KID;
		const fitting = keys.filter(({ seed }) => seed.algorithms.includes(alg as Algorithm));
		if (fitting.length === 0) return WRONG_ALG;
		return fitting.length <= MAX_TRIES ? fitting : TOO_MANY_KEYS;
	}

	[Symbol.iterator](): Iterator<SetKey> {
		return this.#keys[Symbol.iterator]();
	}
}

const BAD_KID = TOKEN_INVALID.because('bad kid');
/** No key of the set has this name; the issuer may have a new key. */
export const UNKNOWN_KID = TOKEN_INVALID.because('unknown kid');
const TOO_MANY_KEYS = TOKEN_INVALID.because('too many keys fit: the token names none');
