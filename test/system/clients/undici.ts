/** undici as a client of the proxy; `clients.ts` says what it sends and prints. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Readable } from 'node:stream';
import { Agent, type Dispatcher } from 'undici';

const MIB = Buffer.from(Uint8Array.from({ length: 1 << 20 }, (_, i) => i % 251));
const SMALL = MIB.subarray(0, 16_384);
const REQUESTS = 200;
const LOOPS = 4;

const [base, protocol, mode] = process.argv.slice(2) as [string, 'h1' | 'h2', string];
const { origin, pathname } = new URL(base);
const read = (variable: string) => readFileSync(process.env[variable]!);
const agent = new Agent({
	allowH2: protocol === 'h2',
	pipelining: protocol === 'h2' ? 100 : 1,
	// Over HTTP/2 requests share one connection. Over HTTP/1.1 each concurrent request has its own.
	connections: protocol === 'h2' || mode !== 'drain' ? 1 : null,
	connect: { ca: read('EDGE_CA'), cert: read('EDGE_CERT'), key: read('EDGE_KEY') },
});

if (mode === 'exchange') await exchange();
else if (mode === 'upload') await ask('POST', '/upload', Readable.from(pieces()), Number(process.env.EDGE_UPLOAD));
else await drain();
await agent.close();

async function exchange(): Promise<void> {
	await ask('GET', '/mib');
	await ask('POST', '/echo', MIB);
	for (let i = 0; i < REQUESTS; i++) await ask('GET', `/n/${i}`);
}

async function drain(): Promise<void> {
	await ask('GET', '/first');
	const loop = async (number: number) => {
		for (let i = 0; await ask('GET', `/loop/${number}/${i}`); i++);
	};
	await Promise.all([
		...[0, 1].map((i) => ask('GET', `/held/${i}`)),
		...[2, 3].map((i) => ask('POST', `/held/${i}`, SMALL)),
		...Array.from({ length: LOOPS }, (_, number) => loop(number)),
	]);
}

/** Not as one buffer: with 10 MB to send, Node's HTTP/2 reads no more response headers (`maxSessionMemory`). */
function* pieces(): Iterable<Buffer> {
	for (let left = Number(process.env.EDGE_UPLOAD); left > 0; left -= SMALL.length) {
		yield SMALL.subarray(0, Math.min(left, SMALL.length));
	}
}

/** One request and its report. Resolves with whether the response was complete. */
async function ask(
	method: Dispatcher.HttpMethod,
	path: string,
	body: Buffer | Readable | null = null,
	length?: number,
): Promise<boolean> {
	const target = pathname + path;
	try {
		const headers = {
			authorization: `Bearer ${process.env.EDGE_TOKEN}`,
			...(length !== undefined && { 'content-length': String(length) }),
		};
		const answer = await agent.request({ origin, method, path: target, headers, body });
		const digest = createHash('sha256')
			.update(Buffer.from(await answer.body.arrayBuffer()))
			.digest('hex');
		report({ request: `${method} ${target}`, status: answer.statusCode, digest });
		return true;
	} catch (error) {
		report({ request: `${method} ${target}`, error: String(error) });
		return false;
	}
}

function report(line: object): void {
	process.stdout.write(`${JSON.stringify(line)}\n`);
}
