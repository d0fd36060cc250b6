import type { ClientRequest, IncomingMessage } from 'node:http';
import * as https from 'node:https';
import { Socket } from 'node:net';
import { type ConnectionOptions, connect } from 'node:tls';
import { grpcStatusIn } from '@mtls-edge-proxy/gate/gates/grpc.ts';
import { connectionCause, SPEAKS_TLS, silenceCause } from '@mtls-edge-proxy/gate/words/causes.ts';
import type { HealthSettings, UpstreamAddress } from '../../config/config.ts';
import { HEALTH_CHECK_PATH, healthProblem, healthRequest, MAX_RESPONSE } from '../../gates/grpc-health.ts';
import type { UpstreamProtocol } from '../../shared/messages.ts';
import { http } from '../../shared/node-http.ts';
import type { Verdict } from './health.ts';
import { CLOSED, callHttp2 } from './http2-call.ts';

/** The body of a health response is ignored, but a small one is read, so that the upstream sees no reset. */
const MAX_BODY_BYTES = 64 * 1024;

/**
 * `GET /health`, or the configured path: a 2xx is healthy, everything else is not; redirects are not followed. Each probe opens a
 * connection: an existing one does not show whether new ones are possible.
 *
 * @param tls `undefined`: plain HTTP.
 */
export async function httpProbe(
	address: UpstreamAddress,
	settings: HealthSettings,
	abandoned: AbortSignal,
	tls?: ConnectionOptions,
	protocol: UpstreamProtocol = 'http/1.1',
): Promise<Verdict> {
	if (settings.grpcService !== undefined)
		return askGrpc(address, settings.grpcService, settings.timeoutMs, abandoned, tls);
	if (protocol !== 'http/1.1') return askHttp2(address, settings, abandoned, tls, protocol === 'auto');
	const verdict = await ask(address, settings, abandoned, tls);
	if (tls !== undefined || !mayBeTls(verdict) || abandoned.aborted) return verdict;
	const isTls = await speaksTls(address, settings.timeoutMs, abandoned);
	return isTls ? { healthy: false, cause: SPEAKS_TLS } : verdict;
}

/** @param mayBeHttp1 if the server chooses HTTP/1.1, the same connection is used, within the same time. */
async function askHttp2(
	address: UpstreamAddress,
	settings: HealthSettings,
	abandoned: AbortSignal,
	tls: ConnectionOptions | undefined,
	mayBeHttp1: boolean,
): Promise<Verdict> {
	const { path, timeoutMs } = settings;
	const began = performance.now();
	const question = { method: 'GET', path, fields: ['user-agent', USER_AGENT] };
	const response = await callHttp2(address, question, { tls, maxBody: 0, limitMs: timeoutMs, mayBeHttp1 }, abandoned);
	if ('http1' in response) {
		return ask(address, settings, abandoned, response.http1, timeoutMs - (performance.now() - began));
	}
	if ('error' in response) return failureOf(response.error);
	return 'cause' in response ? { healthy: false, cause: response.cause } : verdictOn(response.status);
}

/** gRPC is HTTP/2, whatever protocol requests are sent in. */
async function askGrpc(
	address: UpstreamAddress,
	service: string,
	timeoutMs: number,
	abandoned: AbortSignal,
	tls: ConnectionOptions | undefined,
): Promise<Verdict> {
	const fields = ['content-type', 'application/grpc', 'te', 'trailers', 'user-agent', USER_AGENT];
	const question = { method: 'POST', path: HEALTH_CHECK_PATH, fields, body: healthRequest(service) };
	const own = tls && { ...tls, ALPNProtocols: ['h2'] };
	const response = await callHttp2(
		address,
		question,
		{ tls: own, maxBody: MAX_RESPONSE, limitMs: timeoutMs },
		abandoned,
	);
	if ('error' in response) return failureOf(response.error);
	if (!('status' in response)) return { healthy: false, cause: 'cause' in response ? response.cause : CLOSED };
	if (response.status !== 200) return { healthy: false, cause: `status ${response.status} instead of gRPC` };
	// A call without a message has its status in the head.
	const status = grpcStatusIn(response.trailers) ?? grpcStatusIn(response.fields);
	const problem = status === 0 ? healthProblem(response.body) : `grpc-status ${status ?? 'missing'}`;
	return problem === undefined ? { healthy: true, cause: 'serving' } : { healthy: false, cause: problem };
}

/** @param over TLS, plain HTTP, or an open connection. */
function ask(
	address: UpstreamAddress,
	{ path, timeoutMs }: HealthSettings,
	abandoned: AbortSignal,
	over: ConnectionOptions | Socket | undefined,
	limitMs = timeoutMs,
): Promise<Verdict> {
	return new Promise((resolve) => {
		const isMade = over instanceof Socket;
		const tls = isMade ? undefined : over;
		const { request } = tls === undefined ? http : https;
		const probe = request({
			...tls,
			// A new agent for each probe over TLS: a shared one would keep sessions, and a resumed session proves no certificate.
			...(isMade ? { createConnection: () => over } : { agent: tls === undefined && AGENT }),
			host: address.host,
			port: address.port,
			path,
			headers: { host: address.hostField ?? address.authority, 'user-agent': USER_AGENT },
			signal: abandoned,
		});
		const limit = setTimeout(() => {
			// Timers run before sockets are read: on a busy thread an unread response may have arrived already.
			setImmediate(() => {
				resolve({ healthy: false, cause: silenceCause('response', timeoutMs) });
				probe.destroy();
			});
		}, limitMs);
		probe.on('response', (response) => {
			resolve(verdictOn(response.statusCode!));
			discard(response, probe);
		});
		probe.on('error', (error) => resolve(failureOf(error)));
		// Any other end, such as an unexpected 101.
		probe.on('close', () => {
			clearTimeout(limit);
			resolve({ healthy: false, cause: CLOSED });
		});
		probe.end();
	});
}

const USER_AGENT = 'mtls-edge-proxy/health';
const NO_HTTP = 'no HTTP response';

/**
 * Whether a failure suggests TLS: a TLS server that gets a plain request closes the connection, sends an alert, or answers 400 in
 * plain HTTP.
 */
function mayBeTls(verdict: Verdict): boolean {
	if (verdict.healthy !== false) return false;
	return verdict.status === undefined
		? [CLOSED, NO_HTTP, connectionCause({ code: 'ECONNRESET' } as NodeJS.ErrnoException)].includes(verdict.cause)
		: verdict.status === 400;
}

/** Tries a TLS handshake on a new connection. Used only after a plain request has failed in a way that suggests TLS. */
function speaksTls({ host, port }: UpstreamAddress, limitMs: number, abandoned: AbortSignal): Promise<boolean> {
	return new Promise((resolve) => {
		// Nothing is sent over it, so the certificate does not matter.
		const socket = connect({ host, port, rejectUnauthorized: false });
		const end = (isTls: boolean) => {
			clearTimeout(limit);
			abandoned.removeEventListener('abort', abandon);
			socket.destroy();
			resolve(isTls);
		};
		const abandon = () => end(false);
		const limit = setTimeout(abandon, limitMs);
		abandoned.addEventListener('abort', abandon);
		socket.on('secureConnect', () => end(true));
		// An alert, for example one that requires a client certificate, is TLS as well.
		socket.on('error', ({ code = '' }: NodeJS.ErrnoException) => end(/^ERR_SSL_.*_ALERT_/.test(code)));
		socket.on('close', abandon);
	});
}

/** Keeps no connections. `agent: false` would do the same, with a new agent for each probe. */
const AGENT = new http.Agent({ keepAlive: false });

function verdictOn(status: number): Verdict {
	return { healthy: status >= 200 && status < 300, cause: `status ${status}`, status };
}

/** Reads and drops the body. The time limit still applies, so it cannot last long. */
function discard(response: IncomingMessage, probe: ClientRequest): void {
	let bytes = 0;
	response.on('data', (chunk: Buffer) => {
		bytes += chunk.length;
		if (bytes > MAX_BODY_BYTES) probe.destroy();
	});
	// The verdict depends on the head only.
	response.on('error', () => {});
}

function failureOf(error: NodeJS.ErrnoException): Verdict {
	const { code } = error;
	// llhttp could not parse the response.
	const cause = code?.startsWith('HPE_') ? NO_HTTP : connectionCause(error);
	return { healthy: code !== undefined && EXHAUSTED.has(code) ? 'unknown' : false, cause };
}

/** Errors of this machine: no descriptor, port or memory left. Clients with too many connections must not open every breaker. */
const EXHAUSTED = new Set(['EMFILE', 'ENFILE', 'EADDRNOTAVAIL', 'ENOBUFS', 'ENOMEM']);
