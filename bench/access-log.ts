/**
 * The cost of the access log per request, without the request: its record, its line, its share of the message to the main thread, and
 * that thread's work for it.
 *
 *   node bench/access-log.ts [log]   access = "all"
 *   node bench/access-log.ts ids     with request_id = true
 */
import { setImmediate as turn } from 'node:timers/promises';
import { MessageChannel } from 'node:worker_threads';
import { ClientConnection } from '../packages/proxy/src/data/client/client-connection.ts';
import { AccessLog } from '../packages/proxy/src/data/records/access-log.ts';
import { createRandomHex } from '../packages/proxy/src/data/records/random-hex.ts';
import { RequestLog } from '../packages/proxy/src/data/records/request-record.ts';
import { correlate } from '../packages/proxy/src/gates/correlation.ts';

const ROUNDS = 8;
const REQUESTS = 50_000;
/** Requests that end in one turn of the event loop. */
const PER_TURN = 30;

const clock = { now: () => performance.now(), wallSeconds: () => Date.now() / 1000 };
const certificate = { subject: 'O=Example\nCN=client-1', fingerprint256: Array(32).fill('AB').join(':') };
const connection = new ClientConnection(
	{
		getProtocol: () => 'TLSv1.3',
		getPeerX509Certificate: () => certificate as never,
		getX509Certificate: () => undefined,
	},
	'192.0.2.7',
	'h2',
);
const route = { prefix: '/api', upstream: { authority: '127.0.0.1:3000' } };
const hex = createRandomHex();
const ids = process.argv[2] === 'ids';

const { port1, port2 } = new MessageChannel();
const accessLog = new AccessLog({
	errorsOnly: false,
	clock,
	maxBytes: 2 ** 20,
	stats: { count: () => process.exit(1) },
	send: (lines, dropped) => port1.postMessage({ type: 'access-lines', lines, dropped }),
});
port2.on('message', ({ lines }) => accessLog.onWritten(lines.length));
const requests = new RequestLog(clock, [accessLog.write]);

function serve(i: number): void {
	const record = requests.begin({ connection, method: 'GET', target: `/api/items/${i % 1000}` }, clock.now())!;
	record.sent(clock.now());
	record.upstreamEnds();
	record.responds(200, undefined);
	record.gave(123);
	record.tenant = 'tenant-a';
	record.route = route;
	if (ids) record.correlation = correlate({ traceparent: undefined, tracestate: '', requestId: undefined }, hex);
	requests.end(record);
}

for (let round = 1; round <= ROUNDS; round++) {
	const before = process.cpuUsage();
	for (let i = 0; i < REQUESTS; i++) {
		serve(i);
		if (i % PER_TURN === 0) await turn();
	}
	const { user, system } = process.cpuUsage(before);
	console.log(`round ${round}: ${((user + system) / REQUESTS).toFixed(2)} us of CPU a request`);
}
port1.close();
