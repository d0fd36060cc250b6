/**
 * Proves what ARCHITECTURE.md says about packages at run time: that the gate needs none, that the proxy needs few, each with its
 * reason there, and that no row is left of one that has gone.
 */
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { type Manifest, readManifest } from '../build/manifest.ts';
import { finish } from './finish.ts';

/** Each is code of others next to the keys and requests of everyone. */
const MOST = 8;
/** Up to the next heading, or the end. */
const SECTION = /^## Dependencies\n((?:(?!## ).*\n?)*)/m;
/** A row of the section's table: the package in backquotes, then the reason. */
const ROW = /^\| `([^`]+)` \| *([^|]*?) *\|/gm;

/** Peers are no matter: who uses one has it already. */
export function checkNone({ name, dependencies, optionalDependencies }: Manifest): string[] {
	return Object.keys({ ...dependencies, ...optionalDependencies }).map((other) => `${name} installs ${other}`);
}

/** @param architecture the text of ARCHITECTURE.md */
export function checkDependencies(manifest: Manifest, architecture: string): string[] {
	const installed = Object.keys({ ...manifest.dependencies, ...manifest.optionalDependencies });
	const section = SECTION.exec(architecture)?.[1];
	if (section === undefined) return ["ARCHITECTURE.md has no section '## Dependencies'"];
	const reasons = new Map([...section.matchAll(ROW)].map(([, name, reason]) => [name!, reason!]));
	return [
		...(installed.length > MOST
			? [`package.json has ${installed.length} run-time dependencies, more than ${MOST}`]
			: []),
		...installed.filter((name) => !reasons.get(name)).map((name) => `ARCHITECTURE.md gives no reason for ${name}`),
		...[...reasons.keys()]
			.filter((name) => !installed.includes(name))
			.map((name) => `ARCHITECTURE.md gives a reason for ${name}, which package.json does not have`),
	];
}

if (import.meta.main) {
	const root = resolve(import.meta.dirname, '../..');
	const architecture = readFileSync(join(root, 'ARCHITECTURE.md'), 'utf8');
	finish('dependencies', `none of the gate, at most ${MOST} of the proxy at run time, each with its reason`, [
		...checkNone(readManifest(join(root, 'packages/gate'))),
		...checkDependencies(readManifest(join(root, 'packages/proxy')), architecture),
	]);
}
