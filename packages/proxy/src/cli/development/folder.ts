import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { CommandError } from '../command.ts';

/**
 * The folder of `proxy init` for development: a CA with its key, the server's and the clients' certificates, and the key that signs
 * tokens. In production, the server's private key is the only one near the proxy.
 */

interface DevelopmentFiles {
	readonly ca: { readonly cert: string; readonly key: string };
	readonly server: { readonly cert: string; readonly key: string };
	readonly issuer: { readonly publicKey: string; readonly key: string };
	readonly client: (name: string) => { readonly cert: string; readonly key: string };
}

/** The paths in `dir`. */
export function developmentFiles(dir: string): DevelopmentFiles {
	const pair = (name: string) => ({ cert: join(dir, `${name}.crt`), key: join(dir, `${name}.key`) });
	return {
		ca: pair('ca'),
		server: pair('server'),
		issuer: { publicKey: join(dir, 'issuer.pub'), key: join(dir, 'issuer.key') },
		client: pair,
	};
}

export interface NewFile {
	readonly path: string;
	readonly content: string;
	/** Readable by its owner only. */
	readonly secret?: true;
}

/**
 * Writes files that must not exist yet. Creates folders as needed; only the owner can read those with secrets. Writes either all
 * files or, as far as the file system allows, none.
 *
 * @throws CommandError naming the obstacle and the remedy.
 */
export function writeNewFiles(files: readonly NewFile[]): void {
	const written: string[] = [];
	const secretFolders = new Set(files.filter(({ secret }) => secret).map(({ path }) => dirname(path)));
	try {
		for (const { path, content, secret } of files) {
			const folder = dirname(path);
			mkdirSync(folder, { recursive: true, mode: secretFolders.has(folder) ? 0o700 : 0o755 });
			// Fails if anything exists there, including a dangling link.
			writeFileSync(path, content, { flag: 'wx', mode: secret ? 0o600 : 0o644 });
			written.push(path);
		}
	} catch (error) {
		for (const path of written) rmSync(path, { force: true });
		const { code, path } = error as NodeJS.ErrnoException;
		if (code === 'EEXIST') {
			throw new CommandError(`${path}: already exists, and is not overwritten; move it away, or name another folder`);
		}
		throw new CommandError(`${path}: cannot be written (${code})`);
	}
}

/**
 * Reads one of the folder's files.
 *
 * @param what for the message: `the development CA`.
 * @param remedy if there is no such file.
 * @throws CommandError
 */
export function readDevelopmentFile(
	path: string,
	what: string,
	remedy = '`proxy init` creates it, --dir names the folder',
): string {
	try {
		return readFileSync(path, 'utf8');
	} catch (error) {
		const { code } = error as NodeJS.ErrnoException;
		const cause = code === 'ENOENT' ? `there is no such file; ${remedy}` : String(code);
		throw new CommandError(`${path}: ${what} cannot be read: ${cause}`);
	}
}
