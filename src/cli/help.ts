import {
	CHECK_SWITCHES,
	COMMON_SWITCHES,
	DEMO_OPTIONS,
	DEMO_SWITCHES,
	RUN_OPTIONS,
	type Switch,
	type ValueOption,
} from './options.ts';

/** Narrower than this, columns would be too thin to read, and lines are allowed to be longer. */
const MIN_COLUMNS = 60;
/** Longer lines are hard to read. */
const MAX_COLUMNS = 100;
const INDENT = '  ';

/** @param columns width of the terminal in characters. */
export function helpText(columns = 80): string {
	const width = Math.min(Math.max(columns, MIN_COLUMNS), MAX_COLUMNS);
	return [
		...wrap(SUMMARY.split(' '), width),
		'',
		'Usage:',
		`${INDENT}proxy [OPTIONS]        run the proxy`,
		`${INDENT}proxy check [OPTIONS]  say what it would refuse, and start nothing`,
		`${INDENT}proxy demo [OPTIONS]   try it with its own keys and upstream`,
		`${INDENT}proxy embed-demo       run the example of the embedded gate`,
		...section('Options', [...values(RUN_OPTIONS), ...switches(COMMON_SWITCHES)], width),
		...section(
			'Options of check',
			[entry('the same', 'so that it can stand before the same command'), ...switches(CHECK_SWITCHES)],
			width,
		),
		...section('Options of demo', [...switches(DEMO_SWITCHES), ...values(DEMO_OPTIONS)], width),
		...section('Signals', SIGNALS, width),
		...section('Exit codes', EXIT_CODES, width),
		'',
	].join('\n');
}

const SUMMARY =
	'Layer-7 reverse proxy for private networks: mutual TLS, RS256 tokens, a rate limit for each tenant, routes, ' +
	'circuit breakers.';

interface Entry {
	readonly term: string;
	/** Pieces that a line may break between. */
	readonly about: readonly string[];
}

const SIGNALS = [
	entry('SIGUSR1, SIGHUP', 'reload the TLS files and the routes; connections live on'),
	entry('SIGTERM, SIGINT', 'finish what is in flight, then exit; a second one exits at once'),
];

const EXIT_CODES = [
	entry('0', 'drained after a signal; check: nothing to refuse'),
	entry('1', 'could not start, or was told twice to stop; check: found errors'),
	entry('2', 'wrong usage'),
];

function section(title: string, entries: readonly Entry[], width: number): string[] {
	const column = Math.max(...entries.map(({ term }) => term.length)) + 2 * INDENT.length;
	const lines = entries.flatMap(({ term, about }) => {
		const [first = '', ...rest] = wrap(about, width - column);
		return [`${INDENT}${term}`.padEnd(column) + first, ...rest.map((line) => ' '.repeat(column) + line)];
	});
	return ['', `${title}:`, ...lines];
}

function switches(table: Readonly<Record<string, Switch>>): Entry[] {
	return Object.values(table).map(ofSwitch);
}

function values(table: Readonly<Record<string, ValueOption<unknown>>>): Entry[] {
	return Object.values(table).map(ofValue);
}

function ofSwitch({ flag, short, about }: Switch): Entry {
	return entry(short === undefined ? `--${flag}` : `-${short}, --${flag}`, about);
}

function ofValue({ flag, env, placeholder, fallback, about }: ValueOption<unknown>): Entry {
	if (flag === undefined) return entry(`${env}=${placeholder}`, about, `[default ${fallback}]`);
	const origin = env === undefined ? `[default ${fallback}]` : `[${env}, default ${fallback}]`;
	return entry(`--${flag} ${placeholder}`, about, origin);
}

/** @param whole a last piece that stays on one line. */
function entry(term: string, about: string, whole?: string): Entry {
	return { term, about: [...about.split(' '), ...(whole === undefined ? [] : [whole])] };
}

function wrap(pieces: readonly string[], width: number): string[] {
	const lines: string[] = [];
	let line = '';
	for (const piece of pieces) {
		if (line !== '' && line.length + 1 + piece.length > width) {
			lines.push(line);
			line = piece;
		} else {
			line = line === '' ? piece : `${line} ${piece}`;
		}
	}
	return [...lines, line];
}
