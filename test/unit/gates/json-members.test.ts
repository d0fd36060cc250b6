import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { parseUniqueObject, peekText } from '../../../packages/gate/src/gates/json-members.ts';

describe('JSON objects with unique member names', () => {
	it('are read as JSON.parse reads them', () => {
		for (const text of ['{}', ' { "a" : [1, {"a": 2}], "b":"a" }\n', '{"a":{"a":{"a":null}}}', '{"":0}']) {
			assert.deepEqual(parseUniqueObject(text), JSON.parse(text), text);
		}
	});

	it('are objects, and nothing else is', () => {
		for (const text of [
			'',
			' ',
			'null',
			'1',
			'"{}"',
			'[]',
			'[{}]',
			'true',
			'{',
			'{}{}',
			'{} x',
			'\ufeff{}',
			"{'a':1}",
		]) {
			assert.equal(parseUniqueObject(text), undefined, text);
		}
	});

	it('keep a member named __proto__ as a plain member', () => {
		const parsed = parseUniqueObject('{"__proto__":{"alg":"RS256"},"constructor":1}');
		assert.ok(parsed);
		assert.equal(Object.getPrototypeOf(parsed), Object.prototype);
		assert.equal(parsed.alg, undefined);
		assert.ok(Object.hasOwn(parsed, '__proto__'));
		assert.equal(parseUniqueObject('{"__proto__":1,"__proto__":2}'), null);
	});

	it('are refused with a duplicate name that has a needless escape', () => {
		assert.equal(parseUniqueObject('{"\\/":1,"/":2}'), null);
	});

	it('may be nested as deep as a token is long', () => {
		const deep = `{"a":${'['.repeat(4000)}${']'.repeat(4000)}}`;
		assert.ok(parseUniqueObject(deep));
		const objects = `${'{"a":'.repeat(1500)}0${'}'.repeat(1500)}`;
		assert.ok(parseUniqueObject(objects));
		assert.equal(parseUniqueObject(objects.replace('0', '{"a":0,"a":0}')), null);
	});

	it('have the names that they say, whatever this thread has parsed before', () => {
		// After the first, `JSON.parse` of V8 12.8 to 14.6 gives the second the name of the first (nodejs/node#63785).
		for (const [before, text, name] of [
			['{"one":0,"\\\\":0}', '{"one":0,"\\n":0}', '\n'],
			['{"two":0,"\\\\u0":0}', '{"two":0,"\\u0073ub":0}', 'sub'],
			['{"six":0,"http:\\\\/\\\\/x.test\\\\/r":0}', '{"six":0,"http:\\/\\/x.test\\/role":0}', 'http://x.test/role'],
			['{"top":{"ten":0,"\\\\":0}}', '{"top":{"ten":0,"\\"":0}}', '"'],
		] as const) {
			JSON.parse(before);
			const parsed = parseUniqueObject(text)!;
			assert.deepEqual(Object.keys((parsed.top as object) ?? parsed)[1], name, text);
		}
	});

	it('agree with a generator that knows about duplicate names', () => {
		fc.assert(
			fc.property(object, space, ({ value, text, unique }, around) => {
				const whole = around + text + around;
				assert.deepEqual(parseUniqueObject(whole), unique ? value : null, whole);
			}),
			{ numRuns: 2000 },
		);
	});
});

interface Written {
	readonly value: unknown;
	readonly text: string;
	/** No object in it, at any depth, has one name twice. */
	readonly unique: boolean;
}

const space = fc.constantFrom('', '', ' ', '\n\t', '\r ');
/** A string and one of its spellings in JSON. */
const spelled = fc
	.tuple(
		fc.string({ unit: fc.constantFrom('a', '"', '\\', '/', ':', '{', '}', '[', ',', '\u{1f600}'), maxLength: 2 }),
		fc.nat(3),
	)
	.map(([value, style]) => {
		const escapeAll = () =>
			[...Array(value.length).keys()].map((i) => `\\u${value.charCodeAt(i).toString(16).padStart(4, '0')}`).join('');
		return { value, text: style === 0 ? `"${escapeAll()}"` : JSON.stringify(value) };
	});

const scalar = ([value, text]: readonly unknown[]): Written => ({ value, text: String(text), unique: true });

const { object } = fc.letrec<{ value: Written; object: Written; array: Written }>((tie) => ({
	value: fc.oneof(
		{ maxDepth: 4 },
		fc.oneof(
			fc.constantFrom([0, '0'], [-1500, '-1.5e3'], [true, 'true'], [null, 'null']).map(scalar),
			spelled.map(({ value, text }) => scalar([value, text])),
		),
		tie('object'),
		tie('array'),
	),
	object: fc.tuple(fc.array(fc.tuple(spelled, tie('value')), { maxLength: 4 }), space).map(([members, gap]) => ({
		value: Object.fromEntries(members.map(([name, { value }]) => [name.value, value])),
		text: `{${gap}${members.map(([name, { text }]) => [name.text, ':', text].join(gap)).join(`${gap},${gap}`)}${gap}}`,
		unique:
			new Set(members.map(([name]) => name.value)).size === members.length &&
			members.every(([, value]) => value.unique),
	})),
	array: fc.array(tie('value'), { maxLength: 3 }).map((values) => ({
		value: values.map(({ value }) => value),
		text: `[${values.map(({ text }) => text).join(',')}]`,
		unique: values.every(({ unique }) => unique),
	})),
}));

describe('a peek at one member', () => {
	const peek = (text: string) => peekText(Buffer.from(text), 'iss');

	it('finds it at any place of the top level, in any spelling', () => {
		for (const text of [
			'{"iss":"x"}',
			' {\n"a":[{"iss":"y"},","],"b":{"iss":"z"},\t"iss" :\r"x" }',
			'{"\\u0069s\\u0073":"x"}',
			'{"iss\\u0000":"y","is":"y","iss ":"y","":"iss","iss":"x","iss2":"y"}',
			'{"a":"iss\\":","b":"{","iss":"\\u0078"}',
			'{"a":"\\\\","iss":"x"}',
		]) {
			assert.equal(JSON.parse(text).iss, 'x', text);
			assert.equal(peek(text), 'x', text);
		}
	});

	it('finds only strings, and only at the top level', () => {
		for (const text of [
			'{"iss":1}',
			'{"iss":null}',
			'{"iss":["x"]}',
			'{"iss":{"iss":"x"}}',
			'{"a":{"iss":"x"}}',
			'{"a":"iss"}',
			'["iss","x"]',
			'[{"iss":"x"}]',
			'"iss"',
			'{}',
			'',
			'{}{"iss":"x"}',
		]) {
			assert.equal(peek(text), undefined, text);
		}
	});

	it('is what JSON.parse says, whatever else there is', () => {
		const object = fc.dictionary(fc.oneof(fc.constantFrom('iss', 'a', '"', '\\', ''), fc.string()), fc.jsonValue());
		fc.assert(
			fc.property(object, fc.nat(2), (value, indent) => {
				const text = JSON.stringify(value, undefined, indent);
				const { iss } = JSON.parse(text);
				assert.equal(peek(text), typeof iss === 'string' ? iss : undefined);
			}),
		);
	});

	it('agrees with the careful reader on every object that this one takes, however its names are spelled', () => {
		fc.assert(
			fc.property(object, space, ({ text }, around) => {
				const whole = around + text + around;
				const read = parseUniqueObject(whole);
				if (!read) return;
				assert.equal(peekText(Buffer.from(whole), 'a'), typeof read.a === 'string' ? read.a : undefined, whole);
			}),
			{ numRuns: 2000 },
		);
	});

	it('never throws, and terminates for every input', () => {
		const pieces = fc.constantFrom('{', '}', '[', ']', '"', '\\', ',', ':', 'iss', '"iss"', '\\u00', '\xff', ' ');
		fc.assert(
			fc.property(fc.array(pieces), (parts) => {
				peekText(Buffer.from(parts.join(''), 'latin1'), 'iss');
			}),
		);
	});
});
