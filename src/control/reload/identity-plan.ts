import type { Config } from '../../config/config.ts';
import type { ConfigProblem } from '../../config/error.ts';
import type { IdentitySeed } from '../../identity/trust.ts';
import { judgeJwtKeyFile, readIdentityFiles } from '../files/identity-files.ts';
import type { RemoteKeys } from '../jwks/remote-keys.ts';

/** Whom a reload would believe, ready to be taken over. */
export interface IdentityPlan {
	/** Made when it is taken over: an issuer's keys may have changed since the files were read. */
	readonly identity: () => IdentitySeed;
	readonly warnings: readonly ConfigProblem[];
	/** It is in force. */
	apply(): void;
	/** It will never be. */
	discard(): void;
}

/**
 * Reads what a reload takes over.
 *
 * @param inForce whose issuers stay where `[jwt]` is read at the start alone.
 * @throws ConfigError, or an Error naming the issuer that gives no keys.
 */
export async function planIdentity(
	config: Config,
	inForce: IdentitySeed,
	remoteKeys: Pick<RemoteKeys, 'plan' | 'compose'>,
): Promise<IdentityPlan> {
	if (config.jwt !== undefined && !config.jwt.reload) {
		const { identity, warnings } = await readIdentityFiles({ ...config, jwt: undefined });
		const kept = () => remoteKeys.compose({ ...identity, issuers: inForce.issuers });
		return { identity: kept, warnings, apply: () => {}, discard: () => {} };
	}
	const { identity, remotes, warnings } = await readIdentityFiles(config);
	const { compose, apply, discard } = await remoteKeys.plan(remotes);
	return { identity: () => compose(identity), warnings, apply, discard };
}

/** Whether the key file of `[jwt]` has changed in vain: its path is the same, and its keys differ from those in force. */
export async function keysChangedInVain(booted: Config, current: Config, inForce: IdentitySeed): Promise<boolean> {
	const { jwt } = current;
	if (jwt === undefined || jwt.reload || jwt.jwksPath !== booted.jwt?.jwksPath) return false;
	const { keys } = await judgeJwtKeyFile(current);
	return JSON.stringify(keys) !== JSON.stringify(inForce.issuers[0]?.keys);
}
