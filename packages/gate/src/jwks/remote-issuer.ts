import type { Algorithm } from '../gates/algorithm.ts';

/** An issuer whose keys come over the network. */
export interface RemoteIssuer {
	/** The `iss` of its tokens. */
	readonly issuer: string;
	/** The URL of its JWK Set; `undefined`: the issuer's metadata has it. */
	readonly url: string | undefined;
	/** PEM; replaces the CAs that Node trusts, if the `Fetch` takes CAs. */
	readonly ca?: string | undefined;
	readonly algorithms: readonly Algorithm[];
	/** Time between two fetches, unless the response's `Cache-Control` says otherwise. */
	readonly refreshMs: number;
	/** Maximum age of keys while fetches fail. */
	readonly maxStaleMs: number;
}
