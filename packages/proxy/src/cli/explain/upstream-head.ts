import { Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import type { Principal } from '@mtls-edge-proxy/gate/gates/token-cache.ts';
import { framingLine } from '#body';
import type { RouteConfig } from '../../config/config.ts';
import { versionAndHost } from '../../data/client/outgoing-head.ts';
import { schemeField, webSocketField } from '../../data/memo/outgoing-block.ts';
import { UNDECLARED } from '../../gates/body-limit.ts';
import type { Correlation, Identified } from '../../gates/correlation.ts';
import { Forwarding } from '../../gates/forwarding.ts';
import { grpcTimeoutOf } from '../../gates/grpc-timeout.ts';
import { upgradeLines } from '../../gates/web-socket.ts';
import { type FieldReading, HpackDecoder } from '../../http2/hpack-decoder.ts';
import { STATIC_TABLE, type TableEntry } from '../../http2/hpack-table.ts';
import { CertificateHeaders } from '../../identity/certificate-headers.ts';
import { loadNameReader } from '../../identity/certificate-names.ts';
import type { Client } from './caller.ts';
import type { ReadRequest, RequestSpec } from './request.ts';

/** Placeholder for the length of a body that is known only at its end. */
const SOME_LENGTH = '[bytes]';
/** Placeholder for a key that is new for each attempt. */
const SOME_KEY = '(made for each attempt)';

/**
 * The head that the upstream gets, written by the running proxy's own code.
 *
 * @returns the lines of HTTP/1.1, without the empty one; over HTTP/2 the fields of the header block as lines, in their order.
 */
export async function upstreamHead(
	{ prefix, upstream, certificateHeaders, forwarding }: RouteConfig,
	{ tenantHeader }: Principal,
	{ method, target, targetAuthority, head }: ReadRequest,
	{ bodyBytes }: RequestSpec,
	{ connection }: Client,
	identify: ((head: Identified) => Correlation) | undefined,
): Promise<readonly string[]> {
	const { bodyLength, grpcTimeout, webSocket, authority: asked, lines } = head!;
	const handshake = webSocket instanceof Rejection ? undefined : webSocket;
	const isHttp2 = upstream.protocol === 'h2';
	const read = certificateHeaders?.xfcc === undefined ? undefined : await loadNameReader();
	const certificateLines =
		certificateHeaders === undefined ? '' : connection.caller!.lines(new CertificateHeaders(certificateHeaders, read));
	const correlation = identify?.(head!);
	const framing = framingLine(method, bodyLength === UNDECLARED ? (bodyBytes ?? UNDECLARED) : bodyLength);
	const { authority: own, hostField = own } = upstream.dns ?? upstream.addresses[0]!;
	const plain = { versionAndHost: versionAndHost(hostField), lines };
	const rewritten =
		forwarding === undefined
			? plain
			: connection.rewrite(new Forwarding(forwarding, prefix), plain.versionAndHost, targetAuthority ?? asked, head!);
	const ownLines =
		grpcTimeout == null
			? (correlation?.lines ?? '')
			: `${correlation?.lines ?? ''}grpc-timeout: ${grpcTimeoutOf(grpcTimeout)}\r\n`;
	const write = (asMethod: string, framing: string) =>
		(isHttp2 ? connection.outgoingBlock : connection.outgoing).write(
			asMethod,
			target,
			rewritten.versionAndHost,
			tenantHeader,
			certificateLines,
			ownLines,
			rewritten.lines,
			framing,
		);
	if (!isHttp2) {
		const text =
			handshake === undefined
				? write(method, framing.replace(`: ${UNDECLARED}\r\n`, `: ${SOME_LENGTH}\r\n`))
				: write('GET', upgradeLines(handshake, SOME_KEY));
		return text.split('\r\n').slice(0, -2);
	}
	const scheme = schemeField(upstream.tls !== undefined);
	return handshake === undefined
		? fieldsOf(scheme + write(method, framing.replace(`: ${UNDECLARED}\r\n`, `: ${SOME_LENGTH}\r\n`)))
		: fieldsOf(webSocketField() + scheme + write('CONNECT', handshake.lines));
}

const entry = (name: string, value: string): TableEntry => ({ name, value });
const READING: FieldReading<TableEntry> = {
	make: entry,
	staticFields: STATIC_TABLE.map(([name, value]) => entry(name, value)),
	maxFields: Number.POSITIVE_INFINITY,
	maxBytes: Number.POSITIVE_INFINITY,
	literals: undefined,
};

/** The fields of a header block, as lines. */
function fieldsOf(block: string): string[] {
	const bytes = Buffer.from(block, 'latin1');
	return new HpackDecoder(READING).decode(bytes, 0, bytes.length).fields.map(({ name, value }) => `${name}: ${value}`);
}

/** Notes on parts of the head that depend on the actual request. */
export function notesOnHead({ upstream, forwarding }: RouteConfig, isWebSocket: boolean): string[] {
	const { dns, addresses, protocol } = upstream;
	const notes: string[] = [];
	const isOwn = forwarding === undefined || forwarding.host === 'upstream';
	if (isOwn && dns === undefined && addresses.length > 1) {
		const host = protocol === 'h2' ? ':authority' : 'Host';
		notes.push(
			`${host} is the address that the request goes to; this is the first of ${addresses.length}, ${addresses[0]!.authority}`,
		);
	}
	if (isWebSocket && protocol === 'h2') notes.push(EXTENDED_CONNECT);
	if (protocol === 'auto') notes.push(BY_ALPN);
	return notes;
}

const EXTENDED_CONNECT =
	'over HTTP/2 this is an extended CONNECT with :protocol websocket (RFC 8441), which the upstream must allow in its SETTINGS';

const BY_ALPN =
	'the upstream chooses HTTP/2 or HTTP/1.1 in the handshake (protocol = "auto"); the head shown is that of HTTP/1.1';
