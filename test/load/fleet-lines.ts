import { type ClientHttp2Session, connect as connectHttp2, constants } from 'node:http2';
import { Agent, request } from 'node:https';
import { connect as connectTls } from 'node:tls';
import type { Protocol } from '../fixtures/clients.ts';
import type { TestPki } from '../fixtures/pki.ts';

/** Target and source of a tenant's connections. */
interface LineOptions {
	readonly port: number;
	/** A different loopback address for each tenant, which identifies it behind the balancer. */
	readonly localAddress: string;
	readonly authorization: string;
	readonly pki: TestPki;
}

/** Outcome of a request: its complete response, or an error code. */
export type Outcome = { readonly status: number; readonly body: string } | { readonly error: string };

/** One connection, reopened after it ends. */
export interface Line {
	/** @param onSent called when the request is sent: it may have waited for a connection. */
	ask(onSent: () => void, onOutcome: (outcome: Outcome) => void): void;
	close(): void;
}

export function openLine(protocol: Protocol, options: LineOptions): Line {
	return protocol === 'h1' ? new H1Line(options) : new H2Line(options);
}

function tlsOptions({ port, localAddress, pki }: LineOptions) {
	const { certPem: cert, keyPem: key } = pki.clients.valid;
	return { host: '127.0.0.1', port, localAddress, ca: pki.ca.certPem, cert, key, servername: 'localhost' };
}

class H1Line implements Line {
	readonly #agent: Agent;
	readonly #options;

	constructor(options: LineOptions) {
		this.#agent = new Agent({ keepAlive: true, maxSockets: 1, maxCachedSessions: 0 });
		this.#options = {
			...tlsOptions(options),
			agent: this.#agent,
			path: '/',
			headers: { authorization: options.authorization },
		};
	}

	ask(onSent: () => void, onOutcome: (outcome: Outcome) => void): void {
		let hasBegun = false;
		const call = request(this.#options, (response) => {
			hasBegun = true;
			let body = '';
			response.setEncoding('latin1').on('data', (text: string) => {
				body += text;
			});
			response.on('error', () => {});
			response.on('close', () => {
				onOutcome(response.complete ? { status: response.statusCode!, body } : { error: 'broken off' });
			});
		});
		call.on('socket', (socket) => {
			if (socket.connecting) socket.once('secureConnect', onSent);
			else onSent();
		});
		call.on('error', (error: NodeJS.ErrnoException) => {
			// If a response has begun, its own end is reported.
			if (!hasBegun) onOutcome({ error: error.code ?? error.message });
		});
		call.end();
	}

	close(): void {
		this.#agent.destroy();
	}
}

class H2Line implements Line {
	readonly #options: LineOptions;
	/** Ways in which connections ended. */
	readonly #ends = new WeakMap<ClientHttp2Session, string>();
	#session: ClientHttp2Session | undefined;

	constructor(options: LineOptions) {
		this.#options = options;
	}

	ask(onSent: () => void, onOutcome: (outcome: Outcome) => void): void {
		this.#session ??= this.#open();
		const session = this.#session;
		const stream = session.request({ ':path': '/', authorization: this.#options.authorization });
		if (session.connecting) session.once('connect', onSent);
		else onSent();
		let status = 0;
		let body = '';
		let isWhole = false;
		let error: string | undefined;
		stream.setEncoding('latin1');
		stream.on('response', (headers) => {
			status = Number(headers[':status']);
		});
		stream.on('data', (text: string) => {
			body += text;
		});
		stream.on('end', () => {
			isWhole = stream.rstCode === constants.NGHTTP2_NO_ERROR;
		});
		stream.on('error', ({ code, message }: NodeJS.ErrnoException) => {
			error = code ?? message;
		});
		stream.on('close', () => {
			if (isWhole && status > 0) return onOutcome({ status, body });
			onOutcome({ error: error ?? `reset ${stream.rstCode}, the connection: ${this.#ends.get(session) ?? 'open'}` });
		});
	}

	#open(): ClientHttp2Session {
		const socket = connectTls({ ...tlsOptions(this.#options), ALPNProtocols: ['h2'] });
		socket.setNoDelay(true);
		const session = connectHttp2('https://localhost', { createConnection: () => socket });
		const ends = (how: string) => {
			if (this.#session === session) this.#session = undefined;
			if (!this.#ends.has(session)) this.#ends.set(session, how);
		};
		session.on('error', ({ code, message }: NodeJS.ErrnoException) => ends(code ?? message));
		session.on('goaway', (code) => ends(`GOAWAY ${code}`));
		session.on('close', () => ends('closed'));
		return session;
	}

	close(): void {
		this.#session?.destroy();
	}
}
