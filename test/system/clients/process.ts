/** Clients as child processes. */
import { spawn, spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { buffer, text } from 'node:stream/consumers';
import type { Protocol } from '../../fixtures/clients.ts';
import type { TestPki } from '../../fixtures/pki.ts';
import { within } from '../../fixtures/wait.ts';
import { MIB, SMALL } from './requests.ts';

/** Where a client connects, and as which tenant. */
export interface Edge {
	/** `https://host:port/prefix` */
	readonly base: string;
	readonly protocol: Protocol;
	readonly pki: TestPki;
	/** Default: one that is admitted. */
	readonly token?: string;
}

/** Includes compiling, on a busy machine; above the clients' own time limits. */
const DEADLINE_MS = 180_000;

export function runs(command: string, ...args: string[]): boolean {
	return spawnSync(command, args, { stdio: 'ignore' }).status === 0;
}

/** Standard output as text (latin1). Rejects if the process fails, with its standard error. */
export async function output(
	command: readonly string[],
	env: Readonly<Record<string, string>> = {},
	options: { readonly input?: string; readonly mayFail?: boolean } = {},
): Promise<string> {
	const [file, ...args] = command as [string, ...string[]];
	const child = spawn(file, args, { stdio: 'pipe', env: { ...process.env, ...env } });
	const reap = () => child.kill('SIGKILL');
	process.on('exit', reap);
	try {
		const exit = new Promise<number | null>((resolve, reject) => {
			child.on('error', reject);
			child.on('close', resolve);
		});
		child.stdin.on('error', () => {}).end(options.input ?? '');
		const all = Promise.all([buffer(child.stdout), text(child.stderr), exit]);
		const [out, err, code] = await within(all, () => `${file} to end`, DEADLINE_MS);
		if (code !== 0 && !options.mayFail) throw new Error(`${file} ended with ${code}: ${err}`);
		return out.toString('latin1');
	} finally {
		process.off('exit', reap);
		reap();
	}
}

interface EdgeFiles {
	readonly ca: string;
	readonly cert: string;
	readonly key: string;
	readonly mib: string;
	readonly small: string;
}

let files: EdgeFiles | undefined;

/** Files for clients that are processes. */
export function edgeFiles({ pki }: Edge): EdgeFiles {
	if (files !== undefined) return files;
	const write = (name: string, bytes: Buffer) => {
		const path = join(pki.dir, name);
		writeFileSync(path, bytes);
		return path;
	};
	const { certPem, keyPem } = pki.clients.valid;
	files = {
		ca: pki.caPath,
		cert: pki.writeFile('client.crt', certPem),
		key: pki.writeFile('client.key', keyPem),
		mib: write('mib', MIB),
		small: write('small', SMALL),
	};
	return files;
}

export function tokenOf({ token, pki }: Edge): string {
	return token ?? pki.token();
}

/** As above, for the programs of this folder. @param upload bytes. */
export function edgeEnvironment(edge: Edge, upload = 0): Record<string, string> {
	const { ca, cert, key } = edgeFiles(edge);
	return { EDGE_CA: ca, EDGE_CERT: cert, EDGE_KEY: key, EDGE_TOKEN: tokenOf(edge), EDGE_UPLOAD: `${upload}` };
}
