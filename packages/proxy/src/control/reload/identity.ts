import type { IdentitySeed } from '@mtls-edge-proxy/gate/identity/trust.ts';
import type { Config } from '../../config/config.ts';
import { type IdentityFiles, judgeIdentityFiles, judgeJwtKeyFile } from '../files/identity-files.ts';
import { usable } from '../files/named-file.ts';
import type { ReadSpec } from './reload.ts';

/**
 * Reads the identity for a reload.
 *
 * @param inForce keeps its issuers if `[jwt]` is read only at the start.
 * @throws ConfigError
 */
export async function readReloadedIdentity(config: Config, inForce: IdentitySeed): Promise<ReadSpec<IdentityFiles>> {
	if (config.jwt === undefined || config.jwt.reload) {
		const { warnings, ...spec } = usable(config, await judgeIdentityFiles(config, config));
		return { spec, warnings };
	}
	const withoutJwt = { ...config, jwt: undefined };
	const { identity, warnings } = usable(config, await judgeIdentityFiles(withoutJwt, withoutJwt));
	return { spec: { identity: { ...identity, issuers: inForce.issuers }, remotes: [] }, warnings };
}

/** Whether the key file of `[jwt]` has changed without effect: its path is the same, and its keys differ from those in force. */
export async function keysChangedInVain(booted: Config, current: Config, inForce: IdentitySeed): Promise<boolean> {
	const { jwt } = current;
	if (jwt === undefined || jwt.reload || jwt.jwksPath !== booted.jwt?.jwksPath) return false;
	const { value: keys } = await judgeJwtKeyFile(current);
	return JSON.stringify(keys) !== JSON.stringify(inForce.issuers[0]?.keys);
}
