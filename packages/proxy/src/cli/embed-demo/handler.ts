import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { Gate } from '@mtls-edge-proxy/gate/embed/gate.ts';
import { claimsOf, guard } from '@mtls-edge-proxy/gate/embed/node.ts';

/** Largest request body, in bytes. */
export const MAX_BODY_BYTES = 2 * 1024 * 1024;

/** `GET /health` for everybody; behind the gate `GET /whoami`, and nothing else. */
export function createHandler(gate: Gate): RequestListener {
	const guarded = guard(gate);
	return (req, res) => {
		const path = req.url!.split('?', 1)[0];
		if (path === '/health') return respond(res, 200, 'ok');
		guarded(req, res, () => {
			receiveBody(req, MAX_BODY_BYTES).then(
				(body) => (body ? route(path, req, res) : respond(res, 413, 'payload too large')),
				() => res.destroy(),
			);
		});
	};
}

function route(path: string | undefined, req: IncomingMessage, res: ServerResponse): void {
	if (path !== '/whoami') return respond(res, 404, 'not found');
	if (req.method !== 'GET' && req.method !== 'HEAD')
		return respond(res, 405, 'method not allowed', { allow: 'GET, HEAD' });
	const { sub, scope } = claimsOf(req);
	respond(res, 200, JSON.stringify({ sub, scope }), { 'content-type': 'application/json' });
}

/**
 * The whole body, or `undefined` if it is larger than `limit` bytes; the rest is then read and dropped, so that the
 * client sees the answer instead of a broken connection. Rejects when the client disconnects.
 */
async function receiveBody(req: IncomingMessage, limit: number): Promise<Buffer | undefined> {
	const chunks: Buffer[] = [];
	let length = 0;
	if (Number(req.headers['content-length'] ?? 0) <= limit) {
		for await (const chunk of req.iterator({ destroyOnReturn: false })) {
			length += chunk.length;
			if (length > limit) break;
			chunks.push(chunk);
		}
		if (length <= limit) return Buffer.concat(chunks, length);
	}
	req.resume();
	return undefined;
}

function respond(res: ServerResponse, status: number, body: string, headers: Record<string, string> = {}): void {
	const length = String(Buffer.byteLength(body));
	res
		.writeHead(status, { 'content-type': 'text/plain; charset=utf-8', 'content-length': length, ...headers })
		.end(body);
}
