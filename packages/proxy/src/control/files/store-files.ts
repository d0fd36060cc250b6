import { createPrivateKey, type X509Certificate } from 'node:crypto';
import { createSecureContext } from 'node:tls';
import { readCertificates } from '@mtls-edge-proxy/gate/tls/certificates.ts';
import type { LimiterConfig } from '../../config/config.ts';
import { certificates, type Findings } from './findings.ts';

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

/** Messages never quote the files of `[limiter]`. */
export async function judgeStoreFiles(found: Findings): Promise<StoreFiles> {
	const fileAt = (key: string, pathKey: keyof LimiterConfig & `${string}Path`) =>
		found.file(`limiter.${key}`, found.files.limiter?.[pathKey]);
	const password = await fileAt('password_path', 'passwordPath').parsed(readPassword);
	const sentinelPassword = await fileAt('sentinel_password_path', 'sentinelPasswordPath').parsed(readPassword);
	const secret = await fileAt('secret_path', 'secretPath').parsed((text) => {
		const trimmed = text.trim();
		if (trimmed.length >= MIN_SECRET) return trimmed;
		throw new Error(`has fewer than ${MIN_SECRET} characters; fill it from a random source (openssl rand -hex 32)`);
	});
	const ca = await fileAt('ca_path', 'caPath').parsed(certificates);
	const certFile = fileAt('cert_path', 'certPath');
	const chain = await certFile.parsed((pem) => {
		const [leaf] = readCertificates(pem);
		const { validToDate } = leaf!;
		if (validToDate < new Date()) certFile.warn(`the leaf expired on ${validToDate.toISOString()}; renew it`);
		return { pem, leaf: leaf! };
	});
	const key = await fileAt('key_path', 'keyPath').parsed((pem) => readKeyOf(pem, chain));
	const identity = chain === undefined || key === undefined ? undefined : { cert: chain.pem, key };
	return { password, sentinelPassword, secret, ca, identity };
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
