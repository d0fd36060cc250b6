/**
 * Runs before every npm script. It installs what package-lock.json asks for and is not there yet, then makes sure that
 * the script runs on the Node pinned in tools/runtime: npm skips an optional package that it cannot get without a
 * word, and the script would run on whatever Node the machine has.
 *
 * Plain JavaScript for Node 20 and up: this is the one file that also runs before the pinned Node is there.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The oldest Node that runs this project (`engines`), for platforms without a pinned one. */
const OLDEST_MAJOR = 24;

/**
 * @typedef {{version?: string, integrity?: string, optional?: boolean, link?: boolean}} LockedPackage
 * @typedef {{packages: Record<string, LockedPackage>}} Lock
 * @typedef {{package: string, version: string}} Runtime
 */

/** @param {string} root */
function install(root) {
	const runtime = runtimeFor(process.platform, process.arch, readJson(join(root, 'tools/runtime/package.json')));
	const reason = installReason(root, runtime);
	if (reason !== undefined) {
		console.error(`Installing the dependencies that package-lock.json names (npm ci): ${reason}.`);
		npmCi(root);
	}
	assertRuntime(root, runtime);
}

/**
 * Why `npm ci` is needed, or undefined where it is not.
 * @param {string} root
 * @param {Runtime | undefined} runtime
 */
function installReason(root, runtime) {
	// npm writes this file last, so that an install that was cut short reads as no install.
	const installed = join(root, 'node_modules/.package-lock.json');
	if (!existsSync(installed)) return 'node_modules is not there';
	const difference = lockDifference(readJson(join(root, 'package-lock.json')), readJson(installed));
	if (difference !== undefined) return difference;
	if (runtime && !existsSync(pinnedNode(root))) return `the pinned Node (${runtime.package}) is not there`;
	return undefined;
}

/**
 * The first difference between what is locked and what is installed, in words; undefined where they agree. A missing
 * optional package is none: most of them are for other platforms.
 * @param {Lock} locked
 * @param {Lock} installed
 */
export function lockDifference(locked, installed) {
	for (const [path, entry] of Object.entries(locked.packages)) {
		const there = installed.packages[path];
		if (path === '' || (!there && entry.optional)) continue;
		if (!there) return `${path} is not there`;
		if (there.version !== entry.version || there.integrity !== entry.integrity) {
			return `${path} is at ${there.version}, not at the locked ${entry.version}`;
		}
	}
	const extraneous = Object.keys(installed.packages).find((path) => !(path in locked.packages));
	return extraneous && `${extraneous} is installed but not locked`;
}

/**
 * The package that carries the pinned Node for a platform, or undefined where none is published.
 * @param {string} platform
 * @param {string} arch
 * @param {{optionalDependencies: Record<string, string>}} manifest tools/runtime/package.json
 * @returns {Runtime | undefined}
 */
export function runtimeFor(platform, arch, manifest) {
	for (const [name, version] of Object.entries(manifest.optionalDependencies)) {
		if (name.endsWith(`-${platform}-${arch}`)) return { package: name, version };
	}
	return undefined;
}

/** @param {string} root */
function npmCi(root) {
	// Under npm, go on with the same npm and the Node that it runs on: the one on PATH may be the pinned one, which
	// `npm ci` is about to delete and write anew.
	const cli = process.env.npm_execpath;
	const [command, prefix] =
		cli && basename(cli) === 'npm-cli.js' ? [process.env.npm_node_execpath ?? process.execPath, [cli]] : ['npm', []];
	// Both kinds are needed whatever NODE_ENV or a user's own npm settings say; `error` silences the note that the
	// machine's Node is older than `engines`, which is what the pinned one is for.
	const args = [...prefix, 'ci', '--include=dev', '--include=optional', '--no-audit', '--no-fund', '--loglevel=error'];
	const { status, error } = spawnSync(command, args, { cwd: root, stdio: ['ignore', process.stderr, process.stderr] });
	if (error) fail(`npm could not be started: ${error.message}`);
	if (status !== 0) fail(`npm ci failed (exit code ${status}); its own message is above.`);
}

/**
 * @param {string} root
 * @param {Runtime | undefined} runtime
 */
function assertRuntime(root, runtime) {
	if (!runtime) {
		const here = `${process.platform}-${process.arch}`;
		if (Number.parseInt(process.versions.node, 10) < OLDEST_MAJOR) {
			fail(
				`No pinned Node is published for ${here}, and this is Node ${process.versions.node}: put Node ${OLDEST_MAJOR} or newer first on PATH.`,
			);
		}
		console.error(`warning: no pinned Node is published for ${here}; going on with Node ${process.versions.node}.`);
		return;
	}
	const { stdout, error } = spawnSync(pinnedNode(root), ['-p', 'process.versions.node'], { encoding: 'utf8' });
	const found = stdout?.trim();
	if (found === runtime.version) return;
	fail(
		[
			`node_modules/.bin/node should be Node ${runtime.version} and ${found ? `is ${found}` : 'does not run'}${error ? ` (${error.message})` : ''}.`,
			existsSync(pinnedNode(root))
				? 'It needs a Linux with glibc 2.28 or newer, or macOS. If this is one: rm -rf node_modules && npm ci'
				: `npm left out the optional package ${runtime.package}. Check that your registry or mirror carries it, then: npm ci --include=optional`,
		].join('\n'),
	);
}

/** @param {string} root */
function pinnedNode(root) {
	return join(root, 'node_modules/.bin/node');
}

/** @param {string} path */
function readJson(path) {
	return JSON.parse(readFileSync(path, 'utf8'));
}

/**
 * @param {string} message
 * @returns {never}
 */
function fail(message) {
	console.error(message);
	process.exit(1);
}

const self = fileURLToPath(import.meta.url);
if (process.argv[1] && realpathSync(process.argv[1]) === self) install(join(self, '../..'));
