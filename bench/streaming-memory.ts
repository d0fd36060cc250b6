/**
 * Memory that streaming mode holds for a long response to a slow client. Exit code 1 if it is more than 256 KiB per request beyond
 * socket buffers. Linux only, for /proc.
 *
 *   node bench/streaming-memory.ts                     1 GiB per request, read at 128 MiB/s
 *   node bench/streaming-memory.ts --mib 4096 --rate 32
 *   PROXY_TEST_MAIN=packages/proxy/dist/main.js node bench/streaming-memory.ts   a build with --features boxed_body
 *
 * Held bytes are those that the process has read from its sockets and not written to others (rchar less wchar of /proc/pid/io),
 * sampled every 20 ms. Resident memory is that of the whole process, uncollected garbage included.
 */
import { parseArgs } from 'node:util';
import { connectTls, PROTOCOLS, type Protocol } from '../test/fixtures/clients.ts';
import {
	FLAG,
	FRAME,
	FrameReader,
	headersFrame,
	PREFACE,
	settingsFrame,
	windowUpdateFrame,
} from '../test/fixtures/h2-frames.ts';
import { testPki } from '../test/fixtures/pki.ts';
import { heldBytes, residentBytes } from '../test/fixtures/proc.ts';
import { type ProxyProcess, startProxy } from '../test/fixtures/proxy.ts';
import { type Script, startUpstream } from '../test/fixtures/upstream.ts';

const MiB = 1024 * 1024;
const MAX_HELD = 256 * 1024;
const { values } = parseArgs({
	options: { mib: { type: 'string', default: '1024' }, rate: { type: 'string', default: '128' } },
});
const size = Number(values.mib) * MiB;
const bytesPerMs = (Number(values.rate) * MiB) / 1000;
const token = (await testPki()).token();

// The harness compares the ready line with it.
process.env.PROXY_TEST_BODY = 'streaming';
await using upstream = await startUpstream();
await using proxy = await startProxy({
	boxedBody: true,
	poisonsReads: false,
	workers: 1,
	routes: [{ prefix: '/', upstream: upstream.url }],
});

console.log(`answers of ${values.mib} MiB, read at ${values.rate} MiB/s a client`);
console.log('clients    seconds   held a request   resident before   at most');
for (const protocol of PROTOCOLS) {
	// Memory needed once: code, buffers of the first connections.
	await measure(protocol, 4, 64 * MiB, Number.POSITIVE_INFINITY);
	for (const clients of [1, 8]) {
		const { seconds, held, before, resident } = await measure(protocol, clients, size / clients, bytesPerMs);
		const heldEach = held / clients;
		if (heldEach > MAX_HELD) process.exitCode = 1;
		const columns = [`${clients} × ${protocol}`, seconds.toFixed(1), kib(heldEach), mib(before), mib(resident)];
		console.log(columns.map((column, i) => column.padStart([7, 11, 17, 18, 10][i]!)).join(''));
	}
}

/** `clients` at once, each with one response of `bytes`. */
async function measure(protocol: Protocol, clients: number, bytes: number, rate: number) {
	upstream.script = answer(bytes);
	const before = { held: heldBytes(proxy.pid), resident: residentBytes(proxy.pid) };
	let [held, resident] = [0, before.resident];
	const watch = setInterval(() => {
		held = Math.max(held, heldBytes(proxy.pid) - before.held);
		resident = Math.max(resident, residentBytes(proxy.pid));
	}, 20);
	const startedAt = performance.now();
	await Promise.all(Array.from({ length: clients }, () => download(protocol, proxy, bytes, rate)));
	clearInterval(watch);
	return { seconds: (performance.now() - startedAt) / 1000, held, before: before.resident, resident };
}

/** As fast as the connection takes it. */
function answer(bytes: number): Script {
	const piece = Buffer.alloc(MiB, 'x');
	return async (exchange) => {
		const { socket } = exchange;
		exchange.write(exchange.head({}, [['content-length', String(bytes)]]));
		for (let left = bytes; left > 0 && !socket.destroyed; left -= MiB) {
			if (!socket.write(piece)) await new Promise((resolve) => socket.once('drain', resolve));
		}
	};
}

/** Reads a response of `bytes` at `rate` bytes per millisecond, and drops it. */
async function download(protocol: Protocol, target: ProxyProcess, bytes: number, rate: number): Promise<void> {
	const socket = await connectTls(target, { alpn: [protocol === 'h2' ? 'h2' : 'http/1.1'] });
	const whole = Promise.withResolvers<void>();
	socket.on('close', () => whole.reject(new Error('the answer was cut off')));
	const startedAt = performance.now();
	const body = protocol === 'h2' ? http2Body() : http1Body();
	let received = 0;
	socket.on('data', (chunk: Buffer) => {
		received += body(chunk);
		if (received >= bytes) return whole.resolve();
		const early = received / rate - (performance.now() - startedAt);
		if (early < 5) return;
		socket.pause();
		setTimeout(() => socket.resume(), early);
	});
	if (protocol === 'h1') {
		socket.write(`GET / HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${token}\r\n\r\n`);
	} else {
		// Windows that do not limit anything: only the reader's pace does.
		socket.write(Buffer.concat([PREFACE, settingsFrame([[0x4, 2 ** 31 - 1]]), windowUpdateFrame(0, 2 ** 31 - 65_536)]));
		const pseudo: [string, string][] = [
			[':method', 'GET'],
			[':path', '/'],
			[':scheme', 'https'],
			[':authority', 'x'],
		];
		socket.write(headersFrame(1, [...pseudo, ['authorization', `Bearer ${token}`]]));
	}
	await whole.promise;
	socket.destroy();
}

/** How many bytes of a chunk belong to the body. */
function http1Body(): (chunk: Buffer) => number {
	let inBody = false;
	return (chunk) => {
		if (inBody) return chunk.length;
		// The head comes in one piece.
		inBody = true;
		return chunk.length - chunk.indexOf('\r\n\r\n') - 4;
	};
}

function http2Body(): (chunk: Buffer) => number {
	const reader = new FrameReader();
	return (chunk) => {
		let bytes = 0;
		for (const { type, flags, payload } of reader.push(chunk)) {
			if (type === FRAME.RST_STREAM || type === FRAME.GOAWAY) throw new Error('the answer was cut off');
			if (type === FRAME.DATA) bytes += payload.length - (flags & FLAG.PADDED ? payload[0]! + 1 : 0);
		}
		return bytes;
	};
}

function kib(bytes: number): string {
	return `${(bytes / 1024).toFixed(0)} KiB`;
}

function mib(bytes: number): string {
	return `${(bytes / MiB).toFixed(0)} MiB`;
}
