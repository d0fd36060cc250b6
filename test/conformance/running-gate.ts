import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mintToken, type TokenClaims } from '../../packages/proxy/src/cli/demo/tokens.ts';
import { type Answer, type Connection, connect, h2Raw, type Protocol, type TlsOptions } from '../fixtures/clients.ts';
import { FRAME, headersFrame } from '../fixtures/h2-frames.ts';
import { AUDIENCE, ISSUER, type TestPki, testPki } from '../fixtures/pki.ts';
import { rawAnswer } from './answers.ts';
import { FakeClock, type GateSettings, type RunningSubject, type Subject } from './subject.ts';

/** A running subject with a clock to turn, and a connection to it. */
export class RunningGate {
	readonly clock: FakeClock;
	readonly target: RunningSubject;
	readonly #pki: TestPki;
	readonly #connection: Connection;

	constructor(pki: TestPki, clock: FakeClock, target: RunningSubject, connection: Connection) {
		this.#pki = pki;
		this.clock = clock;
		this.target = target;
		this.#connection = connection;
	}

	/** Claims that pass. Each token is a new one, as issuers make them. */
	claims(overrides: TokenClaims = {}): TokenClaims {
		const jti = randomUUID();
		return { iss: ISSUER, aud: AUDIENCE, sub: 'tenant', exp: this.clock.wall + 3600, jti, ...overrides };
	}

	/** A token that passes, but for what the overrides say. */
	mint(overrides: TokenClaims = {}): string {
		return mintToken(this.#pki.tokenKey, this.claims(overrides));
	}

	/** A second connection, in addition to that of `ask`. */
	open(options: TlsOptions = {}): Promise<Connection> {
		return connect(this.#connection.protocol, this.target, options);
	}

	/** Asks who the caller is, with this `Authorization` header or without any. */
	ask(authorization: string | undefined, method = 'GET'): Promise<Answer> {
		return ask(this.#connection, authorization, method);
	}

	/** The body of the answer to two `Authorization` headers. */
	async askWithTwo(first: string, second: string): Promise<string> {
		if (this.#connection.protocol === 'h1') {
			const answer = await rawAnswer(this.target, `Authorization: ${first}\r\nAuthorization: ${second}\r\n`);
			return answer.slice(answer.indexOf('\r\n\r\n') + 4);
		}
		// By hand: node:http2 does not send them.
		using raw = await h2Raw(this.target);
		const pseudo = [
			[':method', 'GET'],
			[':path', '/whoami'],
			[':scheme', 'https'],
			[':authority', 'localhost'],
		] as const;
		raw.send(headersFrame(1, [...pseudo, ['authorization', first], ['authorization', second]]));
		return (await raw.frameOf(FRAME.DATA, 1)).payload.toString('latin1');
	}

	async whoami(claims: TokenClaims): Promise<unknown> {
		const answer = await this.ask(`Bearer ${this.mint(claims)}`);
		assert.equal(answer.status, 200, answer.text);
		return JSON.parse(answer.text);
	}

	async [Symbol.asyncDispose](): Promise<void> {
		await this.#connection.close();
		await this.target[Symbol.asyncDispose]();
	}
}

export async function start(
	subject: Subject,
	protocol: Protocol,
	overrides: Partial<GateSettings> = {},
): Promise<RunningGate> {
	const pki = await testPki();
	const clock = new FakeClock();
	const { publicKeyPem } = pki.tokenKey;
	const settings = { publicKeyPem, issuer: ISSUER, audience: AUDIENCE, tenantRps: 1000, clock, ...overrides };
	const running = await subject.start(settings);
	return new RunningGate(pki, clock, running, await connect(protocol, running));
}

export function ask(connection: Connection, authorization: string | undefined, method = 'GET'): Promise<Answer> {
	// No two requests are alike.
	const headers = { 'x-request-id': randomUUID(), ...(authorization !== undefined && { authorization }) };
	return connection.request({ method, path: '/whoami', headers, token: null });
}
