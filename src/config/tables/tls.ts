import { z } from 'zod';
import { expected, file, table } from './kinds.ts';

/** `[tls]` (specification 2.1). */
export const tls = table('[tls]', {
	cert_path: file('the server certificate chain, PEM, leaf first'),
	key_path: file('the server private key, PEM'),
	client_ca_path: file('the bundle of CAs that client certificates must chain to, PEM'),
	min_version: z.enum(['1.2', '1.3'], { error: expected('"1.2" or "1.3"', 'leave it out for "1.2"') }).optional(),
});
