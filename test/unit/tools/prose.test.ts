/** The rules of prose: what they find, and what they let pass. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { BULLET_WORDS, CELL_WORDS, SENTENCE_WORDS } from '../../../tools/checks/prose/rules.ts';
import { judge, proseIn } from '../../../tools/checks/prose.ts';

const words = (count: number) => `A ${Array.from({ length: count - 2 }, (_, i) => `word${i}`).join(' ')} end.`;
const found = (markdown: string) => judge(markdown).breaches.map((breach) => breach.replace(/"[^"]*"$/, '').trim());

describe('the prose of a page', () => {
	it('is its paragraphs, bullets, cells and headings, without code', () => {
		const page =
			'# A `x` title\n\nA paragraph\nof two lines.\n\n- a bullet\n\n```sh\nwhoever\n```\n\n| a | b |\n|---|---|\n| c | `d` |\n';
		assert.deepEqual(
			proseIn(page).map(({ kind, line, text }) => [kind, line, text]),
			[
				['heading', 1, 'A CODE title'],
				['paragraph', 3, 'A paragraph of two lines.'],
				['bullet', 6, 'a bullet'],
				['cell', 12, 'a'],
				['cell', 12, 'b'],
				['cell', 14, 'c'],
				['cell', 14, 'CODE'],
			],
		);
	});
});

describe('the rules of prose', () => {
	it('accept a sentence of the maximum length, and refuse one more word', () => {
		assert.deepEqual(found(words(SENTENCE_WORDS)), []);
		assert.deepEqual(found(words(SENTENCE_WORDS + 1)), [
			`1: a sentence of ${SENTENCE_WORDS + 1} words, at most ${SENTENCE_WORDS}:`,
		]);
	});

	it('refuse a paragraph in a cell, and a bullet of more than four lines', () => {
		const short = (count: number) => Array.from({ length: count / 4 }, () => 'Some three words here.').join(' ');
		assert.deepEqual(found(`| a |\n|---|\n| ${short(CELL_WORDS)} |\n`), []);
		assert.deepEqual(found(`| a |\n|---|\n| ${short(CELL_WORDS + 4)} |\n`), [
			`3: a cell of ${CELL_WORDS + 4} words, at most ${CELL_WORDS}:`,
		]);
		assert.deepEqual(found(`- ${short(BULLET_WORDS)}\n`), []);
		assert.deepEqual(found(`- ${short(BULLET_WORDS + 4)}\n`), [
			`1: a bullet of ${BULLET_WORDS + 4} words, at most ${BULLET_WORDS}:`,
		]);
	});

	it('refuse a tic with the advice for it, and name its line', () => {
		assert.deepEqual(judge('One.\n\nWhoever asks, waits.\n').breaches, [
			'3: "Whoever": write the person: "the operator", "a client", "anyone who"',
		]);
		assert.deepEqual(judge('This holds for HTTP/2 alone.').breaches, ['1: "alone": write "only", before its noun']);
		assert.deepEqual(judge('Leave it alone.').breaches.length, 1);
		assert.deepEqual(judge('Let alone two.').breaches, []);
		assert.deepEqual(judge('One limit over all threads.').breaches, ['1: "over all threads": write "across all"']);
		assert.deepEqual(judge('The broken answer of a server.').breaches.length, 1);
		assert.deepEqual(judge('DNS answers. The answer of DNS is kept.').breaches, []);
	});

	it('refuse a sentence that hides its subject in a clause, and take a question', () => {
		assert.deepEqual(judge('What is left is refused.').breaches, [
			'1: begin with the subject: "What is left is refused."',
		]);
		assert.deepEqual(judge('What is left?').breaches, []);
	});

	it('refuse a page whose sentences are mostly passive', () => {
		const active = 'The proxy refuses the token.';
		const passive = 'The token is refused.';
		const page = (count: number) => [...Array(count).fill(passive), ...Array(40 - count).fill(active)].join('\n\n');
		assert.deepEqual(judge(page(10)).breaches, []);
		assert.deepEqual(judge(page(11)).breaches, ['1: 28 % of the sentences are passive, at most 25 % may be']);
	});
});
