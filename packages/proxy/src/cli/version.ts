import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
// Only the body module that the build or `-C boxed_body` has chosen knows its mode.
import { bodyMode } from '#body';

/** Both in the source and in the bundle, package.json is one folder above the module of the command. */
export function readVersion(mainPath: string): string {
	return JSON.parse(readFileSync(join(dirname(mainPath), '../package.json'), 'utf8')).version;
}

export function versionLine(mainPath: string): string {
	return `proxy ${readVersion(mainPath)} (${bodyMode} bodies, Node ${process.version})\n`;
}
