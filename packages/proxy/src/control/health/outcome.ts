import { SPEAKS_NO_TLS, SPEAKS_TLS, UNTRUSTED } from '@mtls-edge-proxy/gate/words/causes.ts';
import type { HealthSettings } from '../../config/config.ts';
import type { Verdict } from './health.ts';

/** The outcome of a health probe, in words for operators, with the remedy. Pure. */

export interface ProbeOutcome {
	readonly passed: boolean;
	/** `GET /health answered 404`, `connection refused`. */
	readonly found: string;
	/** `undefined`: none is needed. */
	readonly remedy: string | undefined;
	/** Seconds since the epoch. */
	readonly atSeconds: number;
}

export function outcomeOf(
	{ healthy, cause, ...verdict }: Verdict,
	{ path }: Pick<HealthSettings, 'path'>,
	atSeconds: number,
): ProbeOutcome {
	const status = 'status' in verdict ? verdict.status : undefined;
	const found = status === undefined ? cause : `GET ${withoutQuery(path)} answered ${status}`;
	if (healthy === true) return { passed: true, found, remedy: undefined, atSeconds };
	return { passed: false, found, remedy: status === undefined ? remedyOf(cause) : remedyOfStatus(status), atSeconds };
}

/** `GET /health answered 404: set health_path, or health = false`. */
export function inWords({ found, remedy }: ProbeOutcome): string {
	return remedy === undefined ? found : `${found}: ${remedy}`;
}

/** A query may contain secrets. */
function withoutQuery(path: string): string {
	return path.split('?', 1)[0]!;
}

/** Status codes of gRPC. */
const NOT_FOUND = 5;
const UNIMPLEMENTED = 12;

const OTHER_PATH = 'set health_path, or health = false';

function remedyOfStatus(status: number): string {
	if (status === 401 || status === 403) return `let probes in without credentials, or ${OTHER_PATH}`;
	if (status >= 300 && status < 400) return `redirects are not followed: ${OTHER_PATH}`;
	if (status >= 500) return 'its own log says why';
	return OTHER_PATH;
}

function remedyOf(cause: string): string | undefined {
	if (cause === `grpc-status ${UNIMPLEMENTED}`) return 'serve grpc.health.v1.Health, or leave health_grpc out';
	if (cause === `grpc-status ${NOT_FOUND}`) return 'health_grpc names a service that the server does not know';
	const known = REMEDIES[cause];
	if (known !== undefined) return known;
	// RFC 8446 section 6.2: a server's alerts about a client's certificate, or the lack of one.
	if (/^refused in the TLS handshake: .*(?:certificate|unknown ca)/.test(cause)) {
		return 'set cert_path and key_path in its [upstreams.tls] to a certificate that it accepts';
	}
	if (/^no response within/.test(cause))
		return 'check whether it is busy or packets are dropped, or raise health_timeout_secs';
	return undefined;
}

const OWN_LOG = 'its own log may say why';
const NAME = 'correct the host name, or add it to DNS';
const NETWORK = 'check its machine, and the routes and firewalls on the way';
const HERE = 'raise the limit of this machine or container (ulimit -n)';

/** By cause, as worded in `words/causes.ts`. */
const REMEDIES: Readonly<Record<string, string>> = {
	'connection refused': 'start it, or correct the port: nothing listens there',
	'connection reset': OWN_LOG,
	'connection closed without a response': OWN_LOG,
	'closed within the TLS handshake': OWN_LOG,
	'no HTTP response': 'correct the port: something other than HTTP/1.1 answers there',
	'connection timed out': NETWORK,
	'no route to host': NETWORK,
	'network unreachable': NETWORK,
	'host down': NETWORK,
	'connection forbidden': 'check the firewall or sandbox of this machine',
	'no such host': NAME,
	'host without an address': NAME,
	'name server does not answer': 'check the name server of this machine (/etc/resolv.conf)',
	'no file descriptor left': HERE,
	'no local port left': 'widen net.ipv4.ip_local_port_range, or use fewer connections',
	'no memory left': HERE,
	[SPEAKS_TLS]: 'write https://, or give its [[upstreams]] an [upstreams.tls]',
	[SPEAKS_NO_TLS]: 'write http://, or remove [upstreams.tls]',
	[UNTRUSTED]: 'set ca_path in its [upstreams.tls] to the CA that issued it',
	'its certificate is for another name': 'set server_name in its [upstreams.tls] to a name in its certificate',
	'its certificate, or one of its issuers, has expired': 'renew it there',
	'its certificate, or one of its issuers, is not valid yet': 'check the clocks of both machines',
	'its certificate is revoked': 'renew it there',
	'it did not choose HTTP/2 (ALPN)': 'switch HTTP/2 on there, which gRPC needs; without gRPC, set protocol = "auto"',
	'its certificate is not for servers': 'issue it with extended key usage serverAuth',
	'it speaks no version of TLS that is allowed here':
		'enable TLS 1.2 or 1.3 on it; see min_version in its [upstreams.tls]',
};
