/**
 * The test suites, with one summary over all of them.
 *
 *   npm test                                every suite that needs nothing but this repository
 *   npm test -- system                      only the suites named
 *   npm test -- --body streaming            only this body mode
 *   npm test -- test/wire/methods.test.ts   only these files
 *   npm test -- --name burst                only tests whose name matches this regular expression
 *   npm test -- --again                     a file of the real command that failed runs once more, alone, at the end
 *
 * PROXY_TEST_CPU names a file that gets a line for each test file, with the CPU that it has used (Linux).
 *
 * Suites are the folders of test/. Those that run the real command run once for each body mode, except the files of `EITHER_MODE`.
 * PROXY_TEST_BODY names the mode; for `streaming` the process has the condition `boxed_body`, so `#body` is the streaming module there
 * too. Wire tests start the command as a bundle (`test-command.ts`); `node --test FILE` starts its sources. The condition
 * `poisoned_reads`, which the harness of the real command sets too, shows every view of the read buffer that is kept.
 */
import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join, relative, resolve, sep } from 'node:path';
import { PassThrough } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { run } from 'node:test';
import { spec, type TestEvent } from 'node:test/reporters';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';

type BodyMode = 'collected' | 'streaming';
/** Tests of pure code use a core all the time; wire tests wait much of theirs for limits of the proxy. */
type Lane = 'pure' | 'wire';
type Counts = Extract<TestEvent, { type: 'test:summary' }>['data']['counts'];

interface Pass {
	readonly files: string[];
	readonly body: BodyMode;
	/** Appended to test names, so that a report tells the modes apart. */
	readonly suffix: string;
	/** How many files more run at once than there are cores. */
	readonly spare: number;
	/** Passes of one lane run one after the other, and the lanes side by side. */
	readonly lane: Lane;
	/** On top of this process's. */
	readonly env: NodeJS.ProcessEnv;
	/** See `Suite`. */
	readonly bundled: boolean;
	/** See `Suite`. */
	readonly again: boolean;
}

/** A file of a pass that failed, with all that there is to be reported of it. */
interface Failed {
	readonly pass: Pass;
	readonly file: string;
	readonly events: readonly TestEvent[];
}

const BODY_MODES: readonly BodyMode[] = ['collected', 'streaming'];

interface Suite {
	readonly bodyModes: readonly BodyMode[];
	/** See `Pass`. Default 1. */
	readonly spare?: number;
	/** See `Pass`. Default `pure`. */
	readonly lane?: Lane;
	/**
	 * Files of one folder share a process where the whole suite runs: a separate process costs most files more than
	 * their tests. Each file is a `describe` there, so its hooks stay its own.
	 */
	readonly together?: true;
	/** They start the command, or a thread of it, from one bundle, not from its sources. */
	readonly bundled?: true;
	/** They run the real command or other programs, so a busy machine may fail one of them: see `AGAIN_AT_MOST`. */
	readonly again?: true;
	readonly onlyWhenAsked?: true;
}

const SUITES: Record<string, Suite> = {
	conformance: { bodyModes: ['collected'], bundled: true },
	unit: { bodyModes: ['collected'], together: true },
	wire: { bodyModes: BODY_MODES, spare: 2, lane: 'wire', bundled: true, again: true },
	/** Installs what was packed from the registry. */
	package: { bodyModes: ['collected'], again: true, onlyWhenAsked: true },
	/** Needs Debian's packages, see .ci/run. */
	system: { bodyModes: BODY_MODES, again: true, onlyWhenAsked: true },
};

/**
 * What these test is over before a body is looked at, or has none: one mode proves it. They run in the first, and in the other when
 * named. For single tests of other files there is `testOnce` in test/fixtures/proxy.ts.
 */
const EITHER_MODE: ReadonlySet<string> = new Set([
	...[
		...['auth', 'demo', 'handshake-refusals', 'health', 'health-many', 'http2-bounds', 'logging', 'methods', 'metrics'],
		...[
			'breaker',
			'breaker-tenants',
			'callers',
			'certificates',
			'commands',
			'dns',
			'drain',
			'first-request',
			'http2-upstream-connections',
			'http2-upstream-reload',
			'issuers',
			'never-indexed',
			'overload',
			'path',
			'pipelining',
			'quotas',
			'proxy-protocol',
			'readiness',
			'reload',
			'reload-on-change',
			'start',
			'status',
			'tenant-limit',
			'tls',
			'trace-collector',
			// A tunnel takes the place of the body module; `websocket` shows in both modes that it does.
			'websocket-ends',
			'websocket-h2-upstream',
			'worker-uploads',
			'workers',
		],
	].map((name) => `test/wire/${name}.test.ts`),
	// These run no body module, build their own, or end before a body.
	...[
		'debian',
		'deploy',
		'diagrams',
		'image',
		'proxy-protocol',
		'status',
		'store',
		'fleet-store',
		'fleet',
		'systemd-unit',
		'websocket-cases',
	].map((name) => `test/system/${name}.test.ts`),
]);

/** The longest ones begin first; otherwise the run would end with one of them and an idle core. */
const LONGEST: readonly string[] = [
	'faults',
	'slow-takers',
	'tls',
	'websocket-ends',
	'issuers',
	'drain',
	'start',
	'bodies',
	'breaker',
	'breaker-tenants',
	'certificates',
	'demo',
	'fuzz',
	'http2-hostile',
	'http2-upstream',
	'overload',
	'read-buffer',
	'streaming',
	'upstream-limits',
	'upstreams',
	'workers',
].map((name) => `test/wire/${name}.test.ts`);

const DEADLINE_MODULE = import.meta.resolve('./test-deadline.ts');

const root = resolve(import.meta.dirname, '..');
/**
 * Each test file and each proxy is a process that loads the same modules. Node compiles a module once for all of them,
 * and again when it has changed. Suites that look at what was packed or installed do without.
 */
const COMPILED_ONCE = { NODE_COMPILE_CACHE: resolve(root, 'node_modules/.cache/node-compile') };

/** What the processes of this run share, see test/fixtures/pki.ts. */
const shared = mkdtempSync(join(tmpdir(), 'mtls-edge-proxy-tests-'));
process.on('exit', () => rmSync(shared, { recursive: true, force: true }));

function main(): void {
	const { body, name, again, asked } = readCommandLine();
	const passes = plan(asked).filter((pass) => body === undefined || pass.body === body);
	if (passes.length === 0) refuse(`no test file in ${asked.join(', ') || 'test/'}`);
	// Explicit, because node:test takes over uncaught exceptions and rejections of the process it runs in.
	pipeline(report(passes, name, again), new spec(), process.stdout, { end: false }).catch((error) => {
		console.error(error);
		process.exit(1);
	});
}

function readCommandLine(): { body: BodyMode | undefined; name: RegExp | undefined; again: boolean; asked: string[] } {
	try {
		const { values, positionals } = parseArgs({
			options: { body: { type: 'string' }, name: { type: 'string' }, again: { type: 'boolean', default: false } },
			allowPositionals: true,
		});
		const body = BODY_MODES.find((mode) => mode === values.body);
		if (values.body !== undefined && body === undefined) throw new Error(`there is no body mode '${values.body}'`);
		const name = values.name === undefined ? undefined : new RegExp(values.name);
		return { body, name, again: values.again, asked: positionals };
	} catch (error) {
		refuse((error as Error).message);
	}
}

/** Which files run in which mode: the suites and files asked for, by default all that need nothing else. */
function plan(asked: string[]): Pass[] {
	const found = globSync('test/**/*.test.ts', { cwd: root }).sort();
	const all = [...LONGEST.filter((file) => found.includes(file)), ...found.filter((file) => !LONGEST.includes(file))];
	const stray = all.find((file) => !(suiteOf(file) in SUITES));
	if (stray !== undefined) refuse(`${stray} belongs to no suite, and would never run`);
	const files = asked.filter((name) => !(name in SUITES)).map((name) => relative(root, resolve(name)));
	const unknown = files.find((file) => !all.includes(file));
	if (unknown !== undefined) refuse(`${unknown} is no test file`);

	const passes = Object.entries(SUITES).flatMap(
		([
			suite,
			{ bodyModes, spare = 1, lane = 'pure', onlyWhenAsked, together, bundled = false, again = false },
		]): Pass[] => {
			const whole = asked.includes(suite) || (asked.length === 0 && !onlyWhenAsked);
			const chosen = all.filter((file) => suiteOf(file) === suite && (whole || files.includes(file)));
			if (chosen.length === 0) return [];
			return bodyModes.flatMap((body, i) => {
				const env = { ...(!onlyWhenAsked && COMPILED_ONCE), ...(whole && i > 0 && { PROXY_TEST_SECOND_MODE: '1' }) };
				const own = chosen.filter((file) => i === 0 || files.includes(file) || !EITHER_MODE.has(file));
				return own.length === 0
					? []
					: [
							{
								files: whole && together ? grouped(own) : own,
								body,
								suffix: bodyModes.length > 1 ? ` [${body}]` : '',
								spare,
								lane,
								env,
								bundled,
								again,
							},
						];
			});
		},
	);
	return joined(passes);
}

/** Suites that run in one way are one pass: no core waits for the last file of the first of them. */
function joined(passes: readonly Pass[]): Pass[] {
	const wayOf = ({ files, ...way }: Pass) => JSON.stringify(way);
	return Object.values(Object.groupBy(passes, wayOf)).map((group) => {
		return { ...group![0]!, files: group!.flatMap(({ files }) => files) };
	});
}

/** Files in a process at most: fewer, and a pass ends waiting for one long group. */
const GROUP = 12;

/** node:test takes the suite of a test from the code that runs at the moment, which is unknown after a top-level `await`. */
const TOP_LEVEL_AWAIT = /^(?:await |(?:const|let) [^=]*= await )/m;

/** Files that load the files of a folder, a dozen each. */
function grouped(files: readonly string[]): string[] {
	const alone = files.filter((file) => TOP_LEVEL_AWAIT.test(readFileSync(resolve(root, file), 'utf8')));
	const folders = Map.groupBy(
		files.filter((file) => !alone.includes(file)),
		(file) => file.split(sep).slice(0, 3).join('-'),
	);
	const groups = [...folders].flatMap(([folder, own]) => {
		if (own.length === 1) return own;
		return Array.from({ length: Math.ceil(own.length / GROUP) }, (_, nth) => {
			const members = own.slice(nth * GROUP, (nth + 1) * GROUP);
			const group = join(shared, `${folder}-${nth}.mjs`);
			writeFileSync(group, groupOf(members));
			return group;
		});
	});
	return [...alone, ...groups];
}

function groupOf(files: readonly string[]): string {
	const suites = files.map((file) => {
		return `describe(${JSON.stringify(file)}, load('${pathToFileURL(resolve(root, file))}'));`;
	});
	return `import { AsyncResource } from 'node:async_hooks';
import { describe } from 'node:test';

// The name under which test-deadline.ts reports what is still open.
globalThis.testFiles = ${JSON.stringify(files.join(', '))};

// One file after the other: two that wait for the same module would go on in each other's suite.
let last = Promise.resolve();
const load = (url) => () => {
	const suite = new AsyncResource('suite');
	const loaded = last.then(() => suite.runInAsyncScope(() => import(url)));
	last = loaded.catch(() => {});
	return loaded.then(() => {});
};
${suites.join('\n')}
`;
}

/** `test/wire/methods.test.ts` -> `wire` */
function suiteOf(file: string): string {
	return file.split(sep)[1] ?? '';
}

/** The events of all passes as those of one run: one stream, one summary. Sets the exit code. */
async function* report(passes: Pass[], name: RegExp | undefined, again: boolean): AsyncGenerator<TestEvent> {
	const total: Counts = { tests: 0, suites: 0, passed: 0, cancelled: 0, skipped: 0, todo: 0, topLevel: 0 };
	const start = performance.now();
	const failed: Failed[] | undefined = again ? [] : undefined;
	const lanes = [...Map.groupBy(passes, ({ lane }) => lane).values()];
	// All lanes begin at once; the events of the second are kept until the first is over.
	const events = lanes.map((lane) => {
		const kept = new PassThrough({ objectMode: true, highWaterMark: Number.MAX_SAFE_INTEGER });
		pipeline(runLane(lane, name, total, lanes.length > 1, failed), kept).catch(() => {});
		return kept;
	});
	for (const lane of events) yield* lane;
	if (failed !== undefined) yield* runAgain(failed, name, total);
	if (total.tests === 0) process.exitCode = 1;
	yield* summaryLines(total, performance.now() - start);
}

/** One pass after the other. Adds what they count to `total`. @param failed takes files that may run again; without it none may. */
async function* runLane(
	passes: readonly Pass[],
	name: RegExp | undefined,
	total: Counts,
	isShared: boolean,
	failed: Failed[] | undefined,
): AsyncGenerator<TestEvent> {
	for (const planned of passes) {
		const env = planned.bundled ? { PROXY_TEST_MAIN: await testCommand(planned.body), ...planned.env } : planned.env;
		const pass = { ...planned, env };
		const all = runPass(pass, name, isShared);
		const others = failed?.length ?? 0;
		for await (const event of pass.again && failed !== undefined ? withoutFailed(all, pass, failed) : all) {
			if (event.type === 'test:summary' && event.data.file === undefined) {
				for (const key of Object.keys(total) as (keyof Counts)[]) total[key] += event.data.counts[key];
				if (!event.data.success && (failed?.length ?? 0) === others) process.exitCode = 1;
			} else if (!isSummaryLine(event)) {
				if (isFailure(event)) process.exitCode = 1;
				yield labelled(event, pass.suffix);
			}
		}
	}
}

/** Files that may run again: that is for a busy machine, not for a change that breaks many. */
const AGAIN_AT_MOST = 3;

/** The events of the files that pass; those of a file that fails go to `failed`. */
async function* withoutFailed(
	events: AsyncIterable<TestEvent>,
	pass: Pass,
	failed: Failed[],
): AsyncGenerator<TestEvent> {
	let file: string | undefined;
	let own: TestEvent[] = [];
	const endOfFile = (): TestEvent[] => {
		const known = pass.files.find((one) => resolve(root, one) === file);
		const isHeld = known !== undefined && own.some(isFailure);
		if (isHeld) failed.push({ pass, file: known, events: own });
		return isHeld ? [] : own;
	};
	for await (const event of events) {
		// These come at any time, and nothing is reported of them. All others of a file come in a row.
		if (/^test:(enqueue|dequeue|complete)$/.test(event.type)) continue;
		const its = event.data && 'file' in event.data ? event.data.file : undefined;
		if (its !== file) {
			yield* endOfFile();
			[file, own] = [its, []];
		}
		own.push(event);
	}
	yield* endOfFile();
}

function isFailure(event: TestEvent): event is Extract<TestEvent, { type: 'test:fail' }> {
	return event.type === 'test:fail' && event.data.todo === undefined;
}

/** Runs each file once more, alone. One that passes is named as unsteady, and counted as passed. */
async function* runAgain(
	failed: readonly Failed[],
	name: RegExp | undefined,
	total: Counts,
): AsyncGenerator<TestEvent> {
	for (const { pass, file, events } of failed) {
		if (failed.length > AGAIN_AT_MOST || !(await passes({ ...pass, files: [file] }, name))) {
			process.exitCode = 1;
			for (const event of events) yield labelled(event, pass.suffix);
			continue;
		}
		for (const { data } of events.filter(isFailure)) {
			const { type, error } = data.details;
			if (type === 'suite') continue;
			total.passed++;
			if ('failureType' in error && error.failureType === 'cancelledByParent') total.cancelled--;
			const cause = error.cause instanceof Error ? error.cause.message : error.message;
			yield diagnostic(`unsteady: ${file}${pass.suffix}: ${data.name}: ${cause}`);
		}
	}
}

async function passes(pass: Pass, name: RegExp | undefined): Promise<boolean> {
	let isPassed = false;
	for await (const { type, data } of runPass(pass, name, false)) {
		if (type === 'test:summary' && data.file === undefined) isPassed = data.success && data.counts.tests > 0;
	}
	return isPassed;
}

const bundles: Partial<Record<BodyMode, Promise<string>>> = {};

/** What PROXY_TEST_MAIN names, by default a bundle of the present sources. */
async function testCommand(body: BodyMode): Promise<string> {
	if (process.env.PROXY_TEST_MAIN !== undefined) return process.env.PROXY_TEST_MAIN;
	const { buildTestCommand } = await import('./test-command.ts');
	const cache = resolve(root, 'node_modules/.cache/test-command');
	// Both lanes ask for it.
	bundles[body] ??= buildTestCommand(root, cache, body === 'streaming' ? ['boxed_body'] : []);
	return bundles[body];
}

/** @param isShared another lane runs at the same time: then pure code leaves it a core. */
function runPass(
	{ files, body, spare, lane, env }: Pass,
	name: RegExp | undefined,
	isShared: boolean,
): AsyncIterable<TestEvent> {
	return run({
		files: files.map((file) => resolve(root, file)),
		cwd: root,
		concurrency: isShared && lane === 'pure' ? Math.max(1, availableParallelism() - 1) : availableParallelism() + spare,
		execArgv: [
			`--import=${DEADLINE_MODULE}`,
			'--conditions=poisoned_reads',
			...(body === 'streaming' ? ['--conditions=boxed_body'] : []),
			// Without a matching test node:test runs the file's `before` and `after` side by side: a proxy that starts is not ended.
			...(name === undefined ? [] : ['--test-force-exit']),
		],
		env: { ...process.env, ...env, PROXY_TEST_BODY: body, PROXY_TEST_PKI: join(shared, 'pki.json') },
		...(name === undefined ? {} : { testNamePatterns: name }),
	});
}

/** The lines that a run ends on, such as `tests 12`; a diagnostic of a test's own names its file. */
function isSummaryLine(event: TestEvent): boolean {
	return event.type === 'test:diagnostic' && event.data.nesting === 0 && event.data.file === undefined;
}

function labelled(event: TestEvent, suffix: string): TestEvent {
	if (suffix === '' || !event.data || !('name' in event.data)) return event;
	return { ...event, data: { ...event.data, name: event.data.name + suffix } } as TestEvent;
}

/** In the words and the order of node's own summary. */
function* summaryLines(total: Counts, durationMs: number): Generator<TestEvent> {
	const lines = {
		tests: total.tests,
		suites: total.suites,
		pass: total.passed,
		fail: total.tests - total.passed - total.cancelled - total.skipped - total.todo,
		cancelled: total.cancelled,
		skipped: total.skipped,
		todo: total.todo,
		duration_ms: Math.round(durationMs),
	};
	for (const [label, value] of Object.entries(lines)) yield diagnostic(`${label} ${value}`);
}

function diagnostic(message: string): TestEvent {
	return { type: 'test:diagnostic', data: { nesting: 0, message, level: 'info' } } as TestEvent;
}

function refuse(message: string): never {
	console.error(
		`${message}\nusage: npm test -- [SUITE or FILE]… [--body ${BODY_MODES.join('|')}] [--name REGEXP] [--again]`,
	);
	console.error(`suites: ${Object.keys(SUITES).join(', ')}`);
	process.exit(2);
}

main();
