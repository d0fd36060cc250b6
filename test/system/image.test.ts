/**
 * The Dockerfile, built by buildah and run by bubblewrap. No engine and no image registry is available here, so the base images are
 * stand-ins (image/stand-ins.ts). .github/workflows/ci.yml builds with the real ones.
 */
import assert from 'node:assert/strict';
import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { createWorkspace } from '../../packages/proxy/src/cli/demo/workspace.ts';
import { temporaryFolder } from '../fixtures/pki.ts';
import { until } from '../fixtures/wait.ts';
import { type Container, type ImageConfig, startContainer } from './image/container.ts';
import { makeStandIns } from './image/stand-ins.ts';
import { missingTools, ROOT, succeed, tool } from './tools.ts';

const DOCKERFILE = readFileSync(join(ROOT, 'Dockerfile'), 'utf8');
const NODE_VERSION = /^ARG NODE_VERSION=(\S+)$/m.exec(DOCKERFILE)?.[1] ?? '';
const BASES = {
	node: /^FROM (\S+) AS node$/m.exec(DOCKERFILE)?.[1]?.replace('$' + '{NODE_VERSION}', NODE_VERSION) ?? '',
	cc: /^FROM (gcr\.io\S+)$/m.exec(DOCKERFILE)?.[1] ?? '',
};
/** Time for compiling and copying images on a busy machine, ms. */
const BUILD_MS = 300_000;

test('the Dockerfile passes hadolint', { skip: missingTools('hadolint') }, () => {
	assert.equal(tool('hadolint', ['Dockerfile']).all, '');
});

describe('the image', { skip: missingTools('buildah', 'bwrap', 'busybox', 'nsenter') }, () => {
	let buildah: (...args: string[]) => string;
	let config: ImageConfig;
	let container: Container;
	/** Its root file system. */
	let root: string;
	let size: number;

	before(
		async () => {
			const scratch = temporaryFolder('image');
			const storage = [
				'--root',
				join(scratch, 'storage'),
				'--runroot',
				join(scratch, 'run'),
				'--storage-driver',
				'vfs',
			];
			buildah = (...args) => succeed('buildah', [...storage, ...args]);
			makeStandIns(buildah, scratch, BASES);
			const npmrc = join(scratch, 'npmrc');
			writeFileSync(npmrc, `registry=${succeed('npm', ['config', 'get', 'registry'])}`);
			const isolation = ['--isolation', 'chroot', '--network', 'host', '--pull-never', '--format', 'docker', '--quiet'];
			const args = ['--secret', `id=npmrc,src=${npmrc}`, '--build-arg', 'BODY_MODE=streaming', '--tag', 'edge'];
			buildah('build', ...isolation, ...args, '.');
			const name = buildah('from', '--pull-never', 'edge').trim();
			const { Docker } = JSON.parse(buildah('inspect', '--type', 'image', 'edge'));
			config = Docker.config;
			// Copied out of the storage, which only root may read.
			root = join(scratch, 'root');
			chmodSync(scratch, 0o755);
			succeed('cp', ['--archive', buildah('mount', name).trim(), root]);
			size = Number(succeed('du', ['--bytes', '--summarize', root]).split('\t')[0]);

			const etc = join(scratch, 'etc');
			await createWorkspace(etc, Date.now());
			writeFileSync(join(etc, 'config.toml'), RELATIVE);
			succeed('chown', ['--recursive', config.User, etc]);
			container = await startContainer(root, config, etc);
		},
		{ timeout: BUILD_MS },
	);
	after(async () => {
		await container?.[Symbol.asyncDispose]();
		buildah?.('rm', '--all');
	});

	test('is small, has no shell and no npm, and nothing of the sources', () => {
		// The node binary takes 130 MB, glibc and related libraries 18 MB; the rest is for packages.
		assert.ok(size < 210_000_000, `${size} bytes`);
		const files = succeed('find', ['.', '-path', './app/*', '-prune', '-o', '-type', 'f', '-print'], { cwd: root });
		assert.doesNotMatch(files, /\/(?:sh|bash|busybox|npm|npx)$/m);
		assert.deepEqual(succeed('ls', ['-A', 'app'], { cwd: root }).trim().split('\n').sort(), [
			'LICENSE',
			'dist',
			'node_modules',
			'package.json',
		]);
		const { dependencies } = JSON.parse(readFileSync(join(ROOT, 'packages/proxy/package.json'), 'utf8'));
		const direct = succeed('ls', ['app/node_modules'], { cwd: root }).trim().split('\n');
		assert.deepEqual(
			Object.keys(dependencies).filter((name) => !direct.includes(name.split('/')[0]!)),
			[],
		);
	});

	test('has the licences of its content', () => {
		for (const file of ['app/LICENSE', 'app/dist/THIRD_PARTY_LICENSES.txt', 'usr/local/share/licenses/node/LICENSE']) {
			assert.ok(readFileSync(join(root, file), 'utf8').length > 0, file);
		}
	});

	test('is of the newest security release of Node', () => {
		assert.ok(NODE_VERSION.localeCompare('26.13.1', 'en', { numeric: true }) >= 0, NODE_VERSION);
	});

	test('has the OCI labels', () => {
		const labels = Object.keys(config.Labels).map((label) => label.replace('org.opencontainers.image.', ''));
		assert.deepEqual(labels.filter((label) => !label.startsWith('io.')).sort(), [
			'base.name',
			'description',
			'licenses',
			'revision',
			'source',
			'title',
			'version',
		]);
		assert.deepEqual(Object.keys(config.ExposedPorts), ['8443/tcp', '9090/tcp']);
	});

	test('becomes healthy by its own HEALTHCHECK, with a read-only root and no capability, as user 65532', async () => {
		const [kind, ...check] = config.Healthcheck.Test as [string, ...string[]];
		assert.equal(kind, 'CMD');
		await until(
			() => container.exec(...check).status === 0,
			() => `HEALTHCHECK to pass: ${container.output()}`,
		);
		const status = readFileSync(`/proc/${container.pid()}/status`, 'utf8');
		assert.match(status, /^Uid:\t65532\t65532\t65532\t65532$/m);
		assert.match(status, /^CapEff:\t0{16}$/m);
		const { output } = container.exec(config.Entrypoint[0]!, '--eval', WRITE);
		assert.equal(output, 'EROFS EROFS EROFS');
	});

	test('was built in the body mode asked for', () => {
		assert.match(container.exec(...config.Entrypoint, '--version').output, /streaming/);
	});

	test('drains at its stop signal and ends with 0', async () => {
		assert.equal(await container.stop(), 0);
	});
});

/** Its paths are relative to the image's working directory. */
const RELATIVE = `
[tls]
cert_path = "server.crt"
key_path = "server.key"
client_ca_path = "ca.crt"
[jwt]
jwks_path = "jwt.pub"
`;

const WRITE = `
const { writeFileSync } = require('node:fs');
const write = (path) => { try { writeFileSync(path, ''); return 'written'; } catch ({ code }) { return code; } };
process.stdout.write(['/app/x', '/etc/edge/x', '/tmp/x'].map(write).join(' '));
`;
