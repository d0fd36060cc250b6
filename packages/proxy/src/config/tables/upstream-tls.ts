import { z } from 'zod';
import { parseHostPort } from '../authority.ts';
import { expected, file, flagOr, oneOf, optional, table, text } from './kinds.ts';

const NAME = 'a host name or an IP address, without a port';
const REMEDY = 'set it to the name in the certificate, for example "billing.internal"';

const serverName = text(NAME, REMEDY).transform((written, context) => {
	// An IPv6 address has no brackets in a certificate; both spellings are accepted.
	const bare = written.includes(':') && !written.startsWith('[') ? `[${written}]` : written;
	const parsed = parseHostPort(bare);
	if (typeof parsed !== 'string' && parsed.port === undefined && !parsed.host.includes('%')) return parsed.host;
	context.addIssue(expected(NAME, REMEDY)({ input: written }));
	return z.NEVER;
});

/** `[upstreams.tls]`. */
export const upstreamTls = table('[upstreams.tls]', {
	ca_path: optional(
		file("the CAs that the upstream's certificate must chain to, PEM"),
		"CAs that the upstream's certificate must chain to, PEM, instead of the public ones. An issuing CA is enough, without its root",
		'the CAs that Node trusts',
	),
	server_name: optional(
		serverName,
		'name for SNI, and the name that the certificate must have',
		'the host of the address',
	),
	cert_path: optional(
		file('the client certificate chain, PEM, leaf first'),
		"the proxy's certificate chain for the upstream, PEM, leaf first; needs `key_path`",
		'none',
	),
	key_path: optional(file('the client private key, PEM'), 'its private key, PEM', 'none'),
	min_version: optional(
		oneOf(['1.2', '1.3'], '"1.2"'),
		'minimum TLS version. `"1.3"` refuses upstreams that support only TLS 1.2',
		'`"1.2"`',
	),
	insecure_skip_verify: flagOr(false).describe(
		'`true` accepts any certificate, from any issuer and for any name. The connection is encrypted, but the other end is unknown',
	),
});
