/**
 * Third-party HTTP/1.1 clients, fed from memory; the parser is compared with what they read. The clients are complete, with all their
 * checks. Only the socket is replaced, so that it is known which bytes they have seen, in which pieces, and that nothing more comes.
 */
import { request } from 'node:http';
import { Duplex } from 'node:stream';
import { Client } from 'undici';
import type { Field } from './responses.ts';

export interface ClientReading {
	/** `waiting`: the client wants more bytes. */
	readonly verdict: 'complete' | 'waiting' | 'refused';
	readonly status: number;
	readonly fields: readonly Field[];
	/** Latin1. */
	readonly body: string;
	/** `undefined`: the client does not report it. */
	readonly trailers?: readonly Field[];
	/** Error code and message of a refusal. */
	readonly reason: string;
}

type ReadingClient = (method: string, pieces: readonly string[], closes: boolean) => Promise<ClientReading>;

export const CLIENTS = {
	/** node:http on the llhttp that is compiled into Node. */
	node: readWithNode,
	/** undici with its own llhttp. */
	undici: (method, pieces, closes) => readWithUndici(method, pieces, closes, false),
	/** undici with Milo, which shares no code with llhttp. Milo is new, and loses its position when a line comes in two pieces. */
	milo: (method, pieces, closes) => readWithUndici(method, pieces.length > 0 ? [pieces.join('')] : [], closes, true),
} as const satisfies Record<string, ReadingClient>;

export type ClientName = keyof typeof CLIENTS;

const MAX_HEAD = 65_536;

interface Reading {
	verdict: ClientReading['verdict'];
	status: number;
	fields: Field[];
	body: string;
	trailers?: Field[];
	reason: string;
}

const nothing = (): Reading => ({ verdict: 'waiting', status: 0, fields: [], body: '', reason: '' });

async function readWithNode(method: string, pieces: readonly string[], closes: boolean): Promise<ClientReading> {
	const socket = new MemorySocket();
	const reading = nothing();
	const fail = ({ code, message }: NodeJS.ErrnoException) => {
		if (reading.verdict === 'waiting') Object.assign(reading, { verdict: 'refused', reason: `${code}: ${message}` });
	};
	const sent = request({ method, host: 'upstream', maxHeaderSize: MAX_HEAD, createConnection: () => socket });
	sent.on('error', fail);
	sent.on('response', (response) => {
		reading.status = response.statusCode!;
		reading.fields = paired(response.rawHeaders);
		response.on('error', fail);
		response.on('data', (chunk: Buffer) => {
			reading.body += chunk.toString('latin1');
		});
		response.on('end', () => {
			reading.trailers = paired(response.rawTrailers);
			if (response.complete && reading.verdict === 'waiting') reading.verdict = 'complete';
		});
	});
	sent.end();
	await socket.arrive(pieces, closes);
	const told = { ...reading };
	socket.destroy();
	return told;
}

async function readWithUndici(
	method: string,
	pieces: readonly string[],
	closes: boolean,
	useMilo: boolean,
): Promise<ClientReading> {
	const socket = new MemorySocket();
	const reading = nothing();
	// A client that was given a socket never asks for another one.
	let connections = 0;
	const client = new Client('http://upstream', {
		connect: (_options, done) => {
			if (connections++ === 0) queueMicrotask(() => done(null, socket as never));
		},
		useMilo,
		maxHeaderSize: MAX_HEAD,
		headersTimeout: FOREVER_MS,
		bodyTimeout: FOREVER_MS,
	});
	client.dispatch(
		{ method: method as 'GET', path: '/' },
		{
			onRequestStart() {},
			onResponseStart({ rawHeaders }, status) {
				if (status < 200) return;
				reading.status = status;
				reading.fields = paired((rawHeaders as Buffer[]).map((bytes) => bytes.toString('latin1')));
			},
			onResponseData(_, chunk) {
				reading.body += chunk.toString('latin1');
			},
			onResponseEnd() {
				reading.verdict = 'complete';
			},
			onResponseError(_, error) {
				const { code, message } = error as NodeJS.ErrnoException;
				Object.assign(reading, { verdict: 'refused', reason: `${code}: ${message}` });
			},
		},
	);
	await socket.arrive(pieces, closes);
	const told = { ...reading };
	client.destroy().catch(() => {});
	return told;
}

/** Long enough never to pass. */
const FOREVER_MS = 3_600_000;

function paired(raw: readonly string[]): Field[] {
	return Array.from({ length: raw.length / 2 }, (_, i): Field => [raw[2 * i]!, raw[2 * i + 1]!]);
}

/** The clients' socket. It drops what they send. */
class MemorySocket extends Duplex {
	constructor() {
		super({ allowHalfOpen: false });
		this.on('error', () => {});
	}

	/** Delivers the pieces, each read before the next one comes, and waits until the client has settled. */
	async arrive(pieces: readonly string[], closes: boolean): Promise<void> {
		await turns(2);
		for (const piece of pieces) {
			if (this.destroyed) break;
			this.push(piece, 'latin1');
			await turns(1);
		}
		await turns(2);
		if (closes && !this.destroyed) this.push(null);
		await turns(3);
	}

	override _read(): void {}

	override _write(_chunk: unknown, _encoding: unknown, done: () => void): void {
		done();
	}

	setNoDelay(): this {
		return this;
	}

	setKeepAlive(): this {
		return this;
	}

	setTimeout(): this {
		return this;
	}

	ref(): this {
		return this;
	}

	unref(): this {
		return this;
	}

	destroySoon(): void {
		this.destroy();
	}
}

/** Turns of the event loop: nothing here waits for the kernel, so a turn is enough for all its effects. */
async function turns(count: number): Promise<void> {
	for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve));
}
