import { file, table } from './kinds.ts';

/** `[tls]` (specification 2.1). */
export const tls = table('[tls]', {
	cert_path: file('the server certificate chain, PEM, leaf first'),
	key_path: file('the server private key, PEM'),
	client_ca_path: file('the bundle of CAs that client certificates must chain to, PEM'),
});
