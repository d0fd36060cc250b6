import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import {
	createLogger,
	formatJson,
	formatPretty,
	type Level,
	type LogFields,
	type LogRecord,
	parseLogFilter,
} from '../../../packages/gate/src/shared/log.ts';
import { LOG_TARGETS } from '../../../packages/gate/src/shared/log-targets.ts';
import { anyText } from '../../fixtures/any-text.ts';

const LEVELS: Level[] = ['error', 'warn', 'info', 'debug', 'trace'];
const TIME = new Date('2026-03-04T05:06:07.089Z');

const enabledLevels = (filter: string, target: string) =>
	LEVELS.filter((level) => parseLogFilter(filter).enabled(level, target)).length;

const record = (message: string, fields?: LogFields): LogRecord => ({
	time: TIME,
	level: 'info',
	target: 'proxy::reload',
	message,
	fields,
});

describe('the log filter', () => {
	it('passes a level and all more severe ones', () => {
		for (const [i, name] of ['off', ...LEVELS].entries()) assert.equal(enabledLevels(name, 'proxy'), i, name);
	});

	it('reads levels in either case and around blanks', () => {
		assert.equal(enabledLevels(' WARN , proxy::health = Debug,,', 'proxy'), 2);
		assert.equal(enabledLevels(' WARN , proxy::health = Debug,,', 'proxy::health'), 4);
	});

	it('defaults to info', () => {
		assert.equal(enabledLevels('', 'proxy'), 3);
		assert.deepEqual(parseLogFilter('').problems, []);
	});

	it('lets the longest target decide, at any position', () => {
		for (const filter of ['warn,proxy=info,proxy::data=trace', 'proxy::data=trace,proxy=info,warn']) {
			assert.equal(enabledLevels(filter, 'proxy::data::http1'), 5);
			assert.equal(enabledLevels(filter, 'proxy::data'), 5);
			assert.equal(enabledLevels(filter, 'proxy::reload'), 3);
			assert.equal(enabledLevels(filter, 'other'), 2);
		}
	});

	it('matches targets on their boundaries only', () => {
		assert.equal(enabledLevels('off,proxy::data=trace', 'proxy::database'), 0);
		assert.equal(enabledLevels('off,proxy::data=trace', 'proxy::data:x'), 0);
		assert.equal(enabledLevels('off,proxy::data=trace', 'proxy'), 0);
	});

	it('silences one target', () => {
		assert.equal(enabledLevels('debug,proxy::health=off', 'proxy::health'), 0);
		assert.equal(enabledLevels('debug,proxy::health=off', 'proxy::data'), 4);
	});

	it('logs nothing for targets that no directive matches', () => {
		assert.equal(enabledLevels('proxy::health=debug', 'proxy::data'), 0);
	});

	it('reads a target without a level as all levels', () => {
		assert.equal(enabledLevels('proxy::health', 'proxy::health'), 5);
		assert.equal(enabledLevels('proxy::health', 'proxy'), 0);
	});

	it('uses the last of two equal directives', () => {
		assert.equal(enabledLevels('warn,debug', 'proxy'), 4);
		assert.equal(enabledLevels('proxy=warn,proxy=trace', 'proxy'), 5);
	});

	it('reports and ignores unreadable directives, and keeps logging', () => {
		const cases: [filter: string, problem: string][] = [
			['inof', '"inof" is neither a level (off, error, warn, info, debug, trace) nor a target of the proxy'],
			['proxy=', '"proxy=" does not end in a level (off, error, warn, info, debug, trace)'],
			['proxy=loud', '"proxy=loud" does not end in a level (off, error, warn, info, debug, trace)'],
			['=debug', '"" is not a target such as proxy::health'],
			['a b=debug', '"a b" is not a target such as proxy::health'],
			['[span]=debug', '"[span]" is not a target such as proxy::health'],
			[
				'proxy::health=debug,inof',
				'"inof" is neither a level (off, error, warn, info, debug, trace) nor a target of the proxy',
			],
		];
		for (const [filter, problem] of cases) {
			assert.deepEqual(parseLogFilter(filter).problems, [problem]);
			assert.equal(enabledLevels(filter, 'proxy::data'), 3, filter);
		}
		assert.equal(enabledLevels('error,inof', 'proxy::data'), 1);
	});

	it('reports unknown targets, suggests the most similar one, and keeps logging', () => {
		const cases: [filter: string, problem: string][] = [
			['proxy::helth=debug', 'nothing logs to "proxy::helth"; did you mean proxy::health?'],
			['proxy::Reload', 'nothing logs to "proxy::Reload"; did you mean proxy::reload?'],
			['prxy::health=debug', 'nothing logs to "prxy::health"; did you mean proxy::health?'],
			['proxy::xyzzy::plugh=debug', `nothing logs to "proxy::xyzzy::plugh"; the targets are ${LOG_TARGETS.join(', ')}`],
		];
		for (const [filter, problem] of cases) {
			assert.deepEqual(parseLogFilter(filter).problems, [problem]);
			assert.equal(enabledLevels(filter, 'proxy::worker'), 3, filter);
		}
		// A setting for several programs may name what others have.
		assert.deepEqual(parseLogFilter('info,hyper=warn,tower_http=off').problems, []);
	});

	it('knows every target of the source', () => {
		const src = new URL('../../../packages/', import.meta.url);
		const texts = globSync('*/src/**/*.ts', { cwd: src }).map((path) => readFileSync(new URL(path, src), 'utf8'));
		const named = texts.flatMap((text) => text.match(/(?<=')proxy(?:::\w+)+(?=')/g) ?? []);
		assert.deepEqual([...LOG_TARGETS].sort(), [...new Set(['proxy', ...named])].sort());
	});

	it('accepts any text', () => {
		fc.assert(
			fc.property(fc.string(), fc.string(), (filter, target) => {
				assert.equal(typeof parseLogFilter(filter).enabled('info', target), 'boolean');
			}),
		);
	});
});

describe('the logger', () => {
	it('writes what the filter lets through, with the time of the call', () => {
		const written: LogRecord[] = [];
		let seconds = 0;
		const now = () => new Date(seconds++ * 1000);
		const log = createLogger(parseLogFilter('info,proxy::health=debug'), (entry) => written.push(entry), now);
		log.error('proxy', 'a');
		log.warn('proxy', 'b', { port: 1 });
		log.info('proxy', 'c');
		log.debug('proxy', 'unwanted');
		log.debug('proxy::health', 'd');
		assert.deepEqual(
			written.map(({ time, level, target, message, fields }) => [time.getTime(), level, target, message, fields]),
			[
				[0, 'error', 'proxy', 'a', undefined],
				[1000, 'warn', 'proxy', 'b', { port: 1 }],
				[2000, 'info', 'proxy', 'c', undefined],
				[3000, 'debug', 'proxy::health', 'd', undefined],
			],
		);
	});
});

describe('a line of JSON', () => {
	const fieldsOf = (fields: LogFields) => {
		const { timestamp, level, target, message, ...rest } = JSON.parse(formatJson(record('m', fields)));
		return rest;
	};

	it('has the time, the level, the target, the message and the fields, in this order', () => {
		assert.equal(
			formatJson(record('routing table reloaded', { generation: 2, routes: ['/a'] })),
			'{"timestamp":"2026-03-04T05:06:07.089Z","level":"info","target":"proxy::reload",' +
				'"message":"routing table reloaded","generation":2,"routes":["/a"]}',
		);
	});

	it('writes errors as their message', () => {
		assert.deepEqual(fieldsOf({ error: new TypeError('no such file'), nameless: new RangeError() }), {
			error: 'no such file',
			nameless: 'RangeError',
		});
	});

	it('writes text for values that JSON cannot represent', () => {
		assert.deepEqual(
			fieldsOf({
				big: 2n ** 64n,
				nan: Number.NaN,
				endless: -Infinity,
				symbol: Symbol('s'),
				call: () => 1,
				date: TIME,
				bytes: Buffer.from('secret'),
				nothing: null,
				absent: undefined,
				nested: { big: 1n, absent: undefined, list: [undefined, new Error('inner')] },
			}),
			{
				big: '18446744073709551616',
				nan: 'NaN',
				endless: '-Infinity',
				symbol: 'Symbol(s)',
				call: '[function]',
				date: TIME.toISOString(),
				bytes: '[6 bytes]',
				nothing: null,
				nested: { big: '1', list: ['undefined', 'inner'] },
			},
		);
	});

	it('survives cycles, and getters and conversions that throw', () => {
		const cycle: Record<string, unknown> = {};
		cycle.self = cycle;
		const fail = () => {
			throw new Error('hostile');
		};
		const hostile = Object.defineProperty({}, 'getter', { get: fail, enumerable: true });
		assert.deepEqual(fieldsOf({ cycle, hostile, json: { toJSON: fail } }), {
			cycle: { self: { self: { self: { self: '[…]' } } } },
			hostile: '[unreadable]',
			json: '[unreadable]',
		});
		assert.deepEqual(fieldsOf(hostile), { getter: '[unreadable]' });
	});

	it('does not let a field replace the message', () => {
		assert.deepEqual(fieldsOf({ message: 'forged', level: 'error' }), {
			'field.message': 'forged',
			'field.level': 'error',
		});
		assert.equal(JSON.parse(formatJson(record('m', { message: 'forged' }))).message, 'm');
	});

	it('is written even if the time is invalid', () => {
		const { timestamp } = JSON.parse(formatJson({ ...record('m'), time: new Date(Number.NaN) }));
		assert.equal(timestamp, null);
	});

	it('replaces lone surrogates, which JSON readers reject', () => {
		const line = formatJson(record('\ud800', { '\udc00': '\ud800x', deep: { '\udc00': '\ud83d\ude00' } }));
		const { message, '\ufffd': field, deep } = JSON.parse(line);
		assert.deepEqual([message, field, deep], ['\ufffd', '\ufffdx', { '\ufffd': '\u{1f600}' }]);
		assert.doesNotMatch(line, /\\ud/);
	});

	it('is one line of valid JSON without control characters, whatever it contains', () => {
		const text = anyText();
		const value = fc.anything({
			withBigInt: true,
			withDate: true,
			withMap: true,
			withTypedArray: true,
			withNullPrototype: true,
		});
		fc.assert(
			fc.property(text, text, fc.dictionary(text, value), (target, message, fields) => {
				const line = formatJson({ ...record(message, fields), target });
				assert.doesNotMatch(line, /[\0-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]/);
				const parsed = JSON.parse(line);
				assert.deepEqual(
					Object.keys(parsed)
						.filter((key) => !/^\d+$/.test(key))
						.slice(0, 4),
					['timestamp', 'level', 'target', 'message'],
				);
				assert.equal(parsed.message, message.toWellFormed());
				assert.equal(parsed.target, target.toWellFormed());
			}),
		);
	});
});

describe('a line for people', () => {
	it('has the time, the level, the target, the message and the fields', () => {
		assert.equal(
			formatPretty(record('routing table reloaded', { generation: 2, path: '/a', cause: new Error('no file') }), false),
			'2026-03-04T05:06:07.089Z INFO  proxy::reload: routing table reloaded generation=2 path=/a cause="no file"',
		);
	});

	it('colours the level only when asked to', () => {
		assert.match(formatPretty({ ...record('m'), level: 'error' }, true), / \x1b\[31mERROR\x1b\[0m /);
		assert.doesNotMatch(formatPretty({ ...record('m'), level: 'error' }, false), /\x1b/);
	});

	it('shows control characters in escaped form', () => {
		const line = formatPretty(record('a\nb\x1b[2J\u202e', { 'k\r': '\x9b31m\n', list: ['\x07'] }), false);
		assert.ok(line.endsWith(String.raw`a\nb\u001b[2J\u202e k\r="\u009b31m\n" list=["\u0007"]`), line);
	});

	it('is one visible line, whatever it contains', () => {
		const text = anyText();
		fc.assert(
			fc.property(text, text, fc.dictionary(text, fc.anything({ withBigInt: true })), (target, message, fields) => {
				const line = formatPretty({ ...record(message, fields), target }, false);
				assert.doesNotMatch(line, /[\0-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]/);
				assert.ok(line.isWellFormed());
			}),
		);
	});
});
