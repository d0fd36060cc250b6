/**
 * Judges the prose of the pages by `prose/rules.ts`: length of sentences, bullets and cells, the share of passive sentences, doubled words, and
 * phrases that this repository has learnt to avoid. Code is no prose.
 *
 *   node tools/checks/prose.ts              every page
 *   node tools/checks/prose.ts --table      and a row for each page: sentences, passive ones, breaches
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Nodes, Parents } from 'mdast';
import { fromMarkdown } from 'mdast-util-from-markdown';
import { gfmTableFromMarkdown } from 'mdast-util-gfm-table';
import { gfmTable } from 'micromark-extension-gfm-table';
import writeGood from 'write-good';
import { finish } from './finish.ts';
import {
	BULLET,
	CELL,
	type Ceiling,
	CODE,
	HIDDEN_SUBJECT,
	PASSIVE_SENTENCES,
	PASSIVE_SHARE,
	SENTENCE,
	TICS,
} from './prose/rules.ts';

interface Prose {
	readonly kind: 'paragraph' | 'bullet' | 'cell' | 'heading';
	/** Of the first word, from 1. */
	readonly line: number;
	/** Without markup; each piece of code is `CODE`. */
	readonly text: string;
}

interface Judgement {
	readonly sentences: number;
	readonly passive: number;
	/** `line: what is wrong: the words`. */
	readonly breaches: readonly string[];
}

const segmenter = new Intl.Segmenter('en', { granularity: 'sentence' });

/** @returns the judgement of one page */
export function judge(markdown: string): Judgement {
	const all = proseIn(markdown);
	const sentences = all
		.filter(({ kind }) => kind !== 'heading')
		.flatMap(({ text, line }) => sentencesOf(text).map((sentence) => ({ sentence, line })));
	const passive = sentences.filter(({ sentence }) => isPassive(sentence));
	const breaches = [...all.flatMap(breachesOf), ...sentences.flatMap(({ sentence, line }) => faultsOf(sentence, line))];
	if (sentences.length >= PASSIVE_SENTENCES && passive.length > sentences.length * PASSIVE_SHARE) {
		const share = Math.round((100 * passive.length) / sentences.length);
		breaches.push(`1: ${share} % of the sentences are passive, at most ${PASSIVE_SHARE * 100} % may be`);
	}
	return { sentences: sentences.length, passive: passive.length, breaches };
}

/** The prose of a page, in its order. */
export function proseIn(markdown: string): Prose[] {
	const tree = fromMarkdown(markdown, { extensions: [gfmTable()], mdastExtensions: [gfmTableFromMarkdown()] });
	const found: Prose[] = [];
	const visit = (node: Nodes, inBullet: boolean) => {
		const kind = kindOf(node, inBullet);
		if (kind !== undefined) found.push({ kind, line: node.position!.start.line, text: textOf(node).trim() });
		else if ('children' in node) {
			for (const child of (node as Parents).children) visit(child, inBullet || node.type === 'listItem');
		}
	};
	visit(tree, false);
	return found.filter(({ text }) => text !== '');
}

function kindOf({ type }: Nodes, inBullet: boolean): Prose['kind'] | undefined {
	if (type === 'paragraph') return inBullet ? 'bullet' : 'paragraph';
	if (type === 'tableCell') return 'cell';
	return type === 'heading' ? 'heading' : undefined;
}

function textOf(node: Nodes): string {
	if (node.type === 'text') return node.value.replaceAll('\n', ' ');
	if (node.type === 'inlineCode') return CODE;
	if (node.type === 'break') return ' ';
	return 'children' in node ? (node as Parents).children.map(textOf).join('') : '';
}

function sentencesOf(text: string): string[] {
	const parts = Array.from(segmenter.segment(text), ({ segment }) => segment.trim());
	return parts.filter((part) => /\p{L}{2}/u.test(part));
}

function isPassive(sentence: string): boolean {
	return writeGood(sentence, PASSIVE).length > 0;
}

/** Of write-good's checks only this one: it has the irregular participles. */
const PASSIVE = {
	passive: true,
	illusion: false,
	so: false,
	thereIs: false,
	weasel: false,
	adverb: false,
	tooWordy: false,
	cliches: false,
};

const DOUBLED = /\b(?!CODE)(\p{L}+) \1\b/iu;

function breachesOf({ kind, line, text }: Prose): string[] {
	const breaches: string[] = [];
	for (const [tic, advice] of TICS) {
		const [words] = tic.exec(text) ?? [];
		if (words !== undefined) breaches.push(`${line}: "${words.trim()}": write ${advice}`);
	}
	if (kind === 'cell') breaches.push(...tooLong(text, kind, line, CELL));
	if (kind === 'bullet') breaches.push(...tooLong(text, kind, line, BULLET));
	const [doubled] = DOUBLED.exec(text) ?? [];
	if (doubled !== undefined) breaches.push(`${line}: "${doubled}": a doubled word`);
	return breaches;
}

function faultsOf(sentence: string, line: number): string[] {
	const breaches = tooLong(sentence, 'sentence', line, SENTENCE);
	if (HIDDEN_SUBJECT.test(sentence)) breaches.push(`${line}: begin with the subject: "${start(sentence)}"`);
	return breaches;
}

function tooLong(text: string, kind: string, line: number, { max, token }: Ceiling): string[] {
	const count = text.match(token)?.length ?? 0;
	return count > max ? [`${line}: a ${kind} of ${count} words, at most ${max}: "${start(text)}"`] : [];
}

function start(text: string): string {
	return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}

/** A record, read by version. */
const RECORDS: readonly string[] = ['CHANGELOG.md'];

/** The pages to judge, as paths in the repository. */
export function pagesIn(root: string): string[] {
	const listing = execFileSync('git', ['-c', 'safe.directory=*', 'ls-files', '*.md'], { cwd: root, encoding: 'utf8' });
	return listing.split('\n').filter((page) => page !== '' && !RECORDS.includes(page));
}

if (import.meta.main) {
	const root = resolve(import.meta.dirname, '../..');
	const pages = pagesIn(root);
	const judged = pages.map((page) => ({ page, ...judge(readFileSync(join(root, page), 'utf8')) }));
	if (process.argv.includes('--table'))
		for (const { page, sentences, passive, breaches } of judged) {
			const share = Math.round((100 * passive) / sentences);
			console.log(`${page}: ${sentences} sentences, ${share} % passive, ${breaches.length} breaches`);
		}
	const breaches = judged.flatMap(({ page, breaches: found }) => found.map((breach) => `${page}:${breach}`));
	finish('prose', `${pages.length} pages keep to the rules`, breaches);
}
