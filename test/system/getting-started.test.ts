/** docs/tutorial/getting-started.md and docs/how-to/operations.md, typed as a reader does: their output is what the pages say. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { describe, test } from 'node:test';
import { blockNamed, blocksIn } from '../fixtures/doc-blocks.ts';
import { isAsExpected, typeBlocks } from '../fixtures/typed-page.ts';

const GETTING_STARTED = [
	blockNamed('getting started, certificates'),
	blockNamed('getting started, tokens'),
	blockNamed('getting started, two services and a configuration'),
	blockNamed('getting started, a first request'),
	blockNamed('getting started, a refusal, explained'),
	blockNamed('getting started, a service goes down'),
	blockNamed('getting started, down'),
];
const OPERATIONS = [
	blockNamed('operations, check'),
	blockNamed('operations, reload'),
	blockNamed('operations, server certificate'),
	blockNamed('operations, both client CAs'),
	blockNamed('operations, the old client CA goes'),
	blockNamed('operations, both issuer keys'),
	blockNamed('operations, the old issuer key goes'),
	blockNamed('operations, a tenant is refused'),
	blockNamed('operations, drain'),
];
const EXAMPLE = blockNamed('the worked example');
const PORTS = ['3001', '3002', '8443', '9090'];

const missing = ['bash', 'openssl', 'curl'].find((name) => spawnSync(name, ['--version']).error !== undefined);

describe('pages that are typed', { skip: missing && `not installed: ${missing}` }, () => {
	test('in ten minutes: what a newcomer types leads to what the page says', async () => {
		const all = blocksIn('docs/tutorial/getting-started.md').filter(({ language }) => language === 'sh');
		assert.deepEqual(all, GETTING_STARTED, 'all of its commands, in its order');
		await typeBlocks(GETTING_STARTED, PORTS);
	});

	test("the worked example of docs/how-to/install.md leads to the upstream's answer", async () => {
		const [config] = blocksIn(EXAMPLE.page).filter(({ language }) => language === 'toml');
		await typeBlocks(
			[
				...GETTING_STARTED.slice(0, 2),
				{ ...EXAMPLE, line: 0, code: withoutOtherMachines(readersOwn(config!.code)) },
				{ ...EXAMPLE, code: withoutOtherMachines(`{ ${EXAMPLE.code}\n} > all.txt 2>&1; tail -n 1 all.txt`) },
			],
			[...PORTS, '8081', '8082'],
			'one/billing/invoices/7 for alice\n',
		);
	});

	test('operations: checks, reloads, rotations and the drain, on what getting-started has started', async () => {
		await typeBlocks([...GETTING_STARTED.slice(0, 4), ...OPERATIONS], PORTS);
	});
});

test('the comparison takes … for a part of a line or for whole lines, and nothing else', () => {
	assert.ok(isAsExpected('a\nb\nc\n', 'a\n…\nc\n'));
	assert.ok(isAsExpected('a\nc\n', 'a\n…\nc\n'));
	assert.ok(isAsExpected('took 5 ms (fast)\n', 'took … ms (fast)\n'));
	assert.ok(!isAsExpected('took 5\n6 ms\n', 'took … ms\n'));
	assert.ok(!isAsExpected('a\nb\n', 'a\n'));
	assert.ok(!isAsExpected('a.b\n', 'aXb\n'));
	assert.ok(!isAsExpected('a\n', 'a\nb\n…\n'));
});

/** What the example's reader already has: certificates, a token, services; and the file that it shows. */
function readersOwn(config: string): string {
	return `cp certs/client-ca.crt certs/clients-ca.crt
cp certs/server-ca.crt ca.crt; cp certs/alice.crt client.crt; cp certs/alice.key client.key
export TOKEN=$(cat alice.jwt) PROXY_METRICS_BIND=127.0.0.1:9090
service() { node -e "require('node:http').createServer((q, r) => r.end('$1' + q.url + ' for ' + q.headers['x-proxy-tenant'] + '\\n')).listen($2, '127.0.0.1')" & }
service one 8081; service two 8082
cat > config.toml <<'TOML'
${config}TOML
`;
}

/** The example's other machines are this one. */
function withoutOtherMachines(text: string): string {
	return text
		.replace('10.0.0.10:8080', '127.0.0.1:8081')
		.replace('10.0.0.11:8080', '127.0.0.1:8082')
		.replace('0.0.0.0:8443', '127.0.0.1:8443')
		.replace('edge.example:8443', 'localhost:8443');
}
