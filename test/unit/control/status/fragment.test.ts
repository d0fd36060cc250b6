import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { around, changes, htmlOf, leaf } from '../../../../src/control/status/fragment.ts';
import { html, Markup } from '../../../../src/control/status/markup.ts';

const row = (id: string, text: string) => leaf(id, html`<tr id="${id}">${text}</tr>`);
const table = (...rows: ReturnType<typeof row>[]) => around('t', html`<table id="t">`, rows, html`</table>`);

describe('what has changed of a page', () => {
	test('is all of it for somebody who has nothing yet', () => {
		const after = table(row('a', '1'));
		assert.deepEqual(changes(undefined, after), [htmlOf(after)]);
		assert.equal(htmlOf(after), '<table id="t"><tr id="a">1</tr></table>');
	});

	test('is nothing where all is the same', () => {
		assert.deepEqual(changes(table(row('a', '1')), table(row('a', '1'))), []);
	});

	test('is the smallest element that differs', () => {
		const before = table(row('a', '1'), row('b', '2'));
		assert.deepEqual(changes(before, table(row('a', '1'), row('b', '3'))), ['<tr id="b">3</tr>']);
	});

	test('is the element around them where there are more or fewer than before', () => {
		const after = table(row('a', '1'), row('b', '2'));
		assert.deepEqual(changes(table(row('a', '1')), after), [htmlOf(after)]);
	});
});

describe('markup', () => {
	test('escapes what goes into it, in text and in attributes', () => {
		const text = `<script>alert(1)</script>&"'`;
		assert.equal(
			html`<p title="${text}">${text}</p>`.toString(),
			'<p title="&lt;script&gt;alert(1)&lt;/script&gt;&amp;&quot;&#39;">&lt;script&gt;alert(1)&lt;/script&gt;&amp;&quot;&#39;</p>',
		);
	});

	test('leaves markup as it is, and lists and nothing', () => {
		assert.equal(
			html`<ul>${[1, 2].map((n) => html`<li>${n}</li>`)}${undefined}${false}</ul>`.toString(),
			'<ul><li>1</li><li>2</li></ul>',
		);
		assert.ok(html`x` instanceof Markup);
	});

	test('shows what is invisible, or turns the direction of what follows, by its number', () => {
		assert.equal(html`a\u202eb\u0000c\u200bd`.toString(), 'a\u202eb\u0000c\u200bd', 'the text of a template is ours');
		assert.equal(html`${'a\u202eb\u0000c\u200bd\ufeff'}`.toString(), 'a\\u{202e}b\\u{0}c\\u{200b}d\\u{feff}');
	});
});
