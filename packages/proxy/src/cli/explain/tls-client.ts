import type { X509Certificate } from 'node:crypto';
import { duplexPair } from 'node:stream';
import { chainFault } from '@mtls-edge-proxy/gate/tls/node-internals.ts';
import { createListenerContexts } from '@mtls-edge-proxy/gate/tls/tls-options.ts';
import { serverSocket } from '../../data/listener/handshake.ts';
import type { Admission } from '../../identity/client-chain.ts';
import { type HandshakeRefusal, refusalOfCertificate, refusalOfError } from '../../identity/handshake-refusals.ts';
import type { TlsMaterial } from '../../shared/messages.ts';
import type { ClientPolicy } from '../../tls/client-policy.ts';

/**
 * Judges a client's certificates as the listener would. OpenSSL judges chains only in handshakes, and only the holder of the
 * certificate's key can finish one. But in TLS 1.2 the client sends its certificates before it proves that it has the key
 * (RFC 5246 section 7.3), and OpenSSL judges them on arrival. So the listener's own socket gets the first two messages of a
 * client, in memory, and then an alert that cancels the handshake.
 */
export interface PresentedChain {
	/** The leaf as the listener sees it, with the issuers that came along. */
	readonly certificate: X509Certificate;
	/** The proxy's own certificate, from which names for `By` are read. */
	readonly own: X509Certificate | undefined;
	readonly refusal: HandshakeRefusal | undefined;
	/** OpenSSL's code for the refusal, if there is one. */
	readonly code: string | undefined;
}

/**
 * @param chain leaf first.
 * @param nowSeconds wall-clock time, seconds since the epoch.
 * @throws Error if the handshake does not get that far.
 */
export async function presentChain(
	chain: readonly X509Certificate[],
	material: TlsMaterial,
	policy: ClientPolicy,
	nowSeconds: number,
): Promise<PresentedChain> {
	const [near, far] = duplexPair();
	// The version affects only when the certificates arrive.
	const contexts = createListenerContexts({ ...material, minVersion: '1.2' });
	const socket = serverSocket(near, contexts);
	const admission = { bundle: contexts.bundle, seconds: nowSeconds };
	try {
		const presented = Promise.withResolvers<PresentedChain>();
		socket.on('error', (error: NodeJS.ErrnoException) => {
			const certificate = socket.getPeerX509Certificate();
			const own = socket.getX509Certificate();
			// OpenSSL gives no verdict on a certificate that it cannot read.
			presented.resolve(
				certificate === undefined
					? { certificate: chain[0]!, own, refusal: refusalOfError(error.code, 1), code: error.code }
					: { certificate, own, ...judge(certificate, chainFault(socket), policy, admission) },
			);
		});
		far.on('error', presented.reject);
		let answer = Buffer.alloc(0);
		far.on('data', (bytes: Buffer) => {
			answer = Buffer.concat([answer, bytes]);
			if (answer.subarray(-SERVER_HELLO_DONE.length).equals(SERVER_HELLO_DONE))
				far.write(certificatesAndGoodbye(chain));
		});
		far.write(CLIENT_HELLO);
		const timer = setTimeout(() => presented.reject(new Error('the handshake does not go on')), LIMIT_MS);
		return await presented.promise.finally(() => clearTimeout(timer));
	} finally {
		socket.destroy();
		far.destroy();
	}
}

const LIMIT_MS = 5_000;

function judge(certificate: X509Certificate, code: string | undefined, policy: ClientPolicy, admission: Admission) {
	if (code !== undefined) return { refusal: refusalOfCertificate(code), code };
	try {
		return { refusal: policy.refuse(certificate, admission, admission.seconds), code };
	} catch (error) {
		return { refusal: 'bad certificate' as const, code: (error as NodeJS.ErrnoException).code };
	}
}

// --- The client's two messages (RFC 5246 sections 6.2 and 7.4). ---

const uint16 = (n: number) => Buffer.from([n >> 8, n & 0xff]);
const uint24 = (n: number) => Buffer.from([n >> 16, (n >> 8) & 0xff, n & 0xff]);
const vector16 = (...parts: Buffer[]) => Buffer.concat([uint16(sizeOf(parts)), ...parts]);
const vector24 = (...parts: Buffer[]) => Buffer.concat([uint24(sizeOf(parts)), ...parts]);
const sizeOf = (parts: readonly Buffer[]) => parts.reduce((sum, { length }) => sum + length, 0);

/** Splits a message into records of at most 2^14 bytes. */
function records(type: number, body: Buffer): Buffer {
	const out: Buffer[] = [];
	for (let at = 0; at < body.length; at += 0x4000) {
		out.push(Buffer.from([type, 3, 3]), vector16(body.subarray(at, at + 0x4000)));
	}
	return Buffer.concat(out);
}

const handshake = (type: number, ...body: Buffer[]) =>
	records(22, Buffer.concat([Buffer.from([type]), vector24(...body)]));
const extension = (type: number, ...body: Buffer[]) => Buffer.concat([uint16(type), vector16(...body)]);
const numbers = (...list: number[]) => vector16(...list.map(uint16));

const SERVER_HELLO_DONE = Buffer.from([14, 0, 0, 0]);

/** All TLS 1.2 suites of the listener, and all groups and signature algorithms that its keys may need. */
const CLIENT_HELLO = handshake(
	1,
	Buffer.from([3, 3]),
	Buffer.alloc(32),
	Buffer.from([0]),
	numbers(0xc02b, 0xc02f, 0xc02c, 0xc030, 0xcca9, 0xcca8),
	Buffer.from([1, 0]),
	vector16(
		extension(10, numbers(29, 23, 24, 25, 30)),
		extension(11, Buffer.from([1, 0])),
		extension(
			13,
			numbers(
				0x0403,
				0x0503,
				0x0603,
				0x0807,
				0x0808,
				0x0804,
				0x0805,
				0x0806,
				0x0809,
				0x080a,
				0x080b,
				0x0401,
				0x0501,
				0x0601,
			),
		),
		// Extended master secret, secure renegotiation.
		extension(23),
		extension(0xff01, Buffer.from([0])),
	),
);

function certificatesAndGoodbye(chain: readonly X509Certificate[]): Buffer {
	const certificates = handshake(11, vector24(...chain.map(({ raw }) => vector24(raw))));
	// A fatal alert, user_canceled.
	return Buffer.concat([certificates, records(21, Buffer.from([2, 90]))]);
}
