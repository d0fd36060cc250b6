/** The example service as a separate process: `proxy embed-demo`, which `examples/embed` runs as well. */
import { resolve } from 'node:path';
import { AUDIENCE, ISSUER, testPki } from '../fixtures/pki.ts';
import { Program } from '../fixtures/program.ts';

const MAIN = resolve(import.meta.dirname, '../../packages/proxy/src/main.ts');

export type EmbedEnvironment = Readonly<Record<string, string | undefined>>;

/** All that is required, and a free port. */
export async function goodEnvironment(): Promise<EmbedEnvironment> {
	const { server, caPath, publicKeyPath } = await testPki();
	return {
		EMBED_BIND: '127.0.0.1:0',
		EMBED_CERT: server.certPath,
		EMBED_KEY: server.keyPath,
		EMBED_CLIENT_CA: caPath,
		EMBED_JWT_PUB: publicKeyPath,
		EMBED_ISSUER: ISSUER,
		EMBED_AUDIENCE: AUDIENCE,
		EMBED_LOG_JSON: '1',
	};
}

export class EmbedDemo extends Program {
	/** @param env all of it. */
	constructor(env: EmbedEnvironment) {
		const { NODE_COMPILE_CACHE } = process.env;
		super([process.execPath, MAIN, 'embed-demo'], { env: { NODE_COMPILE_CACHE, ...env } });
	}

	override get port(): number {
		return Number(this.logs.find(({ message }) => message === 'listening')?.port);
	}
}

/** Resolves once it listens. */
export async function startEmbedDemo(overrides: EmbedEnvironment = {}): Promise<EmbedDemo> {
	const demo = new EmbedDemo({ ...(await goodEnvironment()), ...overrides });
	await demo.line('listening');
	return demo;
}
