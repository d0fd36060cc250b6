import type { Random } from './random.ts';

/** Bytes with a meaning in HTTP. */
const SHARP = [
	'\r',
	'\n',
	'\0',
	'\t',
	' ',
	':',
	';',
	',',
	'0',
	'9',
	'f',
	'+',
	'-',
	'_',
	'"',
	'=',
	'/',
	'\x7f',
	'\x80',
	'\xff',
];

/**
 * Corrupts text (latin1) as transports, bugs and attackers do: bits, bytes, ranges, lines, and text from elsewhere.
 *
 * @param words worth inserting.
 * @param others texts to splice with.
 */
export function mutate(random: Random, text: string, words: readonly string[], others: readonly string[] = []): string {
	let mutant = text;
	for (let rounds = random.pick([1, 1, 1, 2, 2, 3, 5]); rounds > 0; rounds--)
		mutant = once(random, mutant, words, others);
	return mutant;
}

function once(random: Random, text: string, words: readonly string[], others: readonly string[]): string {
	const at = random.below(text.length + 1);
	const insert = (what: string) => text.slice(0, at) + what + text.slice(at);
	const replace = (length: number, what: string) => text.slice(0, at) + what + text.slice(at + length);
	switch (random.weighted(MUTATIONS)) {
		case 'bit':
			return replace(1, String.fromCharCode((text.charCodeAt(at) || 0) ^ (1 << random.below(8))));
		case 'byte':
			return replace(1, random.chance(0.8) ? random.pick(SHARP) : random.bytes(1));
		case 'insertion':
			return insert(random.chance(0.8) ? random.pick(SHARP) : random.bytes(1));
		case 'removal':
			return replace(random.length(40), '');
		case 'word':
			return insert(random.pick(words));
		case 'overwriting':
			return overwrite(text, at, random.pick(words));
		case 'repetition': {
			const stretch = text.slice(at, at + random.length(60));
			return insert(stretch.repeat(random.between(1, 3)));
		}
		case 'line':
			return mutateLine(random, text);
		case 'digit':
			return text.replace(nthOf(random, text, /[0-9]/g), random.pick(['0', '1', '2', '9', '00', '8', '']));
		case 'case':
			return text.slice(0, at) + random.anyCase(text.slice(at, at + 12)) + text.slice(at + 12);
		case 'truncation':
			return text.slice(0, at);
		case 'splice': {
			if (others.length === 0) return replace(1, '');
			const other = random.pick(others);
			return text.slice(0, at) + other.slice(random.below(other.length + 1));
		}
	}
}

const MUTATIONS = {
	bit: 3,
	byte: 5,
	insertion: 5,
	removal: 3,
	word: 6,
	overwriting: 2,
	repetition: 2,
	line: 5,
	digit: 2,
	case: 1,
	truncation: 1,
	splice: 2,
} as const;

function overwrite(text: string, at: number, word: string): string {
	return text.slice(0, at) + word + text.slice(at + word.length);
}

/** Duplicates, drops, moves or folds a line, or changes its ending. */
function mutateLine(random: Random, text: string): string {
	const lines = text.split('\r\n');
	const at = random.below(lines.length);
	const line = lines[at]!;
	const swapped = random.below(lines.length);
	switch (random.below(6)) {
		case 0:
			lines.splice(at, 0, line);
			break;
		case 1:
			lines.splice(at, 1);
			break;
		case 2:
			lines[at] = lines[swapped]!;
			lines[swapped] = line;
			break;
		case 3:
			lines[at] = `${random.pick([' ', '\t'])}${line}`;
			break;
		case 4:
			lines[at] = line.replace(':', random.pick([' :', '\t:', '', '::', ':\r\n ']));
			break;
		default:
			return (
				[...lines.slice(0, at + 1)].join('\r\n') +
				random.pick(['\n', '\r', '\r\r\n', '\n\r', '\r\n\r\n']) +
				lines.slice(at + 1).join('\r\n')
			);
	}
	return lines.join('\r\n');
}

/** A pattern for exactly one of the matches, so that `replace` changes only that one. */
function nthOf(random: Random, text: string, pattern: RegExp): RegExp {
	const places = [...text.matchAll(pattern)].map((match) => match.index);
	if (places.length === 0) return /(?!)/;
	return new RegExp(`(?<=^[^]{${random.pick(places)}})[^]`);
}
