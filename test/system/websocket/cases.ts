/**
 * What can be sent to a WebSocket peer, valid and invalid, in the groups and numbers of Autobahn's test suite. The expected responses are
 * not here: they are what the peer sends without the proxy.
 */
import { createHash } from 'node:crypto';
import { binary, close, type Frame, fragments, frame, OPCODE, type Payload, ping, pong, text } from './frames.ts';

export interface Case {
	/** Autobahn's number; for a finer split of a group, with a name of ours. */
	readonly id: string;
	readonly steps: readonly Step[];
}

/** Frames to send, in writes of the given size; or how many frames must arrive before the next step. */
export type Step = { readonly send: readonly Frame[]; readonly piece?: number } | { readonly answers: number };

const ANSWER: Step = { answers: 1 };

/** By kinds of bytes that UTF-8 decoders treat differently; valid ones get a response. */
const GOOD = [
	...['00', '7f', 'c280', 'dfbf', 'e0a080', 'f0908080', 'f48fbfbf', 'ed9fbf', 'ee8080'],
	// Not characters, but valid code points.
	...['efbfbf', 'f3bfbfbf'],
];
const BAD = {
	'beyond the last code point': ['f4908080', 'fc8480808080'],
	'no beginning': ['80', '80bf80bf80bf'],
	'nothing behind the beginning': ['c020c120c220', 'f020f420'],
	'an end too early': ['c2', 'f48fbf', 'c2e0a0f09080'],
	'bytes that never are': ['fe', 'fefeffff'],
	'too long for what they say': ['c0af', 'e09fbf', 'f08fbfbf'],
	surrogates: ['eda080', 'edbfbf', 'eda080edb080'],
};

export const GROUPS: Readonly<Record<string, readonly Case[]>> = {
	'framing (1)': framing(),
	'pings and pongs (2)': pings(),
	'reserved bits (3)': reservedBits(),
	'opcodes (4)': opcodes(),
	'fragmentation (5)': fragmentation(),
	'UTF-8 (6)': utf8(),
	'closing (7)': closing(),
	'limits and performance, short (9)': limits(),
	'fragments of an implementation (10)': [
		{ id: '10.1.1', steps: [send(...inFragments(OPCODE.text, words(65_536), 1_300)), ANSWER] },
	],
};

function send(...frames: readonly Frame[]): Step {
	return { send: frames };
}

function inPieces(piece: number, ...frames: readonly Frame[]): Step {
	return { send: frames, piece };
}

/** Text without repetitions. */
function words(bytes: number): Buffer {
	const pieces: Buffer[] = [];
	for (let i = 0; i < bytes; i += 64) pieces.push(Buffer.from(createHash('sha256').update(`${i}`).digest('hex')));
	return Buffer.concat(pieces).subarray(0, bytes);
}

function inFragments(opcode: number, payload: Buffer, size: number): Frame[] {
	const pieces: Buffer[] = [];
	for (let at = 0; at < payload.length; at += size) pieces.push(payload.subarray(at, at + size));
	return fragments(opcode, ...pieces);
}

function framing(): Case[] {
	const sizes = [0, 125, 126, 127, 128, 65_535, 65_536];
	return [text, binary].flatMap((message, kind) => [
		...sizes.map((size, i) => ({ id: `1.${kind + 1}.${i + 1}`, steps: [send(message(words(size))), ANSWER] })),
		{ id: `1.${kind + 1}.8`, steps: [inPieces(997, message(words(65_536))), ANSWER] },
	]);
}

function pings(): Case[] {
	const longest = Buffer.alloc(125, 0xfe);
	const ten = Array.from({ length: 10 }, (_, i) => ping(`payload-${i}`));
	return [
		{ id: '2.1', steps: [send(ping()), ANSWER] },
		{ id: '2.2', steps: [send(ping('Hello, world!')), ANSWER] },
		{ id: '2.3', steps: [send(ping(Buffer.from('00fffefdfcfb00ff', 'hex'))), ANSWER] },
		{ id: '2.4', steps: [send(ping(longest)), ANSWER] },
		{ id: '2.5', steps: [send(ping(Buffer.alloc(126, 0xfe)))] },
		{ id: '2.6', steps: [inPieces(1, ping(longest)), ANSWER] },
		{ id: '2.7', steps: [send(pong())] },
		{ id: '2.8', steps: [send(pong('unsolicited'))] },
		{ id: '2.9', steps: [send(pong('unsolicited'), ping('ping')), ANSWER] },
		{ id: '2.10', steps: [send(...ten), { answers: 10 }] },
		{ id: '2.11', steps: [inPieces(1, ...ten), { answers: 10 }] },
	];
}

function reservedBits(): Case[] {
	const hello = text('Hello, world!');
	const odd = (reserved: number, like = hello) => ({ ...like, reserved });
	return [
		{ id: '3.1', steps: [send(odd(1))] },
		{ id: '3.2', steps: [send(hello), ANSWER, send(odd(2), ping())] },
		{ id: '3.3', steps: [send(hello), ANSWER, send(odd(3)), send(ping())] },
		{ id: '3.4', steps: [inPieces(1, hello), ANSWER, inPieces(1, odd(4), ping())] },
		{ id: '3.5', steps: [send(odd(5, binary('\0\xff')))] },
		{ id: '3.6', steps: [send(odd(6, ping('Hello')))] },
		{ id: '3.7', steps: [send(odd(7, close(1000)))] },
	];
}

function opcodes(): Case[] {
	const unknown = [3, 4, 5, 6, 7, 11, 12, 13, 14, 15];
	return unknown.flatMap((opcode, i) => {
		const id = `4.${opcode < 8 ? 1 : 2}.${(i % 5) + 1}`;
		return [
			{ id, steps: [send(frame(opcode, 'payload'))] },
			{ id: `${id} behind a message`, steps: [send(text('Hello')), ANSWER, send(frame(opcode), ping())] },
			{ id: `${id} octet by octet`, steps: [inPieces(1, text('Hello')), ANSWER, inPieces(1, frame(opcode), ping())] },
		];
	});
}

function fragmentation(): Case[] {
	const [one, two] = fragments(OPCODE.text, 'fragment1', 'fragment2') as [Frame, Frame];
	const lone = frame(OPCODE.continuation, 'non-continuation payload');
	const open = { ...lone, isFinal: false };
	const hello = text('Hello, world!');
	const five = fragments(OPCODE.text, ...['1', '2', '3', '4', '5'].map((n) => `fragment${n}`));
	/** In one write, frame by frame, and byte by byte. */
	const thrice = (first: number, frames: readonly Frame[], behind: readonly Step[] = []): Case[] => [
		{ id: `5.${first}`, steps: [send(...frames), ...behind] },
		{ id: `5.${first + 1}`, steps: [...frames.map((one) => send(one)), ...behind] },
		{ id: `5.${first + 2}`, steps: [inPieces(1, ...frames), ...behind] },
	];
	return [
		{ id: '5.1', steps: [send(...fragments(OPCODE.ping, 'fragment1', 'fragment2'))] },
		{ id: '5.2', steps: [send(...fragments(OPCODE.pong, 'fragment1', 'fragment2'))] },
		...thrice(3, [one, two], [ANSWER]),
		...thrice(6, [one, ping('ping payload')], [ANSWER, send(two), ANSWER]),
		...thrice(9, [lone, hello]),
		...thrice(12, [open, hello]),
		{ id: '5.15', steps: [send(one, two), ANSWER, send(open, hello)] },
		{ id: '5.16', steps: [send(open, { ...hello, isFinal: false }, lone)] },
		{ id: '5.17', steps: [send(lone, { ...hello, isFinal: false }, lone)] },
		{ id: '5.18', steps: [send(one, { ...two, opcode: OPCODE.text })] },
		{
			id: '5.19',
			steps: [
				...[send(...five.slice(0, 2), ping('pongme 1!')), ANSWER],
				...[send(...five.slice(2, 4), ping('pongme 2!')), ANSWER],
				...[send(five[4]!), ANSWER],
			],
		},
		{
			id: '5.20',
			steps: [
				...[send(five[0]!), send(five[1]!), send(ping('pongme 1!')), ANSWER],
				...[send(five[2]!), send(five[3]!), send(ping('pongme 2!')), ANSWER, send(five[4]!), ANSWER],
			],
		},
	];
}

function utf8(): Case[] {
	const good = Buffer.from('Hello-µ@ßöäüàá-UTF-8!!');
	const greek = Buffer.from('κόσμε');
	const bad = Buffer.concat([greek, Buffer.from('eda080', 'hex'), Buffer.from('edited')]);
	const octets = (bytes: Buffer) => inFragments(OPCODE.text, bytes, 1);
	const whole = (id: string, hex: string, ...behind: Step[]): Case[] => {
		const payload = Buffer.concat([Buffer.from('is '), Buffer.from(hex, 'hex')]);
		return [
			{ id: `6 ${id} ${hex}`, steps: [send(text(payload)), ...behind] },
			{ id: `6 ${id} ${hex} in fragments`, steps: [send(...octets(payload)), ...behind] },
		];
	};
	return [
		{ id: '6.1.1', steps: [send(text('')), ANSWER] },
		{ id: '6.1.2', steps: [send(...fragments(OPCODE.text, '', '', '')), ANSWER] },
		{ id: '6.1.3', steps: [send(...fragments(OPCODE.text, '', 'middle frame payload', '')), ANSWER] },
		{ id: '6.2.1', steps: [send(text(good)), ANSWER] },
		{ id: '6.2.2', steps: [send(...fragments(OPCODE.text, good.subarray(0, 12), good.subarray(12))), ANSWER] },
		{ id: '6.2.3', steps: [send(...octets(good)), ANSWER] },
		{ id: '6.2.4', steps: [send(...octets(greek)), ANSWER] },
		{ id: '6.3.1', steps: [send(text(bad))] },
		{ id: '6.3.2', steps: [send(...octets(bad))] },
		...failFast(greek),
		...GOOD.flatMap((hex) => whole('good:', hex, ANSWER)),
		...Object.entries(BAD).flatMap(([why, all]) => all.flatMap((hex) => whole(`${why}:`, hex))),
	];
}

/** The invalid byte is in the middle: a decoder that checks at once does not wait for the rest. */
function failFast(greek: Buffer): Case[] {
	const beyond = Buffer.from('f4908080', 'hex');
	const parts: readonly Payload[][] = [
		[greek, beyond, 'edited'],
		[Buffer.concat([greek, beyond.subarray(0, 1)]), beyond.subarray(1, 2), Buffer.concat([beyond.subarray(2), greek])],
	];
	return parts.flatMap((payloads, i) => {
		const frames = fragments(OPCODE.text, ...payloads);
		const message = text(Buffer.concat(payloads.map((payload) => Buffer.from(payload as string))));
		return [
			{ id: `6.4.${i + 1}`, steps: frames.map((one) => send(one)) },
			{ id: `6.4.${i + 3}`, steps: [inPieces(1, message)] },
		];
	});
}

function closing(): Case[] {
	const good = [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999];
	const bad = [0, 999, 1004, 1005, 1006, 1016, 1100, 2000, 2999];
	const undefined_ = [5000, 65_535];
	const [one, two] = fragments(OPCODE.text, 'fragment1', 'fragment2') as [Frame, Frame];
	const end = close(1000);
	const byCode = (codes: readonly number[], group: number): Case[] =>
		codes.map((code, i) => ({ id: `7.${group}.${i + 1}`, steps: [send(close(code))] }));
	return [
		{ id: '7.1.1', steps: [send(text('Hello World!')), ANSWER, send(end)] },
		{ id: '7.1.2', steps: [send(end, end)] },
		{ id: '7.1.3', steps: [send(end, ping())] },
		{ id: '7.1.4', steps: [send(end, text('Hello World!'))] },
		{ id: '7.1.5', steps: [send(one, end, two)] },
		{ id: '7.1.6', steps: [send(text(words(262_144)), text('Hello World!')), { answers: 2 }, send(end, ping())] },
		{ id: '7.3.1', steps: [send(frame(OPCODE.close))] },
		{ id: '7.3.2', steps: [send(frame(OPCODE.close, 'a'))] },
		{ id: '7.3.3', steps: [send(end)] },
		{ id: '7.3.4', steps: [send(close(1000, 'Hello World!'))] },
		{ id: '7.3.5', steps: [send(close(1000, words(123)))] },
		{ id: '7.3.6', steps: [send(close(1000, words(124)))] },
		{ id: '7.5.1', steps: [send(close(1000, Buffer.from('cebaeda080', 'hex')))] },
		...byCode(good, 7),
		...byCode(bad, 9),
		...byCode(undefined_, 13),
	];
}

function limits(): Case[] {
	const sizes = [65_536, 262_144, 1_048_576, 4_194_304];
	const megabyte = words(1_048_576);
	const times = [0, 16, 64, 256, 1_024].map((size, i) => ({
		id: `9.7.${i + 1}`,
		steps: Array.from({ length: 50 }, () => [send(text(words(size))), ANSWER]).flat(),
	}));
	return [
		...[text, binary].flatMap((message, kind) =>
			sizes.map((size, i) => ({ id: `9.${kind + 1}.${i + 1}`, steps: [send(message(words(size))), ANSWER] })),
		),
		...[64, 1_024, 65_536].map((size, i) => ({
			id: `9.3.${i + 1}`,
			steps: [send(...inFragments(OPCODE.text, megabyte, size)), ANSWER],
		})),
		...[512, 2_048].map((piece, i) => ({ id: `9.5.${i + 1}`, steps: [inPieces(piece, text(megabyte)), ANSWER] })),
		...times,
	];
}
