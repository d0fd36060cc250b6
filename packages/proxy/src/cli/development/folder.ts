import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { CommandError } from '../command.ts';

/**
 * The folder with what `proxy init` makes for development: a CA with its key, the server's and the clients' certificates, and the
 * key that signs tokens. In production none of the private keys but the server's is anywhere near the proxy.
 */

export interface DevelopmentFiles {
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
 * Writes files that must not exist yet. Folders are made as needed, those with secrets readable by their owner only. Either all are
 * written or, as far as the file system lets us, none.
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
			// Fails where anything is, also a link that leads nowhere.
			writeFileSync(path, content, { flag: 'wx', mode: secret ? 0o600 : 0o644 });
			written.push(path);
		}
	} catch (error) {
		for (const path of written) rmSync(path, { force: true });
		const { code, path } = error as NodeJS.ErrnoException;
		if (code === 'EEXIST') {
			throw new CommandError(
				`${path}: is there already, and nothing is overwritten; move it away, or name another folder`,
			);
		}
		throw new CommandError(`${path}: cannot be written (${code})`);
	}
}

/**
 * One of the folder's files.
 *
 * @param what for the message: `the development CA`.
 * @param remedy where there is no such file.
 * @throws CommandError
 */
export function readDevelopmentFile(
	path: string,
	what: string,
	remedy = '`proxy init` makes it, --dir names the folder',
): string {
	try {
		return readFileSync(path, 'utf8');
	} catch (error) {
		const { code } = error as NodeJS.ErrnoException;
		const cause = code === 'ENOENT' ? `there is no such file; ${remedy}` : String(code);
		throw new CommandError(`${path}: ${what} cannot be read: ${cause}`);
	}
}
