import type { Algorithm } from '../gates/algorithm.ts';

/** An issuer whose keys come over the network. */
export interface RemoteIssuer {
	/** The `iss` of its tokens. */
	readonly issuer: string;
	/** Of its JWK Set; `undefined`: it stands in the issuer's metadata. */
	readonly url: string | undefined;
	/** PEM; takes the place of the CAs that Node trusts, for a `Fetch` that can be told. */
	readonly ca?: string | undefined;
	readonly algorithms: readonly Algorithm[];
	/** Between two fetches, unless the answer's `Cache-Control` says otherwise. */
	readonly refreshMs: number;
	/** How old keys may become while the issuer gives none. */
	readonly maxStaleMs: number;
}
