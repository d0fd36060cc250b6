import { connect } from 'node:net';
import { CommandError } from '../command.ts';
import type { Address } from '../options.ts';

export interface MetricsResponse {
	readonly status: number;
	readonly body: string;
}

/** Largest response other than the metrics page. */
const MAX_RESPONSE_BYTES = 64 * 1024;

/**
 * Asks the metrics listener of a running proxy, in HTTP/1.0 (RFC 1945): the response has no chunks and ends with the connection.
 * Written by hand, because a health check runs every few seconds in every container, and loading node:http takes 60 ms of
 * CPU, more than everything else in it.
 *
 * @param limitMs time limit for the whole response.
 * @param maxBytes largest response, in characters.
 * @throws CommandError if there is no response.
 */
export function askMetrics(
	address: Address,
	path: string,
	limitMs: number,
	maxBytes = MAX_RESPONSE_BYTES,
): Promise<MetricsResponse> {
	return new Promise((resolve, reject) => {
		const socket = connect(address);
		const fail = (reason: string) => {
			clearTimeout(timer);
			socket.destroy();
			reject(new CommandError(`${formatHost(address)}: ${reason}`));
		};
		const timer = setTimeout(() => fail(`no response within ${limitMs} ms`), limitMs);
		let received = '';
		socket.setEncoding('utf8');
		socket.on('data', (text: string) => {
			received += text;
			if (received.length > maxBytes) fail('sent more than a proxy would; is that its --metrics-bind?');
		});
		socket.on('end', () => {
			const read = readResponse(received);
			if (typeof read === 'string') return fail(read);
			clearTimeout(timer);
			resolve(read);
		});
		socket.on('error', (error) => fail(describe(error)));
		socket.write(`GET ${path} HTTP/1.0\r\nHost: ${formatHost(address)}\r\n\r\n`);
	});
}

/** @returns the response, or in words why it is invalid. */
export function readResponse(text: string): MetricsResponse | string {
	const [, status, body] = /^HTTP\/1\.[01] (\d{3}) [\s\S]*?\r\n\r\n([\s\S]*)$/.exec(text) ?? [];
	if (status === undefined || body === undefined) {
		return text === ''
			? 'closed the connection without a response'
			: 'does not speak HTTP; is that its --metrics-bind?';
	}
	return { status: Number(status), body };
}

export function formatHost({ host, port }: Address): string {
	return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

function describe({ code = '', message }: NodeJS.ErrnoException): string {
	return REASONS.get(code) ?? message;
}

const REASONS = new Map([
	['ECONNREFUSED', 'nothing listens there (ECONNREFUSED); is the proxy running, and is that its --metrics-bind?'],
	['ECONNRESET', 'closed the connection without a response (ECONNRESET)'],
	['ENOTFOUND', 'no such host name (ENOTFOUND)'],
	['EHOSTUNREACH', 'no route to that host (EHOSTUNREACH)'],
]);
