import { bearerToken } from '../../gates/bearer.ts';
import { parseToken } from '../../gates/jwt.ts';
import { Rejection } from '../../gates/rejection.ts';
import { type IdentitySeed, Trust } from '../../identity/trust.ts';
import { FetchError, fetchKeys } from '../../shared/jwks/fetch-keys.ts';
import type { RemoteIssuer } from '../../shared/jwks/remote-issuer.ts';

/** An identity with the keys of the one issuer that the token needs. */
export interface FetchedIdentity {
	readonly identity: IdentitySeed;
	/** Keys are wanted and not there: what the proxy would say is not known. */
	readonly isMissing: boolean;
	/** What was done. */
	readonly note: string | undefined;
}

/** Fetches the keys of the token's issuer, once and by the proxy's own bounds, where they come over the network. */
export async function fetchKeysFor(
	authorization: string | null | undefined,
	identity: IdentitySeed,
	remotes: readonly RemoteIssuer[],
	offline: boolean,
): Promise<FetchedIdentity> {
	const remote = remoteOf(authorization, identity, remotes);
	if (remote === undefined) return { identity, isMissing: false, note: undefined };
	const from = remote.url ?? `what the metadata of ${remote.issuer} names`;
	if (offline) return { identity, isMissing: true, note: `keys of ${remote.issuer} were not fetched (--offline)` };
	try {
		const { seed: keys } = await fetchKeys(remote, new AbortController().signal);
		const issuers = identity.issuers.map((one) => (one.issuer === remote.issuer ? { ...one, keys } : one));
		const count = `${keys.keys.length} key${keys.keys.length === 1 ? '' : 's'}`;
		return { identity: { ...identity, issuers }, isMissing: false, note: `fetched ${count} from ${from}` };
	} catch (error) {
		if (!(error instanceof FetchError)) throw error;
		return {
			identity,
			isMissing: true,
			note: `keys of ${remote.issuer} could not be fetched from ${from}: ${error.message}`,
		};
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
