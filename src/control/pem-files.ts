import { readFileSync } from 'node:fs';
import type { Config } from '../config/config.ts';
import { readPublicKey } from '../gates/public-key.ts';
import type { TlsMaterial } from '../shared/messages.ts';
import { type TlsNames, tlsWarnings, validateTlsMaterial } from '../shared/tls-material.ts';

/** A TLS identity that may be used, and what its operator should know of it. */
export interface TlsFiles {
	readonly material: TlsMaterial;
	readonly warnings: readonly string[];
}

/**
 * Reads and judges the three files of `[tls]` (specification 2.1).
 *
 * @throws Error naming key, file and remedy; never a word of a file's content.
 */
export function readTlsFiles(paths: Config['tls'], now: Date): TlsFiles {
	const names: TlsNames = {
		cert: `tls.cert_path (${paths.certPath})`,
		key: `tls.key_path (${paths.keyPath})`,
		ca: `tls.client_ca_path (${paths.clientCaPath})`,
	};
	const material: TlsMaterial = {
		cert: readText(paths.certPath, names.cert),
		key: readText(paths.keyPath, names.key),
		ca: readText(paths.clientCaPath, names.ca),
		minVersion: paths.minVersion,
	};
	validateTlsMaterial(material, names);
	return { material, warnings: tlsWarnings(material, names, now) };
}

/**
 * Reads and judges the key of `[jwt] jwks_path`.
 *
 * @returns the PEM text: key objects are made by each worker for itself.
 * @throws Error naming key, file and remedy.
 */
export function readJwtKeyFile(path: string): string {
	const name = `jwt.jwks_path (${path})`;
	const pem = readText(path, name);
	try {
		readPublicKey(pem);
	} catch (error) {
		throw new Error(`${name}: ${(error as Error).message}`);
	}
	return pem;
}

function readText(path: string, name: string): string {
	try {
		return readFileSync(path, 'utf8');
	} catch (error) {
		const { code, message } = error as NodeJS.ErrnoException;
		throw new Error(`${name}: cannot be read: ${REASONS.get(code ?? '') ?? message}`);
	}
}

const REASONS = new Map([
	['ENOENT', 'there is no such file'],
	['EACCES', 'permission denied'],
	['EISDIR', 'it is a directory'],
]);
