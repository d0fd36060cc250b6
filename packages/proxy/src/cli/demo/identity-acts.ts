/** The acts about identity: issuer keys and client certificates. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Act } from './act.ts';
import { hold } from './client.ts';
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
	const held = await hold(act.identity(true), PATH, workspace.mint('first'));
	act.report(held.status === 200, 'h2        a connection that stays open', `${held.status}`);
	const webSocket = await openWebSocket(act.identity(true), WEB_SOCKET_PATH, workspace.mint('first'));
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
	await act.expectRefusedHandshake(act.identity(true), 'a new one');
	workspace.revoke([]);
	await proxy.reload();
	await act.expect(
		{ protocol: 'h2', path: PATH, token: workspace.mint('first'), byOther: true, note: 'no longer revoked' },
		200,
	);
}
