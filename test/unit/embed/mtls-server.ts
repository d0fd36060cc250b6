import { once } from 'node:events';
import { copyFileSync } from 'node:fs';
import type { RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { createMtlsServer, type MtlsServer, type MtlsServerOptions } from '../../../packages/gate/src/embed/tls.ts';
import { temporaryFolder, testPki } from '../../fixtures/pki.ts';

export type Files = Readonly<Record<'certPath' | 'keyPath' | 'clientCaPath', string>>;

export const answerOk: RequestListener = (req, res) => void res.end(`HTTP/${req.httpVersion}`);

/** The files of the test PKI. */
export async function files(): Promise<Files> {
	const { server, caPath } = await testPki();
	return { certPath: server.certPath, keyPath: server.keyPath, clientCaPath: caPath };
}

/** Copies of them that a test may overwrite. */
export async function ownFiles(): Promise<Files> {
	const { certPath, keyPath, clientCaPath } = await files();
	const dir = temporaryFolder('embed-tls');
	const copy = (from: string, name: string) => {
		copyFileSync(from, join(dir, name));
		return join(dir, name);
	};
	return {
		certPath: copy(certPath, 'server.crt'),
		keyPath: copy(keyPath, 'server.key'),
		clientCaPath: copy(clientCaPath, 'ca.crt'),
	};
}

export interface Running extends AsyncDisposable {
	readonly server: MtlsServer;
	readonly port: number;
}

export async function listening(options: Partial<MtlsServerOptions> = {}, handler = answerOk): Promise<Running> {
	const server = createMtlsServer({ ...(await files()), drainMs: 1000, ...options }, handler);
	server.listen(0, '127.0.0.1');
	await once(server, 'listening');
	const { port } = server.address() as AddressInfo;
	return { server, port, [Symbol.asyncDispose]: () => server.drain() };
}
