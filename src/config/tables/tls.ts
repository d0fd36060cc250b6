import { z } from 'zod';
import { expected, explained, file, flagOr, oneOf, oneOrSeveral, optional, table } from './kinds.ts';

/** `[tls]`. */
export const tls = table('[tls]', {
	cert_path: file('the server certificate chain, PEM, leaf first').describe(
		'server certificate chain, PEM, leaf first',
	),
	key_path: file('the server private key, PEM').describe('its private key, PEM'),
	client_ca_path: file('the bundle of CAs that client certificates must chain to, PEM').describe(
		'CAs that client certificates must chain to, PEM; an issuing CA alone will do, its root is not needed',
	),
	min_version: optional(oneOf(['1.2', '1.3'], '"1.2"'), '`"1.3"` refuses clients that can do TLS 1.2 only', '`"1.2"`'),
	crl_path: files('certificate revocation lists (CRLs), PEM or DER')
		.default([])
		.meta(
			explained(
				'one file of certificate revocation lists, or a list of files; PEM (several lists in a file) or DER. Each must be signed by a CA of `client_ca_path`, or by one whose certificate stands in the file beside it',
				{ unset: 'none' },
			),
		),
	crl_required: flagOr(false).describe(
		'refuse clients of whose issuer there is no CRL, or none that is fresh; otherwise that is a warning',
	),
	end_at_expiry: flagOr(true).describe(
		'a client certificate that expires ends its connections then, not at the next handshake',
	),
	end_at_ca_removal: flagOr(false).describe(
		'a CA that is taken out of `client_ca_path` ends the connections of its clients at the reload',
	),
}).describe('the certificate that the proxy shows, and those of clients that it takes');

/** One path or several. */
function files(content: string) {
	const error = expected('the path of a file, or a list of them', `set it to the file with ${content}`);
	return oneOrSeveral(z.array(file(content), { error }).min(1, { error }));
}
