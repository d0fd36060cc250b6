import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** Both in the source and in the bundle, package.json is one folder above the module of the command. */
export function readVersion(mainPath: string): string {
	return JSON.parse(readFileSync(join(dirname(mainPath), '../package.json'), 'utf8')).version;
}

/** Only the body module that the build or `-C boxed_body` has chosen knows it. */
export async function readBodyMode(): Promise<string> {
	return (await import('#body')).bodyMode;
}

export async function versionLine(mainPath: string): Promise<string> {
	return `proxy ${readVersion(mainPath)} (${await readBodyMode()} bodies, Node ${process.version})\n`;
}
