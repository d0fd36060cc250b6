import type { Environment } from '../command.ts';

/** The environment variables of the example service. */
export interface Settings {
	readonly host: string;
	readonly port: number;
	readonly certPath: string;
	readonly keyPath: string;
	readonly clientCaPath: string;
	readonly jwtPublicKeyPath: string;
	readonly issuer: string;
	readonly audience: string;
	/** 0: no limit. */
	readonly tenantRps: number;
	readonly jsonLogs: boolean;
}

/** The environment cannot be used; the message is one line that names every faulty variable. */
export class EnvironmentError extends Error {
	override readonly name = 'EnvironmentError';
}

const REQUIRED = [
	'EMBED_CERT',
	'EMBED_KEY',
	'EMBED_CLIENT_CA',
	'EMBED_JWT_PUB',
	'EMBED_ISSUER',
	'EMBED_AUDIENCE',
] as const;

/**
 * A variable that is empty counts as not set.
 *
 * @throws {EnvironmentError}
 */
export function readSettings(env: Environment): Settings {
	const missing = REQUIRED.filter((name) => !env[name]);
	const address = parseAddress(env.EMBED_BIND || '127.0.0.1:8444');
	const tenantRps = parseRate(env.EMBED_TENANT_RPS || '100');
	const problems: string[] = [];
	if (missing.length > 0) problems.push(`not set, but required: ${missing.join(', ')}`);
	if (!address) problems.push('EMBED_BIND must be HOST:PORT, as 127.0.0.1:8444 or [::1]:8444');
	if (tenantRps === undefined) problems.push('EMBED_TENANT_RPS must be a whole number from 0 to 1000000');
	if (problems.length > 0) throw new EnvironmentError(problems.join('; '));

	const required = (name: (typeof REQUIRED)[number]) => env[name]!;
	return {
		...address!,
		certPath: required('EMBED_CERT'),
		keyPath: required('EMBED_KEY'),
		clientCaPath: required('EMBED_CLIENT_CA'),
		jwtPublicKeyPath: required('EMBED_JWT_PUB'),
		issuer: required('EMBED_ISSUER'),
		audience: required('EMBED_AUDIENCE'),
		tenantRps: tenantRps!,
		jsonLogs: env.EMBED_LOG_JSON === '1',
	};
}

function parseAddress(text: string): { host: string; port: number } | undefined {
	const match = /^(?:\[([^\]]+)\]|([^:[\]]+)):(\d{1,5})$/.exec(text);
	const port = Number(match?.[3]);
	return match && port <= 65_535 ? { host: match[1] ?? match[2]!, port } : undefined;
}

function parseRate(text: string): number | undefined {
	return /^\d{1,7}$/.test(text) && Number(text) <= 1_000_000 ? Number(text) : undefined;
}
