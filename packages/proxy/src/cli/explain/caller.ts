import type { X509Certificate } from 'node:crypto';
import { inOneLine } from '@mtls-edge-proxy/gate/identity/distinguished-name.ts';
import type { Config } from '../../config/config.ts';
import { plural, quote } from '../../config/wording.ts';
import { ClientConnection } from '../../data/client/client-connection.ts';
import type { CertificateNames } from '../../identity/certificate-names.ts';
import type { TlsMaterial } from '../../shared/messages.ts';
import { ClientPolicy } from '../../tls/client-policy.ts';
import { inWords, placeOf, timeOf } from './places.ts';
import type { Reports } from './report.ts';
import { type PresentedChain, presentChain } from './tls-client.ts';

/** The client's side of the connection, as far as it can be known without a network. */
export interface Client {
	/** With the given certificate, even if the listener would have refused it. */
	readonly connection: ClientConnection;
	readonly hasCertificate: boolean;
}

/** @param chain leaf first; `undefined`: none was given. */
export async function judgeClient(
	chain: readonly X509Certificate[] | undefined,
	config: Config,
	tls: TlsMaterial,
	peer: string,
	protocol: 'http/1.1' | 'h2',
	nowSeconds: number,
	reports: Reports,
): Promise<Client> {
	if (chain === undefined) {
		reports.notAsked(
			'client certificate',
			'give --client-cert to check it: without a certificate there is no connection',
		);
		return { connection: connectionOf(undefined, peer, protocol), hasCertificate: false };
	}
	const policy = new ClientPolicy(tls);
	const presented = await presentChain(chain, tls, policy, nowSeconds);
	const details = certificateWords(presented, config, tls, nowSeconds);
	if (presented.refusal === undefined) reports.ok('client certificate', ...details);
	else {
		const refusal = { ending: 'closed', reason: presented.refusal } as const;
		reports.add({ gate: 'client certificate', verdict: 'refused', refusal, details });
	}
	return { connection: connectionOf(presented, peer, protocol), hasCertificate: true };
}

/** Placeholder for the port that the client connects to: only the command line of the running proxy has it. */
const SOME_PORT = '[port]';

function connectionOf(presented: PresentedChain | undefined, peer: string, protocol: 'http/1.1' | 'h2') {
	const socket = {
		getProtocol: () => 'TLSv1.3',
		getPeerX509Certificate: () => presented?.certificate,
		getX509Certificate: () => presented?.own,
		localPort: SOME_PORT,
	};
	return new ClientConnection(socket, peer, protocol);
}

function certificateWords(
	{ certificate, refusal, code }: PresentedChain,
	config: Config,
	{ clients }: TlsMaterial,
	nowSeconds: number,
): string[] {
	const { validFromDate, validToDate, subject, issuer, serialNumber } = certificate;
	const [from, to] = [validFromDate.getTime() / 1000, validToDate.getTime() / 1000];
	const left = to - nowSeconds;
	const validity = left < 0 ? `expired ${inWords(-left)} ago` : `ends in ${inWords(left)}`;
	const words = [
		`subject ${quote(inOneLine(subject ?? ''))}`,
		`serial ${serialNumber}`,
		`issued by ${quote(inOneLine(issuer ?? ''))}; CAs: ${placeOf(config, 'tls.client_ca_path')}`,
		`valid from ${timeOf(from)} to ${timeOf(to)}, ${from > nowSeconds ? 'not yet' : validity}`,
	];
	const asked = clients === undefined ? 0 : clients.crls.length;
	const lists = [
		...(asked === 0 ? [] : [plural(asked, 'CRL')]),
		...(config.revokedPath === undefined ? [] : ['revoked_path']),
	];
	words.push(`revocation: ${lists.length === 0 ? 'not checked' : `checked against ${lists.join(' and ')}`}`);
	const remedy = refusal === undefined ? undefined : REMEDIES[refusal];
	if (refusal !== undefined)
		words.push(`${refusal}${code === undefined ? '' : ` (${code})`}${remedy === undefined ? '' : `: ${remedy}`}`);
	return words;
}

const REMEDIES: Readonly<Record<string, string>> = {
	'unknown CA':
		'its chain ends at no CA of the bundle; intermediates belong in the file of --client-cert, after the leaf',
	'wrong purpose': 'its extended key usage has no clientAuth',
	expired: 'renew it, or a CA above it',
	'not yet valid': 'its validity, or that of a CA above it, begins later',
	revoked: 'a CRL or revoked_path names it, or a CA above it',
	'no fresh CRL': 'tls.crl_required is true, and a CA above it has no fresh CRL',
};

/** The names that route patterns are matched against. */
export function namesInWords(names: CertificateNames | undefined): string {
	if (names === undefined) return 'its names cannot be read';
	const all = [
		...names.uris.map((uri) => quote(uri)),
		...names.dns.map((name) => quote(`dns:${name}`)),
		...names.commonNames.map((name) => quote(`cn:${name}`)),
	];
	return all.length === 0
		? 'it has no names'
		: `it has ${all.slice(0, MAX_NAMES).join(', ')}${all.length > MAX_NAMES ? ', …' : ''}`;
}

const MAX_NAMES = 8;
