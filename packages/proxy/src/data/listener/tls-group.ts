import { TLS_GROUPS, type TlsGroup } from '../../memory/worker-stats.ts';

/**
 * The key-exchange group of a handshake. Node exposes it only to clients (`getEphemeralKeyInfo`). Since 3.2, OpenSSL writes it into
 * the SSL_SESSION that `TLSSocket.getSession` returns in DER: [19] EXPLICIT INTEGER.
 *
 * @param session is overwritten, since it contains the master secret of TLS 1.2.
 */
export function groupOf(session: Buffer | undefined): TlsGroup {
	if (session === undefined) return 'other';
	const group = NAMES.get(groupNumber(session)) ?? 'other';
	session.fill(0);
	return group;
}

function groupNumber(der: Buffer): number {
	let at = behindLength(der, 1).from;
	while (at + 1 < der.length) {
		const { from, length } = behindLength(der, at + 1);
		// Its content is the type, the length and the bytes of the number.
		if (der[at] === KEX_GROUP && length > 2 && length <= 6) return der.readUIntBE(from + 2, length - 2);
		at = from + length;
	}
	return 0;
}

/** X.690 section 8.1.3: a length below 128 is one byte. Before other lengths, a byte gives the number of their bytes. */
function behindLength(der: Buffer, at: number): { from: number; length: number } {
	const first = der[at] ?? 0;
	const bytes = first & 0x7f;
	if (first < 0x80) return { from: at + 1, length: first };
	if (bytes === 0 || bytes > 4 || at + bytes >= der.length) return { from: der.length, length: 0 };
	return { from: at + 1 + bytes, length: der.readUIntBE(at + 1, bytes) };
}

/** The tag [19]: context-specific, constructed. */
const KEX_GROUP = 0xa0 | 19;

/** IANA registry "TLS Supported Groups". */
const NUMBERS: Readonly<Record<Exclude<TlsGroup, 'other'>, number>> = {
	x25519: 29,
	x448: 30,
	secp256r1: 23,
	secp384r1: 24,
	secp521r1: 25,
	X25519MLKEM768: 4588,
	SecP256r1MLKEM768: 4587,
	SecP384r1MLKEM1024: 4589,
};
const NAMES = new Map(TLS_GROUPS.flatMap((name) => (name === 'other' ? [] : [[NUMBERS[name], name] as const])));
