import * as http from 'node:http';
import * as https from 'node:https';
import type { ConnectionOptions } from 'node:tls';
import type { HealthSettings, UpstreamAddress } from '../../config/config.ts';
import { connectionCause, silenceCause } from '../../shared/causes.ts';
import type { Verdict } from './health.ts';

/** A health answer's body is of no interest, but reading a small one lets the upstream end in peace. */
const MAX_BODY_BYTES = 64 * 1024;

/**
 * `GET /health`, or what path it has (specification 4.2): a 2xx is healthy, everything else is not; redirects are not followed. Each probe
 * has a connection of its own, for one that is kept alive says nothing of whether new ones are possible.
 *
 * @param tls `undefined`: plain HTTP.
 */
export function httpProbe(
	address: UpstreamAddress,
	{ path, timeoutMs }: HealthSettings,
	abandoned: AbortSignal,
	tls?: ConnectionOptions,
): Promise<Verdict> {
	return new Promise((resolve) => {
		const { request } = tls === undefined ? http : https;
		const probe = request({
			...tls,
			// Over TLS with one of its own: a shared one would keep sessions, and a session that is resumed proves no certificate.
			agent: tls === undefined && AGENT,
			host: address.host,
			port: address.port,
			path,
			headers: { host: address.hostField ?? address.authority, 'user-agent': 'mtls-edge-proxy/health' },
			signal: abandoned,
		});
		const limit = setTimeout(() => {
			// Timers run before sockets are read: on a busy thread an answer may be here that nobody has looked at.
			setImmediate(() => {
				resolve({ healthy: false, cause: silenceCause('answer', timeoutMs) });
				probe.destroy();
			});
		}, timeoutMs);
		probe.on('response', (response) => {
			resolve(verdictOn(response.statusCode!));
			discard(response, probe);
		});
		probe.on('error', (error) => resolve(failureOf(error)));
		// Whatever else may end it, such as a 101 that nobody asked for.
		probe.on('close', () => {
			clearTimeout(limit);
			resolve({ healthy: false, cause: 'connection closed without an answer' });
		});
		probe.end();
	});
}

/** Keeps nothing, as `agent: false` would: that makes another one for each probe. */
const AGENT = new http.Agent({ keepAlive: false });

function verdictOn(status: number): Verdict {
	return { healthy: status >= 200 && status < 300, cause: `status ${status}`, status };
}

/** The limit goes on running meanwhile, so the body can neither grow nor last. */
function discard(response: http.IncomingMessage, probe: http.ClientRequest): void {
	let bytes = 0;
	response.on('data', (chunk: Buffer) => {
		bytes += chunk.length;
		if (bytes > MAX_BODY_BYTES) probe.destroy();
	});
	// The verdict has been given by the head.
	response.on('error', () => {});
}

function failureOf(error: NodeJS.ErrnoException): Verdict {
	const { code } = error;
	// What llhttp thinks of an answer: its words are its own, and none of the answer's.
	const cause = code?.startsWith('HPE_') ? 'no HTTP answer' : connectionCause(error);
	return { healthy: code !== undefined && EXHAUSTED.has(code) ? 'unknown' : false, cause };
}

/** No descriptor, port or memory left here. Clients that hold too many must not cost every upstream its breaker. */
const EXHAUSTED = new Set(['EMFILE', 'ENFILE', 'EADDRNOTAVAIL', 'ENOBUFS', 'ENOMEM']);
