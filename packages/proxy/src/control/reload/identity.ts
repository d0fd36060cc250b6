import type { IdentitySeed } from '@mtls-edge-proxy/gate/identity/trust.ts';
import type { Config } from '../../config/config.ts';
import { type IdentityFiles, judgeJwtKeyFile, readIdentityFiles } from '../files/identity-files.ts';
import type { ReadSpec } from './reload.ts';

/**
 * Reads the identity for a reload.
 *
 * @param inForce keeps its issuers if `[jwt]` is read only at the start.
 * @throws ConfigError
 */
export async function readReloadedIdentity(config: Config, inForce: IdentitySeed): Promise<ReadSpec<IdentityFiles>> {
	if (config.jwt === undefined || config.jwt.reload) {
		const { warnings, ...spec } = await readIdentityFiles(config);
		return { spec, warnings };
	}
	const { identity, warnings } = await readIdentityFiles({ ...config, jwt: undefined });
	return { spec: { identity: { ...identity, issuers: inForce.issuers }, remotes: [] }, warnings };
}

/** Whether the key file of `[jwt]` has changed without effect: its path is the same, and its keys differ from those in force. */
export async function keysChangedInVain(booted: Config, current: Config, inForce: IdentitySeed): Promise<boolean> {
	const { jwt } = current;
	if (jwt === undefined || jwt.reload || jwt.jwksPath !== booted.jwt?.jwksPath) return false;
	const { keys } = await judgeJwtKeyFile(current);
	return JSON.stringify(keys) !== JSON.stringify(inForce.issuers[0]?.keys);
}
