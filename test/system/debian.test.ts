/** docs/how-to/debian.md, typed as root on a fresh Debian under systemd: the unit runs, serves and restarts. */
import assert from 'node:assert/strict';
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { AUDIENCE, createWorkspace, ISSUER } from '../../packages/proxy/src/cli/demo/workspace.ts';
import { blockNamed, blocksIn } from '../fixtures/doc-blocks.ts';
import { temporaryFolder } from '../fixtures/pki.ts';
import { until } from '../fixtures/wait.ts';
import { packPackages } from '../package/consumer.ts';
import { installDebian, Machine, runBeforeBoot } from './debian/machine.ts';
import { missingTools, type Outcome, succeed } from './tools.ts';

const PAGE = 'docs/how-to/debian.md';
const NODE = blockNamed('Debian, Node');
const PROXY = blockNamed('Debian, proxy');
const FILES = blockNamed('Debian, user and files');
const START = blockNamed('Debian, start');
/** Packages are downloaded and installed, on a busy machine, ms. */
const INSTALL_MS = 600_000;

const CLIENT = 'curl --silent --show-error --cacert ca.crt --cert client.crt --key client.key';
const SERVICE = "require('node:http').createServer((_, r) => r.end('from the service')).listen(3000, '127.0.0.1')";

const missing = missingTools('mmdebstrap', 'systemd-nspawn', 'nsenter', 'npm', 'xz');
const skip = missing || (process.getuid?.() !== 0 && 'only root can make another Debian');

describe('a service on a fresh Debian', { skip }, () => {
	let root: string;
	let machine: Machine;

	before(
		async () => {
			const scratch = temporaryFolder('debian');
			root = join(scratch, 'root');
			installDebian(root);
			const home = join(root, 'root');
			standInForNodejsOrg(scratch, NODE.code);
			copyFileSync((await packPackages()).proxy, join(home, 'mtls-edge-proxy-0.1.0.tgz'));
			writeFileSync(join(home, '.npmrc'), `fetch-retries=1\nregistry=${succeed('npm', ['config', 'get', 'registry'])}`);
			await readersOwnFiles(home);
			for (const { code } of [NODE, PROXY]) succeeded(runBeforeBoot(root, code), code);
			machine = await Machine.boot(root);
		},
		{ timeout: INSTALL_MS },
	);
	after(() => machine?.[Symbol.asyncDispose]());

	test('all commands of the page are typed here, in its order', () => {
		const blocks = blocksIn(PAGE).filter(({ language }) => language === 'sh');
		assert.deepEqual(blocks, [NODE, PROXY, FILES, START]);
	});

	test('the commands start the unit, which says what the page says', async () => {
		const [config] = blocksIn(PAGE).filter(({ language }) => language === 'toml');
		succeeded(machine.run(FILES.code), FILES.code);
		writeFileSync(join(root, 'etc/edge/config.toml'), readersOwnIssuer(config!.code));
		const service = `systemd-run --quiet /usr/local/bin/node --eval "${SERVICE}"`;
		succeeded(machine.run(service), service);
		succeeded(machine.run(START.code), START.code);

		const log = () => machine.run('journalctl --unit edge --output cat --no-pager').stdout;
		await until(
			() => log().includes('"ready"'),
			() => `the line "ready":\n${log()}`,
		);
		assert.match(machine.run('systemctl status edge --no-pager').stdout, /Active: active \(running\)/);
		assert.match(machine.run('curl -s http://127.0.0.1:9090/readyz').stdout, /^ready/);
		assert.match(machine.run('curl -s http://127.0.0.1:9090/').stdout, /<title>/);
	});

	test('a client with certificate and token reaches the service on port 443; one without a token does not', () => {
		const withToken = `${CLIENT} --header "authorization: Bearer $(cat tenant-a.jwt)" https://localhost/`;
		assert.equal(machine.run(withToken).all, 'from the service');
		assert.equal(machine.run(`${CLIENT} --output /dev/null --write-out '%{http_code}' https://localhost/`).all, '401');
	});

	test('it is not root, has one capability, and only it can read its key', () => {
		const status = machine.statusOf(mainPid());
		assert.doesNotMatch(status, /^Uid:\t0\t/m);
		// CAP_NET_BIND_SERVICE.
		assert.match(status, /^CapEff:\t0{13}400$/m);
		assert.match(
			machine.run('setpriv --reuid nobody --clear-groups cat /etc/edge/certs/edge.key || true').all,
			/denied/,
		);
	});

	test('it comes back after a crash, and starts with the machine', async () => {
		const crashed = mainPid();
		succeeded(machine.run('systemctl kill --signal=KILL edge'), 'kill');
		await until(() => ![crashed, '0'].includes(mainPid()), 'another main process');
		await until(() => machine.run('curl -s http://127.0.0.1:9090/readyz || true').stdout.startsWith('ready'), 'ready');
		assert.equal(machine.run('systemctl is-enabled edge').stdout, 'enabled\n');
	});

	function mainPid(): string {
		return machine.run('systemctl show edge --property MainPID --value').stdout.trim();
	}

	/** Replaces curl while Node is installed: it has the archive, with the Node of this repository, and the list of checksums. */
	function standInForNodejsOrg(scratch: string, code: string): void {
		const archive = /node-v[\d.]+-linux-x64/.exec(code)![0];
		const tree = join(scratch, archive);
		mkdirSync(join(tree, 'bin'), { recursive: true });
		mkdirSync(join(tree, 'lib/node_modules'), { recursive: true });
		copyFileSync(process.execPath, join(tree, 'bin/node'));
		const npm = succeed('sh', ['-c', 'dirname "$(dirname "$(readlink -f "$(command -v npm)")")"']).trim();
		succeed('cp', ['--archive', npm, join(tree, 'lib/node_modules/npm')]);
		succeed('ln', ['-s', '../lib/node_modules/npm/bin/npm-cli.js', join(tree, 'bin/npm')]);
		const served = join(root, 'srv');
		succeed('tar', ['-c', '--use-compress-program', 'xz -0 -T0', '-f', join(served, `${archive}.tar.xz`), archive], {
			cwd: scratch,
		});
		succeed('sh', ['-c', 'sha256sum *.tar.xz > SHASUMS256.txt'], { cwd: served });
		writeFileSync(join(root, 'usr/local/sbin/curl'), STAND_IN, { mode: 0o755 });
	}
});

/** `curl -fsSLO URL` and `curl -fsSL URL`. Removes itself after the archive was downloaded and checked. */
const STAND_IN = `#!/bin/sh
name=\${2##*/}
case $1 in
-fsSLO) cp "/srv/$name" . ;;
*) cat "/srv/$name"; rm /usr/local/sbin/curl ;;
esac
`;

/** What the reader already has in root's folder: certificates, keys, a token. */
async function readersOwnFiles(home: string): Promise<void> {
	const { dir } = await createWorkspace(temporaryFolder('debian-files'), Date.now());
	const renamed: Readonly<Record<string, string>> = {
		'server.key': 'edge.key',
		'server.crt': 'edge.crt',
		'jwt.pub': 'issuer.pub',
	};
	for (const name of ['server.key', 'server.crt', 'jwt.pub', 'ca.crt', 'client.crt', 'client.key', 'tenant-a.jwt']) {
		copyFileSync(join(dir, name), join(home, renamed[name] ?? name));
	}
	copyFileSync(join(dir, 'ca.crt'), join(home, 'clients-ca.crt'));
}

function readersOwnIssuer(config: string): string {
	return config
		.replace('"https://issuer.example"', `"${ISSUER}"`)
		.replace('audience = "edge"', `audience = "${AUDIENCE}"`);
}

function succeeded({ status, all }: Outcome, code: string): void {
	assert.equal(status, 0, `${code}\nended with ${status}:\n${all}`);
}
