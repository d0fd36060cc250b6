/**
 * Third-party gRPC, as client and as server: C-core (by Python) and grpc-go. Each is one program without service definitions: messages are
 * bytes, as in fixtures/grpc-interop.ts.
 *
 * `serve NAME…` serves these services, with GRPC_CERT and GRPC_KEY (paths), and prints its `Ports`. `UnaryCall` and `FullDuplexCall` echo
 * and send `x-connection`. `StreamingInputCall` responds with the number of bytes, `StreamingOutputCall` with messages of the requested
 * sizes. Metadata `x-grpc-test-echo-…` comes back. `x-fails-bin` has the code and message with which a call ends. `Sleep` runs until it is
 * cancelled; `Asleep` returns how many calls with the same key still do.
 *
 * `call BASE NAME CASES` runs cases against that service, with the environment of `edgeEnvironment`. It prints a JSON line for each, as in
 * `SEEN`.
 */
import { join } from 'node:path';
import { temporaryFolder } from '../../fixtures/pki.ts';
import { neutralEnvironment, type Program, startProgram } from '../../fixtures/program.ts';
import { type Edge, edgeEnvironment, output } from '../clients/process.ts';
import { succeed, tool } from '../tools.ts';

/** What each case must see; cases of gRPC's interoperability tests keep their names. */
const UNARY = {
	empty_unary: { code: 0, same: true },
	large_unary: { code: 0, same: true },
	compressed_unary: { code: 0, same: true },
	timeout_on_sleeping_server: { code: 4 },
	cancel_after_begin: { code: 1 },
	status_code_and_message: { code: 2, details: 'test status message' },
	special_status_message: {
		code: 2,
		details: '\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n',
	},
	custom_metadata: { code: 0, initial: 'test_initial_metadata_value', trailing: 'ababab' },
	unimplemented_method: { code: 12 },
};
/** Their messages end by themselves, so a collected body passes them. */
const FINITE = {
	client_streaming: { code: 0, total: 74_922 },
	server_streaming: { code: 0, sizes: [31_415, 9, 2_653, 58_979] },
	empty_stream: { code: 0, answered: 0 },
};
const CONVERSATIONS = {
	ping_pong: { code: 0, answered: 300, rest: 0 },
	cancel_after_first_response: { code: 1, same: true },
};
/** Concurrent calls, until enough of the proxy's connections have ended. */
const ENDS = { many_connections: { failed: [] } };

const SEEN = { ...UNARY, ...FINITE, ...CONVERSATIONS, ...ENDS };
export type Case = keyof typeof SEEN;
const names = (cases: object) => Object.keys(cases) as Case[];
export const CASES = {
	collected: names({ ...UNARY, ...FINITE }),
	streaming: names({ ...UNARY, ...FINITE, ...CONVERSATIONS }),
	ends: names(ENDS),
};

/** Where a server listens: in clear text, over TLS, and in clear text with connections that end by GOAWAY after 100 ms. */
export type Ports = Readonly<Record<'clear' | 'tls' | 'aging', number>>;

export interface Peer {
	readonly name: string;
	/** The program, or why it cannot run here. */
	readonly command: readonly string[] | Error;
}

/** Debian's Python, which has Debian's packages. */
const PYTHON = '/usr/bin/python3';
const GO = join(import.meta.dirname, 'go');

export const PEERS = {
	core: { name: 'core', command: commandOfCore() },
	go: { name: 'go', command: commandOfGo() },
} satisfies Readonly<Record<string, Peer>>;

function commandOfCore(): Peer['command'] {
	if (tool(PYTHON, ['-c', 'import grpc']).status !== 0) return new Error('python3-grpcio');
	return [PYTHON, join(import.meta.dirname, 'peer.py')];
}

/** Compiled into the folder of this run, so that the other body mode finds it there. */
function commandOfGo(): Peer['command'] {
	const { PROXY_TEST_PKI: shared = join(temporaryFolder('grpc-go'), 'pki.json') } = process.env;
	const binary = join(shared, '../grpc-go');
	try {
		succeed('go', ['build', '-o', binary, '.'], { cwd: GO });
		return [binary];
	} catch (error) {
		return new Error(`Go 1.25 with the modules of grpc-go (${error})`);
	}
}

export interface Server extends AsyncDisposable {
	readonly ports: Ports;
}

/** @param services names of its services. */
export async function startServer(
	{ command }: Peer,
	services: readonly string[],
	{ certPath, keyPath }: { readonly certPath: string; readonly keyPath: string },
): Promise<Server> {
	if (command instanceof Error) throw command;
	const env = { ...neutralEnvironment(), GRPC_CERT: certPath, GRPC_KEY: keyPath };
	const isReady = (program: Program) => program.says(/"aging"/);
	const program = await startProgram([...command, 'serve', ...services], isReady, { env });
	return {
		ports: JSON.parse(program.strayLines.join('')),
		[Symbol.asyncDispose]: () => program[Symbol.asyncDispose](),
	};
}

/** @returns what the client saw, by case. */
export async function callAs(
	{ command }: Peer,
	edge: Edge,
	service: string,
	cases: readonly Case[],
): Promise<Readonly<Record<string, unknown>>> {
	if (command instanceof Error) throw command;
	const said = await output([...command, 'call', edge.base, service, cases.join()], edgeEnvironment(edge));
	const lines = Buffer.from(said, 'latin1').toString().trim().split('\n');
	return Object.fromEntries(
		lines.map((line) => {
			const { case: name, ...seen } = JSON.parse(line);
			return [name, seen];
		}),
	);
}

/** Expected result of `callAs`. */
export function wanted(cases: readonly Case[]): Readonly<Record<string, unknown>> {
	return Object.fromEntries(cases.map((name) => [name, SEEN[name]]));
}
