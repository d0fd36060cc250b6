import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { formatKey, parseToml, type TomlPath } from '../../../packages/proxy/src/config/toml.ts';

const parse = (text: string) => parseToml(text, 'config.toml');
/** Tables without prototypes compare as plain objects. */
const valuesOf = (text: string) => structuredClone(parse(text).root);

describe('a TOML document', () => {
	it('has tables, lists of tables and values of every type', () => {
		const text = `
			string = "a\\nb"
			integer = 0x10
			float = 1.5
			truth = true
			[table.below]
			"quoted key" = 'literal'
			dotted.key = 1
			[[list]]
			inline = { a = 1, b = [1, [2, 3]] }
			[[list]]
			[list.inner]
			x = """
first
second"""
		`;
		assert.deepEqual(valuesOf(text), {
			string: 'a\nb',
			integer: 16,
			float: 1.5,
			truth: true,
			table: { below: { 'quoted key': 'literal', dotted: { key: 1 } } },
			list: [{ inline: { a: 1, b: [1, [2, 3]] } }, { inner: { x: 'first\nsecond' } }],
		});
	});

	it('reports the line of every key, header and list element', () => {
		const document = parse('a = 1\n[t]\nx.y = [\n  1,\n  2,\n]\n[[r]]\n[[r]]\nk = { v = """\n\n""" }\nlast = 1');
		const lines: [path: TomlPath, line: number | undefined][] = [
			[['a'], 1],
			[['t'], 2],
			[['t', 'x'], 3],
			[['t', 'x', 'y'], 3],
			[['t', 'x', 'y', 0], 4],
			[['t', 'x', 'y', 1], 5],
			[['r'], 7],
			[['r', 0], 7],
			[['r', 1], 8],
			[['r', 1, 'k', 'v'], 9],
			[['r', 1, 'last'], 12],
			[['absent'], undefined],
			[['r', '0'], undefined],
		];
		for (const [path, line] of lines) assert.equal(document.lines[formatKey(path)], line, formatKey(path));
	});

	it('treats names of JavaScript object members as plain keys', () => {
		const { root } = parse('[__proto__]\npolluted = 1\n[a.constructor]\nprototype = 2');
		assert.deepEqual(Object.keys(root), ['__proto__', 'a']);
		assert.equal('polluted' in {}, false);
	});

	it('represents JSON written as inline tables', () => {
		const json = fc.letrec((tie) => ({
			value: fc.oneof({ maxDepth: 3 }, fc.boolean(), fc.integer(), fc.string(), tie('list'), tie('table')),
			list: fc.array(tie('value'), { maxLength: 3 }),
			table: fc.dictionary(fc.string(), tie('value'), { maxKeys: 3 }),
		})).table;
		fc.assert(
			fc.property(json, (table) => {
				const text = Object.entries(table as object).map(([key, value]) => `${quote(key)} = ${toToml(value)}\n`);
				assert.equal(JSON.stringify(parse(text.join('')).root), JSON.stringify(table));
			}),
		);
	});
});

describe('text that is not TOML', () => {
	it('is refused with line, column and the line itself', () => {
		assert.throws(() => parse('a = 1\nb = 2\n  a = 3\n'), {
			name: 'ConfigError',
			message: 'config.toml:3: is not valid TOML: Defining a key multiple times is invalid (column 3 of "  a = 3")',
		});
	});

	it('is located where it was left unfinished', () => {
		for (const text of ['a = 1\r\nb = \r\n\r\n', 'a = 1\nb = [\n\n\n', 'a = 1\nb = {']) {
			assert.throws(
				() => parse(text),
				/^ConfigError: config\.toml:2: is not valid TOML: .* \(column \d of "b = .?"\)$/,
			);
		}
	});

	it('is located at the table header that was not closed, not at the line after it', () => {
		const cases: [text: string, line: number, header: string, whole: string][] = [
			['[tls\ncert_path = "x"\n', 1, '[tls', '[tls]'],
			['a = 1\n[tls # mine\n\n# yours\nb = 1', 2, '[tls', '[tls]'],
			['[[routes]\nprefix = "/"', 1, '[[routes]', '[[routes]]'],
			['a = 1\n[[routes\nprefix = "/"', 2, '[[routes', '[[routes]]'],
			['[limits', 1, '[limits', '[limits]'],
		];
		for (const [text, line, header, whole] of cases) {
			assert.throws(() => parse(text), {
				message: `config.toml:${line}: is not valid TOML: the table header "${header}" is not closed; write ${whole}`,
			});
		}
		assert.throws(() => parse('[tls]\nb = [\n  [1\n  2]'), /config\.toml:4: is not valid TOML: Expected comma/);
	});

	it('cannot put control characters into the message', () => {
		assert.throws(
			() => parse('a = "\x1b[31m\x9b"'),
			(error: Error) => !/[\x00-\x1f\x7f-\x9f]/.test(error.message),
		);
	});
});

describe('text that is nested deeper than any configuration', () => {
	const nested: [what: string, text: (depth: number) => string][] = [
		['lists', (depth) => `a = ${'['.repeat(depth)}${']'.repeat(depth)}`],
		['inline tables', (depth) => `a = ${'{a='.repeat(depth)}1${'}'.repeat(depth)}`],
		[
			'dotted keys',
			(depth) =>
				`${Array(depth + 1)
					.fill('a')
					.join('.')} = 1`,
		],
		[
			'dotted keys with blanks',
			(depth) =>
				`${Array(depth + 1)
					.fill('"a.b"')
					.join(' . ')} = 1`,
		],
		['table headers', (depth) => `[${Array(depth).fill('a').join('.')}]`],
		['unclosed lists', (depth) => `a = ${'['.repeat(depth)}`],
	];
	for (const [what, text] of nested) {
		it(`is refused before it is parsed, with its line: ${what}`, () => {
			for (const depth of [9, 5000, 100_000]) {
				assert.throws(() => parse(`# first\n${text(depth)}\n`), {
					name: 'ConfigError',
					message:
						'config.toml:2: is nested deeper than 8 levels, deeper than any key of the configuration; see docs/reference/configuration.md for the keys',
				});
			}
			if (!what.startsWith('unclosed')) parse(`# first\n${text(8)}\n`);
		});
	}

	it('ignores strings, comments and neighbours', () => {
		const deep = '[{a.'.repeat(100);
		const texts = [
			`a = "${deep}\\"${deep}"`,
			`a = '${deep}'`,
			`a = """\n"${deep}\\"""\n${deep}"""`,
			`a = '''\n${deep}''\n'''`,
			`# ${deep} "\na = 1`,
			Array.from({ length: 100 }, (_, i) => `x${i}.b = 1.5`).join('\n'),
			`a = [${Array(100).fill('{b.c = 1.5}, [1.5]').join(',')}]`,
		];
		for (const text of texts) parse(text);
	});
});

function toToml(value: unknown): string {
	if (typeof value === 'string') return quote(value);
	if (Array.isArray(value)) return `[${value.map(toToml).join(', ')}]`;
	if (typeof value !== 'object' || value === null) return String(value);
	return `{ ${Object.entries(value)
		.map(([key, part]) => `${quote(key)} = ${toToml(part)}`)
		.join(', ')} }`;
}

function quote(text: string): string {
	return JSON.stringify(text).replaceAll('\x7f', '\\u007f');
}
