import { z } from 'zod';
import { expected, file, flag, table } from './kinds.ts';

/** `[tls]` (specification 2.1). */
export const tls = table('[tls]', {
	cert_path: file('the server certificate chain, PEM, leaf first'),
	key_path: file('the server private key, PEM'),
	client_ca_path: file('the bundle of CAs that client certificates must chain to, PEM'),
	min_version: z.enum(['1.2', '1.3'], { error: expected('"1.2" or "1.3"', 'leave it out for "1.2"') }).optional(),
	crl_path: files('certificate revocation lists (CRLs), PEM or DER').default([]),
	crl_required: flag('false').default(false),
	end_at_expiry: flag('true').default(true),
	end_at_ca_removal: flag('false').default(false),
});

/** One path or several. */
function files(content: string) {
	const error = expected('the path of a file, or a list of them', `set it to the file with ${content}`);
	const paths = z.array(file(content), { error }).min(1, { error });
	return z.preprocess((value) => (typeof value === 'string' ? [value] : value), paths);
}
