import { createPrivateKey, type X509Certificate } from 'node:crypto';
import { createSecureContext } from 'node:tls';
import { readCertificates } from '@mtls-edge-proxy/gate/tls/certificates.ts';
import type { ConfigFiles, LimiterConfig } from '../../config/config.ts';
import type { ConfigProblem } from '../../config/error.ts';
import { certificates, type Judged, readParsed } from './named-file.ts';

/** Contents of the files of `[limiter]`. */
export interface StoreFiles {
	/** Secrets. */
	readonly password: string | undefined;
	readonly sentinelPassword: string | undefined;
	/** Turns names of tenants into keys in the store. */
	readonly secret: string | undefined;
	/** PEM; `undefined`: Node's CAs. */
	readonly ca: string | undefined;
	/** The client certificate for the store, PEM; `undefined`: none. */
	readonly identity: { readonly cert: string; readonly key: string } | undefined;
}

/** Reads and judges the files of `[limiter]`. Messages never quote them. */
export async function judgeStoreFiles(files: ConfigFiles): Promise<Judged<{ readonly store: StoreFiles }>> {
	const problems: ConfigProblem[] = [];
	const warnings: ConfigProblem[] = [];
	const read = async <T>(
		key: string,
		pathKey: keyof LimiterConfig & `${string}Path`,
		parse: (text: string, warn: (message: string) => void) => T,
	): Promise<T | undefined> => {
		const { value, ...judged } = await readParsed(files, `limiter.${key}`, files.limiter?.[pathKey], parse);
		problems.push(...judged.problems);
		warnings.push(...judged.warnings);
		return value;
	};
	const password = await read('password_path', 'passwordPath', readPassword);
	const sentinelPassword = await read('sentinel_password_path', 'sentinelPasswordPath', readPassword);
	const secret = await read('secret_path', 'secretPath', (text) => {
		const trimmed = text.trim();
		if (trimmed.length >= MIN_SECRET) return trimmed;
		throw new Error(`has fewer than ${MIN_SECRET} characters; fill it from a random source (openssl rand -hex 32)`);
	});
	const ca = await read('ca_path', 'caPath', certificates);
	const chain = await read('cert_path', 'certPath', (pem, warn) => {
		const [leaf] = readCertificates(pem);
		const { validToDate } = leaf!;
		if (validToDate < new Date()) warn(`the leaf expired on ${validToDate.toISOString()}; renew it`);
		return { pem, leaf: leaf! };
	});
	const key = await read('key_path', 'keyPath', (pem) => readKeyOf(pem, chain));
	const identity = chain === undefined || key === undefined ? undefined : { cert: chain.pem, key };
	const store = { password, sentinelPassword, secret, ca, identity };
	return { ...(problems.length === 0 && { store }), problems, warnings };
}

/** Half of what `openssl rand -hex 32` gives. */
const MIN_SECRET = 32;

/** One line, without the line break at its end, which most editors write. */
function readPassword(text: string): string {
	const password = text.replace(/\r?\n$/, '');
	if (password === '') throw new Error('is empty; write the password into it');
	if (/[\r\n]/.test(password)) throw new Error('has several lines; write only the password into it, on one line');
	return password;
}

/** @param chain of the certificate; `undefined` if that cannot be used. */
function readKeyOf(pem: string, chain: { readonly pem: string; readonly leaf: X509Certificate } | undefined): string {
	let fits: boolean;
	try {
		const key = createPrivateKey(pem);
		fits = chain === undefined || chain.leaf.checkPrivateKey(key);
	} catch {
		throw new Error('contains no PEM private key that can be read without a passphrase; decrypt it (openssl pkey)');
	}
	if (!fits) {
		throw new Error(
			'the key does not match the first certificate of limiter.cert_path; give the key that it was issued for',
		);
	}
	if (chain !== undefined) assertAllowed(chain.pem, pem);
	return pem;
}

/** Checks OpenSSL's policy, such as the length of keys. */
function assertAllowed(cert: string, key: string): void {
	try {
		createSecureContext({ cert, key });
	} catch (error) {
		const { reason, code } = error as { reason?: string; code?: string };
		throw new Error(`refused by OpenSSL with its certificate: ${reason ?? code ?? 'no reason given'}`);
	}
}
