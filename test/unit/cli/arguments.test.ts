import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { parseCommandLine, UsageError } from '../../../packages/proxy/src/cli/arguments.ts';
import { type Command, defineCommand, type Environment, Malformed } from '../../../packages/proxy/src/cli/command.ts';
import { check } from '../../../packages/proxy/src/cli/commands/inspect.ts';
import { run } from '../../../packages/proxy/src/cli/commands/run.ts';
import { help } from '../../../packages/proxy/src/cli/commands/shell.ts';
import { demo, embedDemo } from '../../../packages/proxy/src/cli/commands/try-it.ts';
import { type Address, parseAddress, parseDuration } from '../../../packages/proxy/src/cli/options.ts';
import { threads } from '../../../packages/proxy/src/cli/run-options.ts';
import { anyText } from '../../fixtures/any-text.ts';

/** With operands, a required option, a repeatable one and a name of two words. */
const sign = defineCommand({
	name: 'key sign',
	group: 'Set up',
	about: 'sign',
	example: 'proxy key sign a --by b',
	operands: {
		name: {
			placeholder: 'NAME',
			about: 'a name',
			parse: (text: string) => {
				if (text === '') throw new Malformed('must not be empty (got ""); name one');
				return text;
			},
		},
		more: {
			placeholder: 'MORE',
			about: 'more',
			optional: true,
			repeatable: true,
			parse: (text: string) => text.length,
		},
	},
	options: {
		by: { flag: 'by', placeholder: 'WHOM', required: true, about: 'who', parse: (text: string) => text },
		at: { flag: 'at', placeholder: 'HOST:PORT', repeatable: true, about: 'where', parse: parseAddress },
		to: { flag: 'to', placeholder: 'DATE', about: 'when', parse: (text: string) => text },
	},
	switches: { fast: { flag: 'fast', about: 'hurry' } },
	exitCodes: { 0: 'signed' },
	run: async ({ name, more, by, at, to, fast }) => {
		// The types of the values are those of their parsers.
		const typed: [string, readonly number[], string, readonly Address[], string | undefined, boolean] = [
			...[name, more, by],
			...[at, to, fast],
		] as const;
		return typed.length;
	},
});

const COMMANDS: readonly Command[] = [run, check, demo, embedDemo, help, sign];

/** The values with the name of the command, or `help`, `help NAMES` and `version`. */
function parse(argv: string[], env: Environment = {}) {
	const commandLine = parseCommandLine(argv, env, COMMANDS);
	switch (commandLine.kind) {
		case 'run':
			return { command: commandLine.command.name, ...commandLine.values };
		case 'help':
			return { kind: 'help', of: commandLine.of?.map(({ name }) => name) };
		case 'version':
			return { kind: 'version' };
	}
}

describe('running the proxy', () => {
	const defaults = {
		command: 'run',
		config: 'config.toml',
		bind: { host: '0.0.0.0', port: 8443 },
		metricsBind: { host: '0.0.0.0', port: 9090 },
		pidFile: undefined,
		workers: 'auto',
		logFormat: 'json',
		rustLog: 'info',
		noStatus: false,
		forceWorkers: false,
	};

	it('has its defaults without arguments', () => {
		assert.deepEqual(parse([]), defaults);
	});

	it('takes every setting from its flag', () => {
		const line =
			'--config a.toml --bind=127.0.0.1:0 --metrics-bind [::1]:9 --pid-file=a.pid --workers=3 --log-format pretty';
		assert.deepEqual(parse(line.split(' ')), {
			...defaults,
			config: 'a.toml',
			bind: { host: '127.0.0.1', port: 0 },
			metricsBind: { host: '::1', port: 9 },
			pidFile: 'a.pid',
			workers: 3,
			logFormat: 'pretty',
		});
	});

	const environment = {
		PROXY_CONFIG: 'b.toml',
		PROXY_BIND: 'localhost:1',
		PROXY_METRICS_BIND: '[fe80::1%eth0]:65535',
		PROXY_PID_FILE: 'b.pid',
		PROXY_WORKERS: '1024',
		PROXY_LOG_FORMAT: 'pretty',
		RUST_LOG: 'warn,proxy::health=debug',
	};

	it('takes every setting from the environment', () => {
		assert.deepEqual(parse([], environment), {
			...defaults,
			config: 'b.toml',
			bind: { host: 'localhost', port: 1 },
			metricsBind: { host: 'fe80::1%eth0', port: 65_535 },
			pidFile: 'b.pid',
			workers: 1024,
			logFormat: 'pretty',
			rustLog: 'warn,proxy::health=debug',
		});
	});

	it('prefers a flag to its environment variable, even a wrong one', () => {
		assert.deepEqual(parse(['run', '--workers', '2'], { PROXY_WORKERS: 'many' }), { ...defaults, workers: 2 });
	});

	it('ignores an empty variable', () => {
		const empty = Object.fromEntries(Object.keys(environment).map((name) => [name, '']));
		assert.deepEqual(parse([], empty), defaults);
	});

	it('uses one worker for each core with --workers=auto', () => {
		assert.deepEqual(parse(['--workers=auto'], { PROXY_WORKERS: '2' }), defaults);
		assert.deepEqual([threads('auto', 6), threads(2, 6)], [6, 2]);
	});

	it('reads any host name or IP address, with brackets for IPv6', () => {
		const host = fc.oneof(
			fc.domain().map((name) => [name, name]),
			fc.ipV4().map((address) => [address, address]),
			fc.ipV6().map((address) => [`[${address}]`, address]),
		);
		fc.assert(
			fc.property(host, fc.nat(65_535), ([written, expected], port) => {
				const parsed = parse(['--bind', `${written}:${port}`]);
				assert.ok('command' in parsed);
				assert.deepEqual((parsed as { bind?: Address }).bind, { host: expected?.toLowerCase(), port });
			}),
		);
	});
});

describe('the other commands', () => {
	it('gives "check" the options of the run', () => {
		const found = { ...parse([]), command: 'check', json: false };
		assert.deepEqual(parse(['check']), found);
		assert.deepEqual(parse(['check', '--json', '--config=a.toml']), { ...found, config: 'a.toml', json: true });
		assert.deepEqual(parse(['check', '--bind=[::1]:1', '--workers', '2']), {
			...found,
			bind: { host: '::1', port: 1 },
			workers: 2,
		});
		assert.deepEqual(parse(['check'], { PROXY_CONFIG: 'b.toml', RUST_LOG: 'warn' }), {
			...found,
			config: 'b.toml',
			rustLog: 'warn',
		});
	});

	it('parse "demo" with and without --once and --dir', () => {
		assert.deepEqual(parse(['demo']), { command: 'demo', once: false, dir: '.demo' });
		assert.deepEqual(parse(['demo', '--dir', 'd', '--once']), { command: 'demo', once: true, dir: 'd' });
	});

	it('show the help, even with a mistake', () => {
		for (const argv of [['--help'], ['-h'], ['--bind', 'x', '--help'], ['--bnid', '-h'], ['-hV']]) {
			assert.deepEqual(parse(argv, { PROXY_WORKERS: 'many' }), { kind: 'help', of: undefined }, argv.join(' '));
		}
	});

	it('show the help of the command that is named', () => {
		const cases: [argv: string[], of: string[]][] = [
			[['demo', '-h'], ['demo']],
			[['check', '--bnid', '-h'], ['check']],
			[['run', '--help'], ['run']],
			[['key', 'sign', '--help'], ['key sign']],
			[['key', '--help'], ['key sign']],
		];
		for (const [argv, of] of cases) assert.deepEqual(parse(argv), { kind: 'help', of }, argv.join(' '));
		assert.deepEqual(parse(['help', 'key', 'sign']), { command: 'help', words: ['key', 'sign'] });
	});

	it('take operands in any number, and a repeated option in its order', () => {
		const nothing = { command: 'key sign', name: 'a', more: [], by: 'b', at: [], to: undefined, fast: false };
		assert.deepEqual(parse(['key', 'sign', 'a', '--by=b']), nothing);
		const [x, y] = [
			{ host: 'x', port: 1 },
			{ host: 'y', port: 2 },
		];
		assert.deepEqual(
			parse(['key', 'sign', '--at=x:1', 'a', '--at', 'y:2', '--by', 'b', 'three', '--fast', '--', '--to']),
			{ ...nothing, more: [5, 4], at: [x, y], fast: true },
		);
	});

	it('show the version for --version and -V', () => {
		for (const argv of [['--version'], ['-V'], ['demo', '-V']]) assert.deepEqual(parse(argv), { kind: 'version' });
	});
});

describe('wrong usage', () => {
	it('names the flag or the variable, what is wrong and the remedy', () => {
		const cases: [argv: string[], env: Environment, message: string][] = [
			[['--bnid=x'], {}, 'unknown option "--bnid"; did you mean --bind?'],
			[['--frobnicate'], {}, 'unknown option "--frobnicate"; see proxy --help'],
			[['--__proto__'], {}, 'unknown option "--__proto__"; see proxy --help'],
			[['--no-help'], {}, 'unknown option "--no-help"; see proxy --help'],
			[['--once'], {}, 'unknown option "--once"; it belongs to the demo: proxy demo --once'],
			[['chekc'], {}, 'unknown command "chekc"; did you mean proxy check?'],
			[['check'], { PROXY_BIND: 'x' }, 'PROXY_BIND: must be HOST:PORT (got "x"): it has no port; write x:PORT'],
			[['--workers=2', '--workers=3'], {}, '--workers: is given twice ("2" and "3"); give it once'],
			[['serve'], {}, 'unknown command "serve"; see proxy --help'],
			[['--config', 'a', 'b'], {}, 'unexpected argument "b"; every value needs its flag before it, see proxy --help'],
			[['key', 'sing', 'a'], {}, 'unknown command "key sing"; did you mean proxy key sign?'],
			[['key', 'frobnicate'], {}, 'unknown command "key frobnicate"; did you mean proxy key sign?'],
			[['kye', 'sign'], {}, 'unknown command "kye"; did you mean proxy key sign?'],
			[['key'], {}, 'proxy key: needs a second word; there is proxy key sign'],
			[['key', 'sign', '--by=b'], {}, 'NAME: is missing; write proxy key sign NAME'],
			[['key', 'sign', '', '--by=b'], {}, 'NAME: must not be empty (got ""); name one'],
			[['key', 'sign', 'a'], {}, '--by: is needed; write --by=WHOM'],
			[['key', 'sign', 'a', '--by=b', '--fats'], {}, 'unknown option "--fats"; did you mean --fast?'],
			[['key', 'sign', 'a', '--by=b', '-x'], {}, 'unknown option "-x"; see proxy key sign --help'],
			[
				['key', 'sign', 'a', '--by=b', '--bind=c:1'],
				{},
				'unknown option "--bind"; it belongs to others: proxy --bind, proxy check --bind',
			],
			[['--config', 'a', 'check'], {}, 'unexpected argument "check"; a command comes first: proxy check'],
			[['--version', '--bnid=x'], {}, 'unknown option "--bnid"; did you mean --bind?'],
			[['--', 'b'], {}, 'unexpected argument "b"; every value needs its flag before it, see proxy --help'],
			[['--config'], {}, '--config: needs a value; write --config=VALUE'],
			[['--config', '--bind'], {}, '--config: needs a value; write --config=VALUE'],
			[['--config='], {}, '--config: must be a path (got ""); name one'],
			[['demo', '--once=no'], {}, '--once: takes no value (got "no"); leave it out'],
			[
				[],
				{ PROXY_WORKERS: '0' },
				'PROXY_WORKERS: must be a whole number from 1 to 1024 (got "0"); write auto for one thread per core',
			],
			[['--log-format', 'xml'], {}, '--log-format: must be json or pretty (got "xml"); write one of the two'],
			[[], { PROXY_BIND: ':8443' }, 'PROXY_BIND: must be HOST:PORT (got ":8443"): it has no host; write 0.0.0.0:8443'],
			[
				['--bind', '9000'],
				{},
				'--bind: must be HOST:PORT (got "9000"): "9000" is not an IPv4 address; write 0.0.0.0:9000',
			],
			[
				['--bind', '::1:80'],
				{},
				'--bind: must be HOST:PORT (got "::1:80"): an IPv6 address needs brackets, as in [::1]:8443; write for example 0.0.0.0:8443',
			],
			[
				['--metrics-bind', 'a:65536'],
				{},
				'--metrics-bind: must be HOST:PORT (got "a:65536"): "65536" is not a port from 0 to 65535; write for example 0.0.0.0:8443',
			],
		];
		for (const [argv, env, message] of cases) assert.equal(errorOf(argv, env).message, message);
	});

	it('includes an address of another kind of listener', () => {
		const cases: [text: string, reason: string, remedy: string][] = [
			['https://0.0.0.0:8443', 'it is a URL, not an address', '0.0.0.0:8443'],
			['https://[::]:8443/', 'it is a URL, not an address', '[::]:8443'],
			['tcp://edge', 'it is a URL, not an address', 'for example 0.0.0.0:8443'],
			['unix:/run/a.sock', 'the listener is TCP, Unix sockets are not supported', 'for example 127.0.0.1:8443'],
			['/run/a.sock', 'the listener is TCP, Unix sockets are not supported', 'for example 127.0.0.1:8443'],
		];
		for (const [text, reason, remedy] of cases) {
			const message = `--bind: must be HOST:PORT (got "${text}"): ${reason}; write ${remedy}`;
			assert.equal(errorOf(['--bind', text]).message, message);
		}
	});

	it('is one address for both listeners', () => {
		const cases: [bind: string, metricsBind: string][] = [
			['127.0.0.1:8443', '127.0.0.1:8443'],
			['0.0.0.0:9090', '127.0.0.1:9090'],
			['[::1]:9090', '[::]:9090'],
			['localhost:1', 'LOCALHOST:1'],
		];
		for (const [bind, metricsBind] of cases) {
			assert.equal(
				errorOf(['--bind', bind, '--metrics-bind', metricsBind]).message,
				`--metrics-bind: is the address of --bind (port ${bind.split(':').at(-1)}); give one of them another port`,
			);
		}
		assert.match(
			errorOf(['--bind', '127.0.0.1:9090']).message,
			/^--metrics-bind: is the address of --bind \(port 9090\)/,
		);
		for (const metricsBind of ['127.0.0.2:8443', '127.0.0.1:8444']) {
			parse(['--bind', '127.0.0.1:8443', '--metrics-bind', metricsBind]);
		}
		parse(['--bind', '127.0.0.1:0', '--metrics-bind', '127.0.0.1:0']);
	});

	it('is reported for anything that is not a number of workers', () => {
		for (const text of ['0', '1025', '-1', '1.5', '1e2', ' 2', '0x2', 'two', '٣']) {
			assert.match(errorOf([`--workers=${text}`]).message, /^--workers: must be a whole number/, text);
		}
	});

	it('includes a duration without a value above 0, or with an unknown unit', () => {
		assert.deepEqual(['30s', '500ms', '5m', '30'].map(parseDuration), [30_000, 500, 300_000, 30_000]);
		for (const text of ['', '0', '0s', '-1s', '5w']) assert.throws(() => parseDuration(text), Malformed, text);
	});

	it('is reported with all problems', () => {
		const error = errorOf(['--bind=x', '--wokers=2'], { PROXY_LOG_FORMAT: 'xml' });
		assert.deepEqual(
			error.problems.map((problem) => problem.split(/[:;]/)[0]),
			['unknown option "--wokers"', '--bind', 'PROXY_LOG_FORMAT'],
		);
		assert.equal(error.message, error.problems.join('\n'));
		assert.equal(error.exitCode, 2);
	});

	it('is the only error of arguments, and never breaks a line', () => {
		const argument = fc.oneof(
			fc.constantFrom('demo', '--bind', '--workers', '--', '-h', '--once', '--config='),
			anyText(),
			fc.string().map((text) => `--${text}`),
		);
		fc.assert(
			fc.property(fc.array(argument), (argv) => {
				try {
					parse(argv);
				} catch (error) {
					assert.ok(error instanceof UsageError, String(error));
					assert.equal(error.message.split('\n').length, error.problems.length);
					assert.doesNotMatch(error.message, /[\0-\x09\x0b-\x1f\x7f-\x9f]/);
				}
			}),
		);
	});
});

function errorOf(argv: string[], env: Environment = {}): UsageError {
	try {
		parse(argv, env);
	} catch (error) {
		assert.ok(error instanceof UsageError, String(error));
		return error;
	}
	assert.fail(`accepted ${argv.join(' ')}`);
}
