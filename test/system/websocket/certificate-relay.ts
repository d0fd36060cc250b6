/** Sits between a browser and the proxy, with a client certificate. */
import { readFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { connect, createServer, type TLSSocket } from 'node:tls';
import type { Protocol } from '../../fixtures/clients.ts';
import type { TestPki } from '../../fixtures/pki.ts';
import type { Target } from '../../fixtures/tls-client.ts';

/**
 * A browser picks a client certificate in a dialogue. This relay presents one for it, and forwards every byte in both directions.
 *
 * @param protocol that is offered to the browser, and to the proxy.
 */
export async function startCertificateRelay(target: Target, protocol: Protocol, pki: TestPki) {
	const alpn = { ALPNProtocols: [protocol === 'h2' ? 'h2' : 'http/1.1'] };
	const { certPath, keyPath } = await pki.issueServer('localhost');
	const { certPem, keyPem } = pki.clients.valid;
	const sockets = new Set<TLSSocket>();
	const server = createServer({ cert: readFileSync(certPath), key: readFileSync(keyPath), ...alpn }, (browser) => {
		const identity = { ca: pki.ca.certPem, cert: certPem, key: keyPem, servername: 'localhost', ...alpn };
		const edge = connect({ host: '127.0.0.1', port: target.port, ...identity });
		for (const [one, other] of [
			[browser, edge],
			[edge, browser],
		] as const) {
			sockets.add(one);
			one.on('error', () => {}).on('close', () => other.destroy());
			one.pipe(other);
		}
	});
	await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
	return {
		port: (server.address() as AddressInfo).port,
		[Symbol.asyncDispose]: async () => {
			for (const socket of sockets) socket.destroy();
			await new Promise((resolve) => server.close(resolve));
		},
	};
}
