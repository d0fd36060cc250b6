import { bearerToken } from '@mtls-edge-proxy/gate/gates/bearer.ts';
import { parseToken } from '@mtls-edge-proxy/gate/gates/jwt.ts';
import { Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import { type KeySetSeed, readJwks } from '@mtls-edge-proxy/gate/identity/key-set.ts';
import { type IdentitySeed, Trust } from '@mtls-edge-proxy/gate/identity/trust.ts';
import { FetchError } from '@mtls-edge-proxy/gate/jwks/fetch-keys.ts';
import type { RemoteIssuer } from '@mtls-edge-proxy/gate/jwks/remote-issuer.ts';
import { plural } from '../../config/wording.ts';
import { fetchByUndici } from '../../control/jwks/fetch-by-undici.ts';
import { loadKept } from '../../control/jwks/key-store.ts';
import { inWords } from './places.ts';

/** An identity with the keys of the one issuer that the token needs. */
interface FetchedIdentity {
	readonly identity: IdentitySeed;
	/** Needed keys are missing, so the proxy's verdict is unknown. */
	readonly isMissing: boolean;
	/** What was fetched or read, for the report. */
	readonly note: string | undefined;
}

interface KeySources {
	/** Issuers whose keys come over the network. */
	readonly remotes: readonly RemoteIssuer[];
	/** Whether fetching is disabled. */
	readonly offline: boolean;
	/** Folder of the keys that the proxy fetched last. */
	readonly stateDir: string | undefined;
	/** Wall-clock time, seconds since the epoch. */
	readonly nowSeconds: number;
}

/**
 * Gets the keys of the token's issuer if they come over the network. Fetches them once, within the proxy's own limits; if that fails,
 * reads the keys that the proxy has stored for a start without the issuer.
 */
export async function fetchKeysFor(
	authorization: string | null | undefined,
	identity: IdentitySeed,
	sources: KeySources,
): Promise<FetchedIdentity> {
	const remote = remoteOf(authorization, identity, sources.remotes);
	if (remote === undefined) return { identity, isMissing: false, note: undefined };
	const using = (keys: KeySetSeed, note: string) => {
		const issuers = identity.issuers.map((one) => (one.issuer === remote.issuer ? { ...one, keys } : one));
		return { identity: { ...identity, issuers }, isMissing: false, note };
	};
	let failure = `keys of ${remote.issuer} were not fetched (--offline)`;
	if (!sources.offline) {
		const from =
			remote.url === undefined ? `the JWK Set that the metadata of ${remote.issuer} names` : withoutQuery(remote.url);
		try {
			const { seed } = await fetchByUndici(remote, new AbortController().signal);
			return using(seed, `fetched ${plural(seed.keys.length, 'key')} from ${from}`);
		} catch (error) {
			if (!(error instanceof FetchError)) throw error;
			failure = `keys of ${remote.issuer} could not be fetched from ${from}: ${error.message}`;
		}
	}
	const kept =
		sources.stateDir === undefined ? undefined : await loadKept(sources.stateDir, remote, sources.nowSeconds);
	const seed = kept && kept.ageMs <= remote.maxStaleMs ? readKept(kept.text, remote) : undefined;
	if (seed === undefined) return { identity, isMissing: true, note: failure };
	return using(
		seed,
		`${failure}; used ${plural(seed.keys.length, 'key')} from state_dir, ${inWords(kept!.ageMs / 1000)} old`,
	);
}

/** The query may contain a secret key. */
function withoutQuery(url: string): string {
	const { origin, pathname } = new URL(url);
	return origin + pathname;
}

function readKept(text: string, { algorithms }: RemoteIssuer): KeySetSeed | undefined {
	try {
		return readJwks(text, algorithms).seed;
	} catch {
		return undefined;
	}
}

function remoteOf(
	authorization: string | null | undefined,
	identity: IdentitySeed,
	remotes: readonly RemoteIssuer[],
): RemoteIssuer | undefined {
	if (remotes.length === 0) return undefined;
	const token = bearerToken(authorization);
	const parsed = token instanceof Rejection ? token : parseToken(token);
	if (parsed instanceof Rejection) return undefined;
	const issuer = new Trust(identity).issuerOf(parsed);
	return remotes.find((remote) => remote.issuer === issuer?.rules.issuer);
}
