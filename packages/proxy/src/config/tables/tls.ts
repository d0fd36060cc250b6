import { z } from 'zod';
import { expected, file, flagOr, oneOf, oneOrSeveral, optional, table } from './kinds.ts';

/** `[tls]`. */
export const tls = table('[tls]', {
	cert_path: file('the server certificate chain, PEM, leaf first').describe(
		'server certificate chain, PEM, leaf first',
	),
	key_path: file('the server private key, PEM').describe('private key of the server certificate, PEM'),
	client_ca_path: file('the bundle of CAs that client certificates must chain to, PEM').describe(
		'CAs that client certificates must chain to, PEM. An issuing CA is enough, without its root',
	),
	min_version: optional(
		oneOf(['1.2', '1.3'], '"1.2"'),
		'minimum TLS version. `"1.3"` refuses clients that support only TLS 1.2',
		'`"1.2"`',
	),
	crl_path: files('certificate revocation lists (CRLs), PEM or DER').default([]).meta({
		description:
			'one file of certificate revocation lists, or a list of files; PEM (several lists in a file) or DER. Each list must be signed by a CA in `client_ca_path`, or by a CA whose certificate is in the same file',
		unset: 'none',
	}),
	crl_required: flagOr(false).describe(
		'refuse clients whose issuer has no fresh CRL. With `false` the proxy only warns',
	),
	end_at_expiry: flagOr(true).describe('end a connection when its client certificate expires'),
	end_at_ca_removal: flagOr(false).describe(
		"when a reload removes a CA from `client_ca_path`, end the connections of that CA's clients",
	),
}).describe("the proxy's own certificate, and the rules for clients' certificates");

/** One path or several. */
function files(content: string) {
	const error = expected('the path of a file, or a list of them', `set it to the file with ${content}`);
	return oneOrSeveral(z.array(file(content), { error }).min(1, { error }));
}
