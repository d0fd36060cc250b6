/** The acts about identity, about several addresses of one upstream, and about gRPC. */
import { setTimeout as sleep } from 'node:timers/promises';
import { grpcStatusInWords } from '../../gates/grpc-status.ts';
import type { Act } from './act.ts';
import { hold } from './client.ts';
import { callGrpc, type GrpcResponse } from './grpc.ts';
import { openWebSocket } from './web-socket.ts';

const PATH = '/svc-b/hello';
const WEB_SOCKET_PATH = '/svc-b/chat';
/** The proxy ends connections with a revoked certificate within 5 s. */
const ENDED_MS = 8_000;

export async function rotation(act: Act): Promise<void> {
	const { screen, workspace, proxy } = act.stage;
	screen.heading('The issuer gets a second key, and drops it again');
	const line = { protocol: 'h2', path: PATH, token: workspace.mint('second') } as const;
	await act.expect({ ...line, note: 'new key, before' }, 401);
	workspace.publishKeys(['first', 'second']);
	await proxy.reload();
	await act.expect({ ...line, note: 'after' }, 200);
	await act.expect({ protocol: 'h2', path: PATH, tenant: 'tenant-b', note: 'old key' }, 200);
	workspace.publishKeys(['first']);
	await proxy.reload();
	await act.expect({ ...line, note: 'withdrawn' }, 401);
}

export async function boundToken(act: Act): Promise<void> {
	const { screen, workspace } = act.stage;
	screen.heading('A token that is bound to a client certificate (RFC 8705)');
	const line = { protocol: 'http/1.1', path: PATH, token: workspace.mint('first', workspace.client) } as const;
	await act.expect({ ...line, note: 'from its holder' }, 200);
	await act.expect({ ...line, byOther: true, note: 'from another client' }, 401);
}

export async function revocation(act: Act): Promise<void> {
	const { screen, workspace, proxy, ended } = act.stage;
	screen.heading('A certificate is revoked while its connection and its WebSocket are open');
	const held = await hold(act.credentials(true), PATH, workspace.mint('first'));
	act.report(held.status === 200, 'h2        a connection that stays open', `${held.status}`);
	const webSocket = await openWebSocket(act.credentials(true), WEB_SOCKET_PATH, workspace.mint('first'));
	const said = await webSocket.ask('hello');
	act.report(said === 'svc-b heard tenant-c: hello', `http/1.1  ${WEB_SOCKET_PATH} (a WebSocket)`, `101 ${said}`);
	workspace.revoke([workspace.otherClient]);
	await proxy.reload();
	const late = sleep(ENDED_MS, undefined, { signal: ended });
	const end = await Promise.race([held.ended, late]);
	act.report(
		end?.announced === true,
		'the connection',
		end === undefined ? 'is still open' : `ended ${end.announced ? 'in order (GOAWAY)' : 'without a GOAWAY'}`,
	);
	held.close();
	const code = await Promise.race([webSocket.closed, late]);
	act.report(code === 1008, 'the WebSocket', code === undefined ? 'got no Close' : `ended with Close ${code}`);
	webSocket.close();
	await act.expectRefusedHandshake(act.credentials(true), 'a new one');
	workspace.revoke([]);
	await proxy.reload();
	await act.expect(
		{ protocol: 'h2', path: PATH, token: workspace.mint('first'), byOther: true, note: 'no longer revoked' },
		200,
	);
}

const ADDRESSES_PATH = '/svc-c/hello';
/** Concurrent requests, over both protocols. */
const AT_ONCE = ['http/1.1', 'http/1.1', 'h2', 'h2'] as const;
/** Health probes go out every second. */
const SOON_MS = 10_000;
const PAUSE_MS = 50;

export async function twoAddresses(act: Act): Promise<void> {
	const { screen, upstreams } = act.stage;
	const [stays, dies] = upstreams.c;
	screen.heading('One route, two addresses: one dies while requests go on, and comes back');
	await requestsUntil(act, 'are spread over both', (by) => by.has(stays.name) && by.has(dies.name));

	let isOpen = false;
	void Promise.all([dies.die(), act.stage.proxy.says('circuit is open')]).then(
		() => {
			isOpen = true;
		},
		() => {},
	);
	await requestsUntil(act, `go on, though ${dies.name} dies`, () => isOpen);
	await dies.revive();
	await requestsUntil(act, `reach ${dies.name} again`, (by) => by.has(dies.name));
}

/** Number of 200 responses by upstream. */
type Served = ReadonlyMap<string, number>;

/** Sends until the expected state is reached, for at most 10 s. Anything but 200 is a failure. */
async function requestsUntil(act: Act, what: string, hasCome: (by: Served) => boolean): Promise<void> {
	const token = act.stage.workspace.mint('first');
	const by = new Map<string, number>();
	const others: string[] = [];
	const deadline = performance.now() + SOON_MS;
	for (;;) {
		const responses = await Promise.all(
			AT_ONCE.map((protocol) => act.send({ protocol, path: ADDRESSES_PATH, token }).catch((error: Error) => error)),
		);
		for (const response of responses) {
			if (response instanceof Error) others.push(response.message);
			else if (response.status !== 200) others.push(`${response.status} ${response.body}`);
			else {
				const { upstream } = JSON.parse(response.body);
				by.set(upstream, (by.get(upstream) ?? 0) + 1);
			}
		}
		const isDone = hasCome(by);
		if (isDone || others.length > 0 || performance.now() > deadline) {
			const served = [...by].sort().map(([name, count]) => `${count} by ${name}`);
			const passed = isDone && others.length === 0;
			return act.report(passed, `requests ${what}`, [`200: ${served.join(', ')}`, ...others].join('; '));
		}
		await sleep(PAUSE_MS, undefined, { signal: act.stage.ended });
	}
}

const GRPC_PATH = '/demo.Greeter/SayHello';
const OK = 0;
const UNAUTHENTICATED = 16;

export async function grpcCalls(act: Act): Promise<void> {
	const { screen, workspace } = act.stage;
	screen.heading('A gRPC service behind the proxy: calls pass, and refusals have a gRPC status');
	const expect = async (what: string, token: string | undefined, code: number) => {
		// The first health probe may still be under way.
		const response = await act.repeat(
			() => callGrpc(act.credentials(), GRPC_PATH, 'hello', token),
			(response) => response.code === code,
		);
		const passed = !(response instanceof Error) && response.code === code;
		const said = response instanceof Error ? response.message : inWords(response);
		act.report(
			passed,
			`h2        ${GRPC_PATH} ${what}`,
			passed ? said : `${said}, expected ${grpcStatusInWords(code)}`,
		);
	};
	await expect('tenant-c', workspace.mint('first'), OK);
	await expect('(no token)', undefined, UNAUTHENTICATED);
}

function inWords({ code, text }: GrpcResponse): string {
	return `${Number.isNaN(code) ? 'no grpc-status' : grpcStatusInWords(code)}: ${text}`;
}
