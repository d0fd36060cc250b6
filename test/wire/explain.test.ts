/**
 * `proxy explain` against the proxy itself: the same requests, by the same file, over the wire. What is explained is what the client
 * gets (status, body, fields), what the log says (reason), and byte for byte the head that the upstream gets.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { ExplainResult } from '../../packages/proxy/src/cli/explain/json.ts';
import { inspect, type StartFiles } from '../../packages/proxy/src/control/files/inspection.ts';
import { heldBody } from '../fixtures/bodies.ts';
import { connectTls, h1Raw, request } from '../fixtures/clients.ts';
import { EXPLAIN_CASES, type ExplainCase, explainConfig, explained, ordinary } from '../fixtures/explain-cases.ts';
import { type Http2Upstream, type StreamScript, startHttp2Upstream } from '../fixtures/h2-upstream.ts';
import { temporaryFolder, testPki } from '../fixtures/pki.ts';
import type { LogLine } from '../fixtures/program.ts';
import { commandLine, type ProxyProcess, startProxy, testOnce } from '../fixtures/proxy.ts';
import { startUpstream, type Upstream } from '../fixtures/upstream.ts';

const pki = await testPki();
const { valid } = pki.clients;

const open = new AsyncDisposableStack();
let upstream: Upstream;
let http2: Http2Upstream;
let proxy: ProxyProcess;
let files: StartFiles;
before(async () => {
	upstream = open.use(await startUpstream());
	http2 = await startHttp2Upstream({ settings: { enableConnectProtocol: true }, script: answer });
	open.defer(() => http2.stop());
	proxy = open.use(
		await startProxy({ configText: explainConfig(upstream.url, `h2c://${http2.authority}`), workers: 1 }),
	);
	const { files: read, problems } = await inspect(proxy.configPath, new Date());
	assert.deepEqual(problems, []);
	files = read!;
});
after(() => open.disposeAsync());

/** 200 for everything; a WebSocket ends at once. */
const answer: StreamScript = (stream) => {
	stream.respond({ ':status': 200 });
	stream.end();
};

interface Real {
	readonly status: number;
	readonly text: string;
	readonly headers: Readonly<Record<string, unknown>>;
}

/** A body that never ends. */
const NOTHING_YET = heldBody('');

/** What the proxy says over the wire. */
async function real(one: ExplainCase): Promise<Real> {
	const { protocol = 'h1', method = 'GET', path = '/plain', cert = valid, headers = [], bodyBytes = 0 } = one;
	const bearer = one.token === null ? null : (one.token ?? ordinary);
	const body = Buffer.alloc(bodyBytes, 'x');
	if (protocol === 'h2') {
		const lines = headers.map((line) => line.split(': ') as [string, string]);
		// Before the others, as explained.
		if (bearer !== null) lines.unshift(['authorization', `Bearer ${bearer}`]);
		const options = {
			method,
			path,
			cert,
			headers: [['host', 'proxy.example'], ...lines] as [string, string][],
			token: null,
		};
		const {
			status,
			text,
			headers: fields,
		} = await request('h2', proxy, {
			...options,
			...(bodyBytes > 0 && { body }),
			...(method === 'CONNECT' && { body: NOTHING_YET }),
		});
		return { status, text, headers: fields };
	}
	using raw = await h1Raw(proxy, { cert });
	const hasHost = headers.some((line) => /^host:/i.test(line));
	const isFramed = headers.some((line) => /^(content-length|transfer-encoding):/i.test(line));
	const lines = [
		`${method} ${path} HTTP/1.1`,
		...(hasHost ? [] : ['Host: proxy.example']),
		...(bearer === null ? [] : [`Authorization: Bearer ${bearer}`]),
		...headers,
		...(bodyBytes > 0 && !isFramed ? [`Content-Length: ${bodyBytes}`] : []),
	];
	raw.send(`${lines.join('\r\n')}\r\n\r\n`);
	if (bodyBytes > 0 && one.reason === undefined) raw.send(body);
	const answer = await raw.readResponse(method);
	const fields = Object.fromEntries(answer.headers.map(([name, value]) => [name.toLowerCase(), value]));
	return { status: answer.status, text: answer.body.toString(), headers: fields };
}

/** The log's word on the request that has just ended. @param path where lines of earlier requests may come late. */
async function loggedReason(from: number, path?: string): Promise<unknown> {
	const isOurs = (line: LogLine) => line.target === 'proxy::access' && (path === undefined || line.path === path);
	return (await proxy.waitForLog(isOurs, undefined, from)).reason;
}

/** Random digits differ, and so does the time that is left. */
const withoutRandom = (head: string) =>
	head
		.replace(/^(grpc-timeout: )(?:90000000|8[0-9]{7})u(?=\r$)/m, '$1x')
		.replace(/^(traceparent: 00-)(?!a{32}).{32}-.{16}/m, '$1x-x')
		.replace(/^(x-request-id: ).{32}$/m, '$1x');

const textOf = (head: readonly string[]) => `${head.join('\r\n')}\r\n\r\n`;

describe('the explanation agrees with the running proxy', () => {
	for (const one of EXPLAIN_CASES) {
		const run = one.bodyBytes === undefined ? testOnce : test;
		run(`${one.protocol ?? 'h1'}: ${one.name}`, async () => {
			const said = await explained(files, one);
			assert.equal(said.outcome, one.reason === undefined ? 'passes' : 'refused', JSON.stringify(said, undefined, 1));
			const lines = proxy.logs.length;
			const count = upstream.requests.length;
			if (one.status === 0) {
				assert.deepEqual([said.answer?.ending, said.reason], ['closed', one.reason]);
				const socket = await connectTls(proxy, { cert: one.cert! });
				const line = await proxy.waitForLog(({ target }: LogLine) => target === 'proxy::tls', undefined, lines);
				assert.deepEqual([line.message, line.reason, line.error], ['handshake failed', one.reason, line.error]);
				socket.destroy();
				return;
			}
			const answer = await real(one);
			if (one.reason === undefined) {
				assert.equal(answer.status, 200, answer.text);
				assert.equal(upstream.requests.length, count + 1);
				assert.equal(withoutRandom(textOf(said.head!)), withoutRandom(upstream.requests.at(-1)!.raw));
				// Otherwise its line would be taken for the next request's.
				assert.equal(await loggedReason(lines), undefined);
				return;
			}
			assert.equal(upstream.requests.length, count);
			assert.equal(answer.status, one.isGrpc ? 200 : one.status, answer.text);
			assert.equal(said.answer!.logged_status, one.status);
			assert.equal(said.reason, one.reason);
			assert.equal(await loggedReason(lines), one.reason);
			const { ending, status, body, headers } = said.answer!;
			assert.deepEqual([ending, status, body], ['answer', answer.status, answer.text]);
			// Without the symbols that node:http2 adds.
			const { date, connection, ...fields } = Object.fromEntries(Object.entries(answer.headers));
			const type = one.isGrpc ? 'application/grpc' : 'text/plain; charset=utf-8';
			const own = { 'content-type': type, 'content-length': fields['content-length'] };
			assert.deepEqual(fields, { ...own, ...headers });
		});
	}

	const call = { method: 'POST', headers: ['content-type: application/grpc', 'te: trailers', 'grpc-timeout: 90S'] };
	const TO_HTTP2: readonly Partial<ExplainCase>[] = [
		{ name: 'GET', path: '/h2/x?y', headers: ['X-A: 1', 'cookie: a=b', 'cookie: c=d', 'TE: trailers'] },
		{ name: 'a POST with a body', method: 'POST', bodyBytes: 11 },
		{ name: 'a gRPC call', ...call },
		{ name: 'a gRPC call over HTTP/2', protocol: 'h2', ...call },
		{ name: 'HTTP/2, a POST with a body', protocol: 'h2', method: 'POST', bodyBytes: 11 },
		{
			name: 'a WebSocket',
			headers: [
				...['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13'],
				...['Sec-WebSocket-Protocol: chat', 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='],
			],
		},
		{
			...{ name: 'a WebSocket over HTTP/2', protocol: 'h2', method: 'CONNECT' },
			headers: [':protocol: websocket', 'sec-websocket-version: 13', 'sec-websocket-protocol: chat'],
		},
	];
	for (const one of TO_HTTP2) {
		test(`explains the header block for an HTTP/2 upstream, fields in their order: ${one.name}`, async () => {
			const whole = { path: '/h2', reason: undefined, ...one } as ExplainCase;
			const { head } = await explained(files, whole);
			const { streams } = http2;
			await real(whole);
			assert.equal(http2.streams, streams + 1);
			const raw = http2.lastHead;
			const lines = raw.flatMap((name, i) => (i % 2 === 0 ? [`${name}: ${raw[i + 1]}`] : []));
			assert.equal(withoutRandom(textOf(head!)), withoutRandom(textOf(lines)));
		});
	}

	test('every refusal that needs no load has been compared', () => {
		const statuses = new Set(EXPLAIN_CASES.map(({ status }) => status));
		assert.deepEqual(
			[...statuses].filter((one) => one !== undefined).sort(),
			[0, 400, 401, 403, 404, 405, 413, 431, 501],
		);
	});

	testOnce('the state of the upstream comes from the running proxy, with --metrics', async () => {
		const one: ExplainCase = { name: '', path: '/down/x', reason: 'circuit open', status: 503 };
		const page = await (await fetch(`http://127.0.0.1:${proxy.metricsPort}/metrics`)).text();
		const said = await explained(files, one, page);
		assert.deepEqual([said.ended_by, said.reason, said.answer?.status], ['circuit breaker', one.reason, one.status]);
		const lines = proxy.logs.length;
		const { status, text } = await real(one);
		assert.deepEqual([status, text, await loggedReason(lines, '/down/x')], [503, said.answer!.body, one.reason]);
		assert.equal((await explained(files, one)).outcome, 'passes');
	});

	testOnce('HTTP/2: connection-specific fields reset the stream', async () => {
		const said = await explained(files, { name: '', protocol: 'h2', headers: ['connection: close'], reason: '' });
		assert.deepEqual([said.answer?.ending, said.reason], ['reset', 'connection in HTTP/2']);
	});
});

test('the command: exit codes, JSON, and no token in it', async () => {
	const dir = temporaryFolder('explain');
	const [node, ...command] = commandLine();
	const certPath = pki.writeFile('explain-client.crt', valid.certPem);
	const tokenPath = pki.writeFile('explain.jwt', `${ordinary}\n`);
	const run = (...args: string[]) =>
		new Promise<{ code: number; out: string; err: string }>((done) => {
			execFile(node!, [...command, 'explain', ...args], { cwd: dir }, (error, out, err) =>
				done({ code: Number(error?.code ?? 0), out, err }),
			);
		});
	const good = ['--token-file', tokenPath, '--client-cert', certPath];
	const metrics = ['--metrics', `127.0.0.1:${proxy.metricsPort}`];
	const [passes, refused, down, usage, config] = await Promise.all([
		run(
			'--config',
			proxy.configPath,
			'--json',
			'--url',
			'https://edge.example/plain/x?access_token=abc',
			...good,
			'--peer',
			'192.0.2.7',
		),
		run('--config', proxy.configPath, '--path', '/nowhere', ...good),
		run('--config', proxy.configPath, '--path', '/down', ...metrics, ...good),
		run('--path', '/x', '--token', ordinary, '--token', ordinary),
		run('--path', '/x', '--config', join(dir, 'missing.toml')),
	]);
	assert.equal(passes.code, 0, passes.err);
	const result = JSON.parse(passes.out) as ExplainResult;
	assert.deepEqual([result.outcome, result.route, result.upstream], ['passes', '/plain', upstream.authority]);
	const identifiers = /^(?:traceparent|x-request-id): /;
	assert.deepEqual(result.upstream_head!.filter((line) => !identifiers.test(line)).slice(0, 4), [
		'GET /plain/x?access_token=[redacted] HTTP/1.1',
		`host: ${upstream.authority}`,
		'x-forwarded-for: 192.0.2.7',
		'x-forwarded-proto: https',
	]);
	assert.equal(refused.code, 1, refused.err);
	assert.match(refused.out, /the client gets 404 and the body "no route"\./);
	assert.ok(
		refused.out.split('\n').every((line) => line.length <= 80 || line.includes('/')),
		refused.out,
	);
	assert.deepEqual([down.code, usage.code, config.code], [1, 2, 3], down.err);
	assert.match(down.out, /REFUSED {4}circuit breaker: circuit open/);
	assert.match(usage.err, /--token: is given twice/);
	assert.match(config.err, /there is no such file/);
	for (const { out, err } of [passes, refused, usage]) assert.ok(!(out + err).includes(ordinary.slice(0, 20)));
});
