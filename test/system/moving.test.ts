/** docs/how-to/moving.md: the same job for each proxy, started with the page's configuration, and the responses of each. */
import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { createPublicKey, createSign } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import { blockNamed, blocksIn, ROOT } from '../fixtures/doc-blocks.ts';
import { freePort } from '../fixtures/free-port.ts';
import { temporaryFolder } from '../fixtures/pki.ts';
import { neutralEnvironment } from '../fixtures/program.ts';
import { BODY_MODE } from '../fixtures/proxy.ts';
import { until } from '../fixtures/wait.ts';
import { noEnvoy } from './servers/envoy.ts';
import { succeed } from './tools.ts';

const installed = (name: string) => spawnSync(name, ['-v']).error === undefined;
const missing = ['openssl', 'curl'].find((name) => spawnSync(name, ['version']).error !== undefined);

/** What a client gets: a status and the tenant that the upstream received, or nothing. */
type Outcome = string;
interface Question {
	/** As in the page's table. */
	readonly name: string;
	readonly path?: string;
	readonly token?: 'good' | 'elsewhere' | 'none';
	readonly certificate?: false;
	readonly headers?: readonly string[];
}

const QUESTIONS: readonly Question[] = [
	{ name: 'good certificate, good token, `/billing/7`' },
	{ name: 'no client certificate', certificate: false },
	{ name: 'no token', token: 'none' },
	{ name: 'token for another audience', token: 'elsewhere' },
	{ name: 'client sends `x-proxy-tenant` itself', headers: ['x-proxy-tenant: root'] },
	{ name: '`/billingx`', path: '/billingx' },
	{ name: '`/billing/../search`', path: '/billing/../search' },
];
const NO_HANDSHAKE = 'no answer';
/** In the order of the requests; the cells of the page's table. */
const ANSWERS: Readonly<Record<string, readonly Outcome[]>> = {
	'this proxy': ['200 billing acme', NO_HANDSHAKE, '401', '401', '200 billing acme', '404', '400'],
	'HAProxy 2.6': ['200 billing acme', NO_HANDSHAKE, '401', '401', '200 billing acme', '404', '400'],
	'nginx 1.22': ['200 billing -', '400', '200 billing -', '200 billing -', '200 billing -', '404', '200 search -'],
};

describe('docs/how-to/moving.md', { skip: missing && `not installed: ${missing}` }, () => {
	const dir = temporaryFolder('moving');
	const ports = new Map<string, string>();
	const here = (page: string) => page.replace(/\b(?:3001|3002|844[3-6])\b/g, (port) => ports.get(port)!);
	const tokens = { good: '', elsewhere: '', none: '' };
	const upstreams: Server[] = [];

	before(async () => {
		for (const port of ['8443', '8444', '8445', '8446', '9090']) ports.set(port, await freePort());
		for (const [port, name] of [
			['3001', 'billing'],
			['3002', 'search'],
		] as const) {
			const upstream = createServer((request, response) =>
				response.end(`${name} ${request.headers['x-proxy-tenant'] ?? '-'}`),
			);
			upstream.listen(0, '127.0.0.1');
			await once(upstream, 'listening');
			upstreams.push(upstream);
			ports.set(port, String((upstream.address() as AddressInfo).port));
		}
		makeFiles(dir);
		tokens.good = token(dir, 'edge');
		tokens.elsewhere = token(dir, 'elsewhere');
	});
	after(() => {
		for (const upstream of upstreams) upstream.close().closeAllConnections();
	});

	async function assertAnswers(name: string, port: string, command: string, args: string[]): Promise<void> {
		const peer = new Peer(dir, command, args);
		try {
			await until(
				() => (name === 'this proxy' ? isServing(peer.said) : accepts(Number(port))),
				() => `${command} to listen; it said ${peer.said}`,
			);
			const answers: Outcome[] = [];
			for (const question of QUESTIONS) answers.push(await ask(dir, port, question, tokens));
			assert.deepEqual(answers, ANSWERS[name], `${command} said ${peer.said}`);
		} finally {
			await peer.stop();
		}
	}

	test('this proxy answers as the page says', async () => {
		writeFileSync(join(dir, 'config.toml'), here(blockNamed('the job for this proxy').code));
		const mode = BODY_MODE === 'streaming' ? ['-C', 'boxed_body'] : [];
		const addresses = ['--bind', `127.0.0.1:${ports.get('8443')}`, '--metrics-bind', `127.0.0.1:${ports.get('9090')}`];
		await assertAnswers('this proxy', ports.get('8443')!, process.execPath, [
			...mode,
			join(ROOT, 'packages/proxy/src/main.ts'),
			...addresses,
		]);
	});

	test('HAProxy answers as the page says', { skip: !installed('haproxy') && 'not installed: haproxy' }, async () => {
		writeFileSync(join(dir, 'haproxy.cfg'), here(blockNamed('the job for HAProxy').code));
		await assertAnswers('HAProxy 2.6', ports.get('8444')!, 'haproxy', ['-db', '-f', 'haproxy.cfg']);
	});

	test('nginx answers as the page says', { skip: !installed('nginx') && 'not installed: nginx' }, async () => {
		writeFileSync(join(dir, 'nginx.conf'), here(blockNamed('the job for nginx').code));
		const own = `daemon off; pid ${dir}/nginx.pid; error_log ${dir}/nginx.log;`;
		await assertAnswers('nginx 1.22', ports.get('8445')!, 'nginx', ['-p', dir, '-c', 'nginx.conf', '-g', own]);
	});

	test('the job for Envoy is a configuration that Envoy takes', { skip: noEnvoy }, () => {
		const block = blocksIn('docs/how-to/moving.md').find(({ language }) => language === 'yaml')!;
		writeFileSync(join(dir, 'envoy.yaml'), here(block.code));
		succeed('envoy', ['--mode', 'validate', '-c', 'envoy.yaml'], { cwd: dir });
	});
});

test("the page's table says what the proxies have answered", () => {
	const page = readFileSync(join(ROOT, 'docs/how-to/moving.md'), 'utf8').replaceAll('**', '');
	for (const [i, { name }] of QUESTIONS.entries()) {
		const row = page.split('\n').find((line) => line.startsWith(`| ${name} |`));
		const cells = row?.split('|').slice(2, -1) ?? [];
		for (const [n, answers] of Object.values(ANSWERS).entries()) {
			const status = answers[i] === NO_HANDSHAKE ? 'handshake fails' : answers[i]!.slice(0, 3);
			const says = cells[n]?.trim() ?? '';
			// "replaced" and "dropped" are about a response header of a 200.
			assert.ok(
				says.startsWith(status) || (status === '200' && /^(?:replaced|dropped)$/.test(says)),
				`${name}: ${says}, ${status}`,
			);
		}
	}
});

/**
 * Our proxy binds its address for a moment before it listens, to check that it is free; it logs when it is ready. It waits for the health of
 * its two upstreams for 2 s at most, so on a busy machine they become healthy later.
 */
function isServing(said: string): boolean {
	return said.includes('"message":"ready"') && said.split('"message":"upstream is healthy"').length >= 3;
}

/** A running proxy and its output. */
class Peer {
	readonly #process: ChildProcess;
	said = '';

	constructor(cwd: string, command: string, args: string[]) {
		this.#process = spawn(command, args, { cwd, env: neutralEnvironment(), stdio: ['ignore', 'pipe', 'pipe'] });
		for (const output of [this.#process.stdout!, this.#process.stderr!]) {
			output.setEncoding('utf8').on('data', (said) => {
				this.said += said;
			});
		}
	}

	async stop(): Promise<void> {
		if (this.#process.exitCode !== null) return;
		const ended = once(this.#process, 'close');
		this.#process.kill('SIGTERM');
		await ended;
	}
}

async function ask(
	dir: string,
	port: string,
	question: Question,
	tokens: Readonly<Record<string, string>>,
): Promise<Outcome> {
	const { path = '/billing/7', token: which = 'good', certificate = true, headers = [] } = question;
	const args = ['-s', '--path-as-is', '--cacert', 'ca.crt', '-w', '\n%{http_code}'];
	if (certificate) args.push('--cert', 'client.crt', '--key', 'client.key');
	if (which !== 'none') args.push('-H', `authorization: Bearer ${tokens[which]}`);
	for (const header of headers) args.push('-H', header);
	const curl = spawn('curl', [...args, `https://localhost:${port}${path}`], {
		cwd: dir,
		stdio: ['ignore', 'pipe', 'inherit'],
	});
	const stdout = await text(curl.stdout);
	const [, body, status] = /^([\s\S]*)\n(\d+)$/.exec(stdout) ?? [];
	if (status === '000' || status === undefined) return NO_HANDSHAKE;
	return status === '200' ? `200 ${body}` : status;
}

function makeFiles(dir: string): void {
	const openssl = (...args: string[]) => execFileSync('openssl', args, { cwd: dir, stdio: 'pipe' });
	const ec = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
	openssl('req', '-x509', ...ec, '-days', '2', '-subj', '/CN=CA', '-keyout', 'ca.key', '-out', 'ca.crt');
	for (const [name, extensions] of [
		['server', 'subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth\n'],
		['client', 'extendedKeyUsage=clientAuth\n'],
	] as const) {
		openssl('req', ...ec, '-subj', `/CN=${name}`, '-keyout', `${name}.key`, '-out', `${name}.csr`);
		writeFileSync(join(dir, `${name}.ext`), extensions);
		const ca = ['-CA', 'ca.crt', '-CAkey', 'ca.key', '-CAcreateserial', '-days', '2'];
		openssl('x509', '-req', '-in', `${name}.csr`, ...ca, '-extfile', `${name}.ext`, '-out', `${name}.crt`);
	}
	writeFileSync(
		join(dir, 'server.pem'),
		readFileSync(join(dir, 'server.crt'), 'utf8') + readFileSync(join(dir, 'server.key'), 'utf8'),
	);
	openssl('genpkey', '-algorithm', 'RSA', '-pkeyopt', 'rsa_keygen_bits:2048', '-out', 'jwt.key');
	openssl('pkey', '-in', 'jwt.key', '-pubout', '-out', 'jwt.pub');
	const jwk = createPublicKey(readFileSync(join(dir, 'jwt.pub'))).export({ format: 'jwk' });
	writeFileSync(join(dir, 'jwks.json'), JSON.stringify({ keys: [{ ...jwk, alg: 'RS256', use: 'sig' }] }));
}

function token(dir: string, audience: string): string {
	const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
	const exp = Math.floor(Date.now() / 1000) + 3600;
	const signing = `${part({ alg: 'RS256', typ: 'JWT' })}.${part({ iss: 'https://issuer.example', aud: audience, sub: 'acme', exp })}`;
	return `${signing}.${createSign('sha256')
		.update(signing)
		.sign(readFileSync(join(dir, 'jwt.key')), 'base64url')}`;
}

function accepts(port: number): Promise<boolean> {
	const socket = connect(port, '127.0.0.1');
	return new Promise((resolve) => {
		socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
		socket.once('close', () => resolve(false));
	}).then((isListening) => {
		socket.destroy();
		return isListening as boolean;
	});
}
