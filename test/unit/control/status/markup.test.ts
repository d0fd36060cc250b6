import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { html, Markup } from '../../../../packages/proxy/src/control/status/markup.ts';

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

	test('shows invisible and direction-changing characters by their number', () => {
		assert.equal(html`a\u202eb\u0000c\u200bd`.toString(), 'a\u202eb\u0000c\u200bd', 'the text of a template is ours');
		assert.equal(html`${'a\u202eb\u0000c\u200bd\ufeff'}`.toString(), 'a\\u{202e}b\\u{0}c\\u{200b}d\\u{feff}');
	});
});
