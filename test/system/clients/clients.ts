/**
 * Third-party clients, run as processes in front of the proxy.
 *
 * A client that is a library has a small program in this folder. It is called with BASE PROTOCOL MODE and takes EDGE_CA, EDGE_CERT,
 * EDGE_KEY (paths) and EDGE_TOKEN from its environment. It prints one JSON line (`Report`) for each finished request.
 * - `exchange` sends the requests of `EXCHANGE`, one after the other.
 * - `drain` requests `/first`, then at once all of `HELD`, and GET `/loop/<loop>/<i>` in four loops, each until the first request without
 *   a response.
 * - `upload` sends POST `/upload` with EDGE_UPLOAD bytes.
 *
 * The body of a POST is `MIB`, in a drain `SMALL`: httpcore 0.16 (below httpx) can wait for ever for upload windows while other requests are
 * in flight on the connection. curl and nghttp do the same as far as their command lines allow (`commands.ts`).
 */
import { resolve } from 'node:path';
import type { Protocol } from '../../fixtures/clients.ts';
import { temporaryFolder } from '../../fixtures/pki.ts';
import { curl, curlParallel, curlUpload, nghttp, nghttpBody } from './commands.ts';
import { type Edge, edgeEnvironment, output, runs } from './process.ts';
import { EXCHANGE, HELD, type Report } from './requests.ts';

export interface Client {
	readonly name: string;
	/** Debian's package. */
	readonly packages: string;
	readonly protocols: readonly Protocol[];
	/** Number of TLS connections that `exchange` opens. */
	readonly connections: number;
	/** Which of `HELD` it can have in flight at once. */
	readonly held: readonly string[];
	/** A fault of the client: at any GOAWAY it gives up its requests in flight. Its error messages then, and a link to the fault. */
	readonly gaveUp?: { readonly error: RegExp; readonly why: string };
	/** Whether it runs on this machine. */
	isThere(): boolean;
	exchange(edge: Edge): Promise<Report[]>;
	/** Ends when the proxy takes no more requests, and those of `held` are over. */
	drain(edge: Edge): Promise<Report[]>;
	/** A POST of this many bytes; absent if its command line cannot do that. */
	upload?(edge: Edge, bytes: number): Promise<Report[]>;
}

/** Sent by clients without loops: more requests than are answered before the drain begins. */
const MANY = Array.from({ length: 10_000 }, (_, i) => `GET /loop/0/${i}`);
const GETS = HELD.filter((request) => request.startsWith('GET'));
const PYTHONS = ['python3', '/usr/bin/python3'];

const file = (name: string) => resolve(import.meta.dirname, name);

export const CLIENTS: readonly Client[] = [
	{
		name: 'curl',
		packages: 'curl',
		protocols: ['h1', 'h2'],
		connections: 1,
		held: HELD,
		isThere: () => runs('curl', '--version'),
		exchange: (edge) => curl(edge, EXCHANGE),
		drain: (edge) => curlParallel(edge, [...HELD, ...MANY]),
		upload: curlUpload,
	},
	{
		name: 'nghttp',
		packages: 'nghttp2-client',
		protocols: ['h2'],
		// It has one body for all requests or none, and shows either a response's body or all statuses.
		connections: 3,
		held: GETS,
		isThere: () => runs('nghttp', '--version'),
		exchange: async (edge) => [
			...(await nghttpBody(edge, 'GET /mib')),
			...(await nghttpBody(edge, 'POST /echo')),
			...(await nghttp(edge, EXCHANGE.slice(2))),
		],
		drain: (edge) => nghttp(edge, [...GETS, ...MANY]),
	},
	program({
		name: 'Go net/http',
		packages: 'golang-go',
		isThere: () => runs('go', 'version'),
		command: async () => {
			const binary = `${temporaryFolder('go')}/client`;
			await output(['go', 'build', '-o', binary, file('main.go')], { GO111MODULE: 'off', CGO_ENABLED: '0' });
			return [binary];
		},
	}),
	program({
		name: 'Python httpx',
		packages: 'python3-httpx, python3-h2',
		isThere: () => python('httpx, h2') !== undefined,
		command: () => [python('httpx, h2')!, file('client.py')],
		gaveUp: {
			error: /ConnectionState\.CLOSED|ConnectionTerminated|Server disconnected/,
			why: 'httpcore ends a connection with all its requests at any GOAWAY',
		},
	}),
	program({
		name: "Java's HttpClient",
		packages: 'default-jre-headless',
		isThere: () => runs('java', '--version'),
		command: () => ['java', file('Main.java')],
		gaveUp: { error: /GOAWAY received/, why: 'JDK-8335181, mended in Java 17.0.17 and 24' },
	}),
	program({
		name: 'undici',
		packages: 'none, npm installs it',
		isThere: () => true,
		command: () => [process.execPath, file('undici.ts')],
	}),
];

/** A gRPC client's report of one call. */
interface CallReport {
	/** Method and path. */
	readonly request: string;
	/** Name of its gRPC status. */
	readonly code: string;
	readonly details: string;
}

/** A gRPC client (C-core, by Python) that calls `/upload` with a message of this many bytes and a deadline of 30 s. */
export const GRPC = {
	packages: 'python3-grpcio',
	isThere: (): boolean => python('grpc') !== undefined,
	async upload(edge: Edge, bytes: number): Promise<CallReport> {
		return JSON.parse(await output([python('grpc')!, file('unary.py'), edge.base], edgeEnvironment(edge, bytes)));
	},
};

interface Program extends Pick<Client, 'name' | 'packages' | 'gaveUp' | 'isThere'> {
	/** The command line before BASE PROTOCOL MODE; found once. */
	command(): string[] | Promise<string[]>;
}

function program({ command, ...rest }: Program): Client {
	let known: string[] | Promise<string[]> | undefined;
	const run = async (edge: Edge, mode: string, bytes?: number): Promise<Report[]> => {
		known ??= command();
		const lines = await output([...(await known), edge.base, edge.protocol, mode], edgeEnvironment(edge, bytes));
		return lines
			.trim()
			.split('\n')
			.map((line) => JSON.parse(line));
	};
	return {
		...rest,
		protocols: ['h1', 'h2'],
		connections: 1,
		held: HELD,
		exchange: (edge) => run(edge, 'exchange'),
		drain: (edge) => run(edge, 'drain'),
		upload: (edge, bytes) => run(edge, 'upload', bytes),
	};
}

/** The interpreter that has these modules: with several on PATH, it need not be the first one. */
function python(modules: string): string | undefined {
	return PYTHONS.find((interpreter) => runs(interpreter, '-c', `import ${modules}`));
}
