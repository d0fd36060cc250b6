import { get } from 'node:http';
import { CommandError } from '../command.ts';
import type { Address } from '../options.ts';

export interface MetricsAnswer {
	readonly status: number;
	readonly body: string;
}

/** Nobody that is asked here has more to say. */
const MAX_BODY_BYTES = 64 * 1024;

/**
 * Asks the metrics listener of a running proxy.
 *
 * @param limitMs for the whole answer.
 * @throws CommandError when there is none.
 */
export function askMetrics({ host, port }: Address, path: string, limitMs: number): Promise<MetricsAnswer> {
	return new Promise((resolve, reject) => {
		const fail = (reason: string) => {
			clearTimeout(timer);
			request.destroy();
			reject(new CommandError(`${formatHost({ host, port })}: ${reason}`));
		};
		const timer = setTimeout(() => fail(`no answer within ${limitMs} ms`), limitMs);
		const request = get({ host, port, path, agent: false }, (response) => {
			let body = '';
			response.setEncoding('utf8');
			response.on('data', (chunk: string) => {
				body += chunk;
				if (body.length > MAX_BODY_BYTES) fail('answers with more than a proxy would say; is that its --metrics-bind?');
			});
			response.on('end', () => {
				clearTimeout(timer);
				resolve({ status: response.statusCode ?? 0, body });
			});
			response.on('error', (error) => fail(describe(error)));
		});
		request.on('error', (error) => fail(describe(error)));
	});
}

export function formatHost({ host, port }: Address): string {
	return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

function describe({ code = '', message }: NodeJS.ErrnoException): string {
	return REASONS.get(code) ?? (code.startsWith('HPE_') ? 'does not speak HTTP; is that its --metrics-bind?' : message);
}

const REASONS = new Map([
	['ECONNREFUSED', 'nobody listens there (ECONNREFUSED); does the proxy run, and is that its --metrics-bind?'],
	['ECONNRESET', 'the connection was closed without an answer (ECONNRESET)'],
	['ENOTFOUND', 'no such host name (ENOTFOUND)'],
	['EHOSTUNREACH', 'no route to that host (EHOSTUNREACH)'],
]);
