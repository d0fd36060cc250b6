import { type IncomingMessage, STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import { checkGuard, questionTo } from './admission.ts';
import { authorizationIn, type Caller, certificateIn } from './caller.ts';
import type { FaultReport } from './contained.ts';
import { faultReport } from './fault-report.ts';
import { callForeign } from './foreign.ts';
import type { Claims, Gate } from './gate.ts';
import { checkHandler, FUNCTION, type Kinds, SCOPES } from './options.ts';
import type { Refusal } from './refusal.ts';
import { releaseAfterConnection } from './slot.ts';

/** Takes over a connection, for example by `handleUpgrade` of the package `ws`. */
export type UpgradeHandler = (req: IncomingMessage, socket: Duplex, head: Buffer, claims: Claims) => unknown;

export interface UpgradeOptions extends Pick<Caller, 'scopes'> {
	/** Called with what the handler throws or rejects with; the socket is then closed. Default: a warning of the process. */
	readonly onError?: FaultReport;
}

/**
 * Puts a gate in front of `upgrade` events, which bypass every middleware: `server.on('upgrade', guardUpgrade(gate, handler))`.
 * Refuses the handshake (401 `unauthorized`, 429 `rate limited`) and closes the connection, or sets `req.claims` and calls the handler.
 * The token is checked once: messages on the connection are not counted, and the connection outlives the token's `exp` unless the handler
 * ends it. If its tenant has a `concurrency`, the connection counts as one request until it closes.
 */
export function guardUpgrade(
	gate: Gate,
	handler: UpgradeHandler,
	...given: [options?: UpgradeOptions]
): (req: IncomingMessage, socket: Duplex, head: Buffer) => void {
	const { onError, scopes = [] } = checkGuard<UpgradeOptions>(gate, given, KINDS);
	checkHandler('ERR_GATE_OPTIONS', handler);
	const report = faultReport(onError);
	const ask = questionTo(gate);
	return (req, socket, head) => {
		// Node no longer handles errors of this socket: a reset by the client would end the process.
		socket.on('error', () => socket.destroy());
		const verdict = ask(req, authorizationIn(req.rawHeaders), { certificate: () => certificateIn(socket), scopes });
		if (!verdict.ok) {
			refuseUpgrade(socket, verdict.refusal);
			return;
		}
		req.claims = verdict.claims;
		if (verdict.slot !== undefined) releaseAfterConnection(verdict.slot, socket);
		callForeign(
			() => handler(req, socket, head, verdict.claims),
			(error) => {
				report(error, req);
				socket.destroy();
			},
		);
	};
}

const KINDS: Kinds<UpgradeOptions> = { scopes: SCOPES, onError: FUNCTION };

/** Writes the response by hand, because an upgrade has no response object. @internal */
export function refuseUpgrade(socket: Duplex, { status, headers, body }: Refusal): void {
	const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
	socket.once('finish', () => socket.destroy());
	// Reads what the client has already sent. Unread bytes would turn the close into a reset, and the response would be lost.
	socket.resume();
	socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('')}connection: close\r\n\r\n${body}`);
}
