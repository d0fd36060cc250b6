/**
 * Base images made of this machine's files, under the names in the Dockerfile: no image registry can be reached here. They contain
 * what the real ones promise and no more, so a library that the Dockerfile forgets is missing here, too.
 */
import { copyFileSync, cpSync, mkdirSync, realpathSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { ROOT, succeed } from '../tools.ts';

/** Debian's libraries in the distroless image `cc`. */
const CC = ['libc6', 'libgcc-s1', 'libstdc++6'];

/** Node 26 of tools/runtime: the newest that npm has. */
const NODE = realpathSync(join(ROOT, 'node_modules/.bin/node'));

const CA_FILE = '/etc/ssl/certs/ca-certificates.crt';

interface StandIns {
	/** `FROM` of the build stages. */
	readonly node: string;
	/** `FROM` of the last stage. */
	readonly cc: string;
}

/** Makes both in an image storage; `scratch` is a folder for their files. */
export function makeStandIns(buildah: (...args: string[]) => string, scratch: string, names: StandIns): void {
	commit(buildah, nodeImage(join(scratch, 'node')), names.node, ['--env', `NODE_EXTRA_CA_CERTS=${CA_FILE}`]);
	commit(buildah, ccImage(join(scratch, 'cc')), names.cc, []);
}

function commit(buildah: (...args: string[]) => string, folder: string, name: string, config: string[]): void {
	const container = buildah('from', 'scratch').trim();
	buildah('copy', '--quiet', container, folder, '/');
	buildah('config', ...config, container);
	buildah('commit', '--quiet', '--rm', container, name);
}

/** A shell and its commands, Node with its licence, and npm. */
function nodeImage(folder: string): string {
	for (const sub of ['bin', 'tmp', 'root', 'etc/ssl/certs', 'usr/local/bin', 'usr/local/lib/node_modules']) {
		mkdirSync(join(folder, sub), { recursive: true });
	}
	cpSync('/bin/busybox', join(folder, 'bin/busybox'));
	for (const name of succeed('/bin/busybox', ['--list']).trim().split('\n')) {
		if (name !== 'busybox') symlinkSync('busybox', join(folder, 'bin', name));
	}
	mkdirSync(join(folder, 'usr/bin'));
	symlinkSync('/bin/busybox', join(folder, 'usr/bin/env'));
	copyLibraries(folder, ...CC, 'libatomic1');
	cpSync(NODE, join(folder, 'usr/local/bin/node'));
	writeFileSync(join(folder, 'usr/local/LICENSE'), 'Node.js is licensed for use as follows');
	cpSync(npmFolder(), join(folder, 'usr/local/lib/node_modules/npm'), { recursive: true, dereference: true });
	symlinkSync('../lib/node_modules/npm/bin/npm-cli.js', join(folder, 'usr/local/bin/npm'));
	cpSync(CA_FILE, join(folder, CA_FILE));
	writeFileSync(join(folder, 'etc/passwd'), 'root:x:0:0:root:/root:/bin/sh\n');
	return folder;
}

/** glibc, libgcc, libstdc++, CA certificates and the user `nonroot`. */
function ccImage(folder: string): string {
	for (const sub of ['tmp', 'proc', 'dev', 'etc/ssl/certs', 'home/nonroot', 'usr/lib']) {
		mkdirSync(join(folder, sub), { recursive: true });
	}
	copyLibraries(folder, ...CC);
	cpSync(CA_FILE, join(folder, CA_FILE));
	const users = ['root:x:0:0:root:/root:/sbin/nologin', 'nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin'];
	writeFileSync(join(folder, 'etc/passwd'), `${users.join('\n')}\n`);
	return folder;
}

/** As Debian's packages install them, under the same paths. */
function copyLibraries(folder: string, ...packages: string[]): void {
	const paths = succeed('dpkg-query', ['--listfiles', ...packages]).split('\n');
	for (const library of paths.filter((path) => /\.so(\.[0-9.]+)?$/.test(path))) {
		mkdirSync(join(folder, dirname(library)), { recursive: true });
		copyFileSync(realpathSync(library), join(folder, library));
	}
}

function npmFolder(): string {
	const cli = process.env.npm_execpath ?? succeed('sh', ['-c', 'readlink -f "$(command -v npm)"']).trim();
	return join(cli, '../..');
}
