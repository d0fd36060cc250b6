import type { IdentitySeed } from '@mtls-edge-proxy/gate/identity/trust.ts';
import type { Config } from '../../config/config.ts';
import { Findings, type ReadSpec, readSpec } from '../files/findings.ts';
import { type IdentityFiles, judgeIdentityFiles, judgeJwtKeyFile } from '../files/identity-files.ts';

/**
 * Reads the identity for a reload.
 *
 * @param inForce keeps its issuers if `[jwt]` is read only at the start.
 * @throws ConfigError
 */
export async function readReloadedIdentity(config: Config, inForce: IdentitySeed): Promise<ReadSpec<IdentityFiles>> {
	if (config.jwt === undefined || config.jwt.reload)
		return readSpec(config, (found) => judgeIdentityFiles(found, config));
	const withoutJwt = { ...config, jwt: undefined };
	const { spec, warnings } = await readSpec(withoutJwt, (found) => judgeIdentityFiles(found, withoutJwt));
	return { spec: { identity: { ...spec.identity, issuers: inForce.issuers }, remotes: [] }, warnings };
}

/** Whether the key file of `[jwt]` has changed without effect: its path is the same, and its keys differ from those in force. */
export async function keysChangedInVain(booted: Config, current: Config, inForce: IdentitySeed): Promise<boolean> {
	const { jwt } = current;
	if (jwt === undefined || jwt.reload || jwt.jwksPath !== booted.jwt?.jwksPath) return false;
	const keys = await judgeJwtKeyFile(new Findings(current));
	return JSON.stringify(keys) !== JSON.stringify(inForce.issuers[0]?.keys);
}
