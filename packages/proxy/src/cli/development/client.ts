import { createPrivateKey, X509Certificate } from 'node:crypto';
import { CommandError } from '../command.ts';
import { issue, loadAuthority, validFor } from '../demo/pki.ts';
import { developmentFiles, readDevelopmentFile, writeNewFiles } from './folder.ts';

/** Longer than the 30 days before the end in which the proxy warns. */
export const CERTIFICATE_DAYS = 365;
export const CA_DAYS = 3650;

/**
 * Issues a client a certificate from the folder's CA: `NAME.crt` and `NAME.key`.
 *
 * @param sans DNS names and URIs.
 * @throws CommandError
 */
export async function createClient(
	dir: string,
	name: string,
	sans: readonly string[],
	now: number,
): Promise<{ readonly cert: string; readonly key: string }> {
	const files = developmentFiles(dir);
	const certPem = readDevelopmentFile(files.ca.cert, "the development CA's certificate");
	const keyPem = readDevelopmentFile(files.ca.key, "the development CA's key");
	const authority = await loadAuthority(certPem, keyPem).catch(() => {
		throw new CommandError(
			`${files.ca.cert}, ${files.ca.key}: are not a CA made by proxy init; name another folder with --dir`,
		);
	});
	if (!new X509Certificate(certPem).checkPrivateKey(createPrivateKey(keyPem))) {
		throw new CommandError(`${files.ca.key}: does not belong to ${files.ca.cert}; name another folder with --dir`);
	}
	const client = await issue(authority, {
		commonName: name,
		sans,
		usages: 'client',
		...validFor(CERTIFICATE_DAYS, now),
	});
	const paths = files.client(name);
	writeNewFiles([
		{ path: paths.cert, content: client.certPem },
		{ path: paths.key, content: client.keyPem, secret: true },
	]);
	return paths;
}
