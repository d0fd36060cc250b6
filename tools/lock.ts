/**
 * `npm run lock`, after every change of dependencies: completes package-lock.json.
 *
 * Compilers come as one optional package for each platform. npm locks only those that the registry at hand carries,
 * which need not be all of them; elsewhere, `npm ci` then finds the lock out of step with package.json and stops. The
 * entries written here name the version and the platform. They have no integrity hash, as that is the registry's to
 * tell: npm checks none for a platform that was not locked where its package could be had.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

export interface LockedPackage {
	readonly version?: string;
	readonly resolved?: string;
	readonly dev?: boolean;
	readonly optionalDependencies?: Readonly<Record<string, string>>;
	readonly [field: string]: unknown;
}

export interface Lock {
	readonly packages: Readonly<Record<string, LockedPackage>>;
}

const OS = /(?:^|-)(aix|android|darwin|freebsd|linux|netbsd|openbsd|openharmony|sunos|win32)(?:-|$)/;
const CPU = /-(arm64|arm|ia32|loong64|mips64el|ppc64|riscv64|s390x|wasm32|x64)(?:-|$)/;
const EXACT = /^\d+\.\d+\.\d+(?:-[\w.]+)?$/;

/**
 * The entries that package-lock.json lacks, by path.
 * @throws {Error} where an optional package is missing that is not one of a set for platforms, in one exact version
 */
export function missingPlatforms({ packages }: Lock): Record<string, LockedPackage> {
	const missing: Record<string, LockedPackage> = {};
	for (const [path, { dev, optionalDependencies = {} }] of Object.entries(packages)) {
		for (const [name, version] of Object.entries(optionalDependencies)) {
			if (`node_modules/${name}` in packages || `${path}/node_modules/${name}` in packages) continue;
			missing[`node_modules/${name}`] = { version, ...platformOf(name, version), ...(dev && { dev }), optional: true };
		}
	}
	return missing;
}

/** In the words of package.json, so that npm leaves the package out elsewhere. */
function platformOf(name: string, version: string): LockedPackage {
	const cpu = CPU.exec(name)?.[1];
	const os = OS.exec(name)?.[1];
	if (!cpu || !EXACT.test(version))
		throw new Error(`${name}@${version} is not locked, and its platform cannot be told`);
	const libc = os === 'linux' && /-(?:musl|gnu)/.exec(name)?.[0];
	return { cpu: [cpu], ...(os && { os: [os] }), ...(libc && { libc: [libc === '-musl' ? 'musl' : 'glibc'] }) };
}

function readLock(path: string): Lock {
	return JSON.parse(readFileSync(path, 'utf8'));
}

if (import.meta.main) {
	const path = join(resolve(import.meta.dirname, '..'), 'package-lock.json');
	const lock = readLock(path);
	const missing = missingPlatforms(lock);
	const packages = Object.entries({ ...lock.packages, ...missing }).sort(([a], [b]) => a.localeCompare(b, 'en'));
	writeFileSync(path, `${JSON.stringify({ ...lock, packages: Object.fromEntries(packages) }, null, 2)}\n`);
	console.log(`package-lock.json: ${Object.keys(missing).length} entries for other platforms added`);
}
