/** HTTP/1.1 framing that either side may get wrong: values, chunks and field lines that a parser may refuse or misread. */
import type { Random } from './random.ts';

/** Values of Content-Length; valid ones are more frequent. */
const LENGTHS = [
	'5',
	'5',
	'0',
	'4',
	'6',
	'+5',
	'-5',
	'0x5',
	'5 5',
	'',
	'5.0',
	'5, 5',
	'5,',
	'5;',
	'\xb25',
	'05',
	'5\t',
	'18446744073709551621',
	'4294967301',
	'99999999999999999999',
	'5,5',
	'1e1',
	' 5 ',
	'_5',
	'5_0',
	'18446744073709551616',
	'9007199254740993',
	'00000000000000000005',
];

/** Values of Transfer-Encoding. */
const CODINGS = [
	'chunked',
	'chunked',
	'Chunked',
	'xchunked',
	'chunkedx',
	'gzip, chunked',
	'chunked, identity',
	'chunked, chunked',
	'identity',
	'gzip',
	'',
	'chunked;a',
	' chunked',
	'chunked ',
	'chunked\t',
	'chunked,',
	',chunked',
	'"chunked"',
	'chun\tked',
	'chunked\x0b',
	'identity, chunked',
	'cow',
	'chun ked',
];

/** Size lines of a five-byte chunk, with suffixes. */
const SIZES = [
	'5',
	'0x5',
	'+5',
	'-5',
	' 5',
	'5 ',
	'5\t',
	'',
	'g',
	'5g',
	'5,',
	'5 5',
	'\xb25',
	'00000005',
	'000000000000000000005',
	'5;',
	'5;;',
	'5;a',
	'5;a=',
	'5;a="',
	'5;\n',
	'5;a\nx',
	'5\n',
	'5\r',
	'5;a\x00',
	'5;\xe4',
	'5 ;a',
	'5\t;a',
	'ffffffffffffffff',
	'10000000000000005',
	'100000005',
	'7fffffffffffffff',
	'05',
	'5.',
	'5h',
	'5\x00',
	'5\x0b',
	'100000000000000005',
	'00000000000000000000005',
	'7fffffff',
	'80000005',
	'5; ',
	'5;a="\r\n"',
	'5;a\n',
	'5;a\r',
	'5\r\r',
	'5;a\x7f',
];

const CHUNK_ENDS = ['\r\n', '\r\n', '\n', '\r', '', 'x\r\n', '\rx', ' \r\n', '\r\n\r\n', '\n\r', '0\r\n'];

/** Malformed field lines, or lines that only some parsers accept. */
export const ODD_LINES = [
	'x : y',
	'x\t: y',
	' x: y',
	': y',
	'x',
	'x y: z',
	'x\r: y',
	'x\x00: y',
	'x: \x00',
	'x: \x7f',
	'x: a\rb',
	'x: a\nb',
	'x: a\n',
	'\xe4: y',
	'x: y\r\n z',
	'x: y\r\n\tz',
	'x:\r\n y',
	'x: \x01',
	'"x": y',
	'x;y: z',
	'x(y): z',
	'\x80x: y',
	'x: y\r',
	'x: \x0b',
	'',
	' ',
	'Connection: upgrade\r\nUpgrade: websocket',
	'Connection: close\r\nConnection: keep-alive',
	'Connection: content-length',
	'Upgrade: h2c',
	'Proxy-Connection: close',
	'Content-Length : 5',
	'Content-Length\t: 5',
	'Transfer-Encoding : chunked',
	'Transfer-Encoding\x0b: chunked',
];

/** Fragments of any message. */
export const FRAMING_WORDS = [
	'\r\n',
	'\r\n\r\n',
	'\n',
	'\r',
	'\0',
	' ',
	'\t',
	': ',
	':',
	';',
	',',
	'0',
	'5',
	'0\r\n\r\n',
	'5\r\nhello\r\n',
	'\r\n ',
	'content-length: 5\r\n',
	'content-length: 0\r\n',
	'transfer-encoding: chunked\r\n',
	'connection: close\r\n',
	'upgrade: websocket\r\n',
	'\x80',
	'\xff',
	'\x0b',
	'\x7f',
	'chunked',
];

/** A line with a length or a transfer coding, mostly wrong. */
export function oddFramingField(random: Random): string {
	const [name, values] = random.chance(0.5) ? ['Content-Length', LENGTHS] : ['Transfer-Encoding', CODINGS];
	return `${random.anyCase(name)}${random.chance(0.05) ? random.pick([' ', '\t']) : ''}: ${random.pick(values)}\r\n`;
}

/** One to three chunks, mostly wrong. @param sizes additional size lines. */
export function oddChunkLines(random: Random, sizes: readonly string[] = []): string {
	let text = '';
	for (let count = random.between(1, 3); count > 0; count--) {
		const size = random.chance(0.4) ? '5' : random.pick([...SIZES, ...sizes]);
		text += `${size}${random.chance(0.85) ? '\r\n' : random.pick(['\n', '\r', ''])}hello`;
		text += random.chance(0.6) ? '\r\n' : random.pick(CHUNK_ENDS);
	}
	return text;
}
