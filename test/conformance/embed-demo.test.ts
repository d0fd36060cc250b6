import assert from 'node:assert/strict';
import { copyFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { connect, isAccepted, PROTOCOLS, request } from '../fixtures/clients.ts';
import { temporaryFolder, testPki } from '../fixtures/pki.ts';
import { until } from '../fixtures/wait.ts';
import { EmbedDemo, type EmbedEnvironment, goodEnvironment, startEmbedDemo } from './embed-demo.ts';

const MIB = 1024 * 1024;

/** For tests that leave a service as it was. */
let demo: EmbedDemo;
const running = new AsyncDisposableStack();
before(async () => {
	demo = running.use(await startEmbedDemo());
});
after(() => running.disposeAsync());

for (const protocol of PROTOCOLS) {
	describe(`the example service over ${protocol}`, () => {
		test('returns the caller, and answers /health without a token', async () => {
			const { token } = await testPki();
			const whoami = await request(protocol, demo, { path: '/whoami?x', token: token('tenant', { scope: 'read' }) });
			assert.equal(whoami.status, 200);
			assert.equal(whoami.headers['content-type'], 'application/json');
			assert.equal(whoami.text, '{"sub":"tenant","scope":"read"}');
			assert.equal((await request(protocol, demo, { path: '/whoami' })).text, '{"sub":"tenant","scope":""}');
			assert.equal((await request(protocol, demo, { path: '/health', token: null })).text, 'ok');
		});

		test('refuses every path but /health without a token', async () => {
			for (const path of ['/whoami', '/', '/nowhere', '/health/', '/Health', '/whoami/../health']) {
				assert.equal((await request(protocol, demo, { path, token: null })).status, 401, path);
			}
			assert.equal((await request(protocol, demo, { path: '/nowhere' })).status, 404);
			const post = await request(protocol, demo, { path: '/whoami', method: 'POST' });
			assert.equal(post.status, 405);
			assert.equal(post.headers.allow, 'GET, HEAD');
		});

		test('takes bodies of 2 MiB and refuses a byte more, declared or not, and goes on', async () => {
			await using connection = await connect(protocol, demo);
			connection.socket.setNoDelay(true);
			const statusFor = async (body: Buffer | AsyncIterable<Buffer>) =>
				(await connection.request({ path: '/whoami', method: 'POST', body })).status;
			// The method is looked at when the body is there.
			assert.equal(await statusFor(Buffer.alloc(2 * MIB)), 405);
			assert.equal(await statusFor(Buffer.alloc(2 * MIB + 1)), 413);
			assert.equal(await statusFor(undeclared(2 * MIB)), 405);
			assert.equal(await statusFor(undeclared(2 * MIB + 1)), 413);
			assert.equal(await statusFor(Buffer.alloc(0)), 405);
		});

		test('limits each tenant to EMBED_TENANT_RPS, and none if that is 0', async () => {
			await using limited = await startEmbedDemo({ EMBED_TENANT_RPS: '1' });
			await using unlimited = await startEmbedDemo({ EMBED_TENANT_RPS: '0' });
			const statuses = async (demo: EmbedDemo) => {
				await using connection = await connect(protocol, demo);
				const answers = await Promise.all(Array.from({ length: 20 }, () => connection.request({ path: '/whoami' })));
				return new Set(answers.map(({ status }) => status));
			};
			assert.ok((await statuses(limited)).has(429));
			assert.deepEqual(await statuses(unlimited), new Set([200]));
		});

		test('answers requests in flight after SIGTERM, and exits with 0', async () => {
			await using demo = await startEmbedDemo();
			await using connection = await connect(protocol, demo);
			const upload = new SlowUpload();
			const answer = connection.request({ path: '/whoami', method: 'POST', ...upload.request });
			await upload.begun;
			demo.signal('SIGTERM');
			await demo.line('draining');
			upload.finish();
			assert.equal((await answer).status, 405);
			assert.equal(await demo.ended(), 0);
			assert.deepEqual(
				demo.logs.map(({ message }) => message),
				['listening', 'draining', 'drained'],
			);
		});
	});
}

describe('the example service', () => {
	test('names every required variable that is not set, in one line, and exits with 1', async () => {
		await using demo = new EmbedDemo({ EMBED_CERT: '', EMBED_KEY: 'x' });
		assert.equal(await demo.ended(), 1);
		assert.equal(
			demo.stderr,
			'proxy embed-demo: not set, but required: ' +
				'EMBED_CERT, EMBED_CLIENT_CA, EMBED_JWT_PUB, EMBED_ISSUER, EMBED_AUDIENCE\n',
		);
		assert.equal(demo.stdout, '');
	});

	test('says in one line what is wrong with a variable, a file or the port, and exits with 1', async () => {
		const pki = await testPki();
		const cases: [EmbedEnvironment, RegExp][] = [
			[{ EMBED_BIND: 'localhost' }, /EMBED_BIND must be HOST:PORT/],
			[{ EMBED_BIND: '127.0.0.1:65536' }, /EMBED_BIND must be HOST:PORT/],
			[{ EMBED_TENANT_RPS: '-1' }, /EMBED_TENANT_RPS must be a whole number/],
			[{ EMBED_JWT_PUB: '/nowhere' }, /EMBED_JWT_PUB: \/nowhere: cannot be read: there is no such file/],
			[{ EMBED_JWT_PUB: pki.server.keyPath }, /EMBED_JWT_PUB: .*server\.key contains a private key/],
			[{ EMBED_CERT: '/nowhere' }, /\/nowhere: cannot be read: there is no such file/],
			[{ EMBED_CLIENT_CA: pki.server.certPath }, /server\.crt: contains no CA certificate/],
			[{ EMBED_BIND: `127.0.0.1:${demo.port}` }, /EMBED_BIND: cannot listen on .* \(EADDRINUSE\)/],
		];
		for (const [env, reason] of cases) {
			await using wrong = new EmbedDemo({ ...(await goodEnvironment()), ...env });
			assert.equal(await wrong.ended(), 1);
			assert.match(wrong.stderr, new RegExp(`^proxy embed-demo: .*${reason.source}.*\n$`));
		}
	});

	test('logs for people unless EMBED_LOG_JSON is 1', async () => {
		await using demo = new EmbedDemo({ ...(await goodEnvironment()), EMBED_LOG_JSON: undefined });
		await until(() => demo.stdout.includes('\n'), 'the first line');
		assert.match(demo.stdout, /^\S+Z INFO {2}proxy::embed: listening address=127\.0\.0\.1 port=\d+\n$/);
	});

	test('reloads its certificates on SIGUSR1, and keeps the old ones if the new ones are unusable', async () => {
		const pki = await testPki();
		const caPath = join(temporaryFolder('embed-demo'), 'ca.crt');
		copyFileSync(pki.caPath, caPath);
		await using demo = await startEmbedDemo({ EMBED_CLIENT_CA: caPath });
		writeFileSync(caPath, 'nothing');
		demo.signal('SIGUSR1');
		const failed = await demo.line('mTLS reload failed; keeping old');
		assert.equal(failed.level, 'error');
		assert.match(String(failed.error), /ca\.crt: contains no PEM certificate/);
		assert.equal(await isAccepted(demo), true);

		writeFileSync(caPath, pki.otherCa.certPem);
		demo.signal('SIGUSR1');
		assert.equal((await demo.line('mTLS config reloaded')).generation, 2);
		assert.equal(await isAccepted(demo), false);
		assert.equal(await isAccepted(demo, { cert: pki.clients.otherCa }), true);
	});

	test('ends on SIGHUP, since only the proxy reloads on it', async () => {
		await using demo = await startEmbedDemo();
		demo.signal('SIGHUP');
		assert.equal(await demo.ended(), 'SIGHUP');
	});

	test('exits at once with 1 at the second signal', async () => {
		await using demo = await startEmbedDemo();
		await using connection = await connect('h1', demo);
		const upload = new SlowUpload();
		const answer = connection.request({ path: '/whoami', method: 'POST', ...upload.request });
		await upload.begun;
		demo.signal('SIGTERM');
		await demo.line('draining');
		demo.signal('SIGINT');
		assert.equal(await demo.ended(), 1);
		upload.finish();
		assert.equal((await answer).status, 0);
	});
});

async function* undeclared(length: number): AsyncGenerator<Buffer> {
	yield Buffer.alloc(length - 1);
	yield Buffer.alloc(1);
}

/** A body whose second half waits for the test. */
class SlowUpload {
	readonly #begun = Promise.withResolvers<void>();
	readonly #rest = Promise.withResolvers<void>();

	/** For `Connection.request`: the body goes when the service has the head, as its 100 tells. */
	get request() {
		return { headers: { expect: '100-continue' }, body: this.#body() };
	}

	/** Resolves when the service has the request's head. */
	get begun(): Promise<void> {
		return this.#begun.promise;
	}

	finish(): void {
		this.#rest.resolve();
	}

	async *#body(): AsyncGenerator<string> {
		this.#begun.resolve();
		yield 'one';
		await this.#rest.promise;
		yield 'two';
	}
}
