/** Floods of gRPC calls and of trailers, as fast as the proxy reads. Their HTTP/2 server responds to a call when it ends. */
import { createServer, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { dataFrame, headersFrame, rstStreamFrame } from '../fixtures/h2-frames.ts';
import type { Attack, Attacker } from './attacks.ts';
import { type Flood, pour, pours } from './floods.ts';

/** Path of the calls. */
const PATH = '/grpc/echo.Echo/Say';
/** A message of one byte, with its prefix. */
const MESSAGE = Buffer.of(0, 0, 0, 0, 1, 120);
/** Calls per write, and messages per call. */
const CALLS = 20;
const MESSAGES = 100;
/** Size of a trailer section: within the limit of a head. */
const SHORT_FIELDS = fields(250, 1);
const LONG_FIELDS = fields(4, 3_500);

function fields(count: number, length: number): [string, string][] {
	return Array.from({ length: count }, (_, i) => [`x-${i}`, 'y'.repeat(length)]);
}

function call(id: number, attacker: Attacker, more: readonly [string, string][] = []): Buffer {
	const own: [string, string][] = [
		[':method', 'POST'],
		[':path', PATH],
		[':scheme', 'https'],
		[':authority', 'localhost'],
		['authorization', `Bearer ${attacker.token(id)}`],
		['content-type', 'application/grpc'],
		['te', 'trailers'],
	];
	return headersFrame(id, [...own, ...more], { endStream: false });
}

/** @param frames of one call. */
const ofCalls =
	(frames: (id: number, attacker: Attacker) => readonly Buffer[]): Flood['chunk'] =>
	(nextId, attacker) =>
		Buffer.concat(Array.from({ length: CALLS }, () => frames(nextId(), attacker)).flat());

const withTrailers = (trailers: [string, string][]): Flood['chunk'] =>
	ofCalls((id, attacker) => [call(id, attacker), dataFrame(id, MESSAGE), headersFrame(id, trailers)]);

const http1Trailers =
	(trailers: readonly [string, string][]): Flood['chunk'] =>
	(_nextId, attacker) =>
		Buffer.from(
			`POST / HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${attacker.token(0)}\r\ntransfer-encoding: chunked\r\n\r\n` +
				`1\r\nx\r\n0\r\n${trailers.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`,
		);

const FLOODS: readonly Flood[] = [
	{
		name: 'gRPC messages of a byte on many streams',
		alpn: 'h2',
		chunk: (nextId, attacker) => {
			const ids = Array.from({ length: CALLS }, nextId);
			const messages = (isLast: boolean) => ids.map((id) => dataFrame(id, MESSAGE, isLast));
			const rounds = Array.from({ length: MESSAGES }, (_, i) => messages(i === MESSAGES - 1));
			return Buffer.concat([...ids.map((id) => call(id, attacker)), ...rounds.flat()]);
		},
	},
	{
		name: 'gRPC calls opened and cancelled',
		alpn: 'h2',
		chunk: ofCalls((id, attacker) => [call(id, attacker), dataFrame(id, MESSAGE), rstStreamFrame(id)]),
	},
	{
		name: 'gRPC calls with a timeout of 1 ns',
		alpn: 'h2',
		chunk: ofCalls((id, attacker) => [call(id, attacker, [['grpc-timeout', '1n']]), dataFrame(id, MESSAGE, true)]),
	},
	{ name: 'trailers of 250 fields over h2', alpn: 'h2', chunk: withTrailers(SHORT_FIELDS) },
	{ name: 'trailers of 14 KB over h2', alpn: 'h2', chunk: withTrailers(LONG_FIELDS) },
	{ name: 'trailers of 250 fields over h1', alpn: 'http/1.1', isSame: true, chunk: http1Trailers(SHORT_FIELDS) },
	{ name: 'trailers of 14 KB over h1', alpn: 'http/1.1', isSame: true, chunk: http1Trailers(LONG_FIELDS) },
];

export const GRPC_FLOODS: readonly Attack[] = pours(
	FLOODS.map((flood) => ({ name: flood.name, pour: (attacker) => pour(attacker, flood) })),
);

/** The server of these calls. @param onListening receives the port. */
export function serveCalls(onListening: (port: number) => void): void {
	const server = createServer();
	server.on('sessionError', () => {});
	server.on('stream', (stream: ServerHttp2Stream) => {
		stream.on('error', () => {});
		stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
		stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
		stream.on('end', () => stream.end()).resume();
	});
	server.listen(0, '127.0.0.1', () => onListening((server.address() as AddressInfo).port));
}
