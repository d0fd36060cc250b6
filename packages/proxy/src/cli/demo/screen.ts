/** The output of the demo. Colours only on a terminal, unless the user has declined them. */
import { formatPretty, type LogRecord } from '@mtls-edge-proxy/gate/shared/log.ts';

/** The part of `process.stdout` that is needed. */
export interface Output {
	write(text: string): unknown;
	readonly isTTY?: boolean;
}

export interface Screen {
	heading(text: string): void;
	/** One action, its result, and whether the result was the expected one. */
	outcome(passed: boolean, what: string, result: string): void;
	/** A line of the proxy's own log, without its time. Repeated lines are only counted. */
	record(record: LogRecord): void;
	/** Anything else that the proxy printed. */
	stray(line: string): void;
	text(text: string): void;
}

/** @param noColor the variable `NO_COLOR` (https://no-color.org). */
export function createScreen(out: Output, noColor: string | undefined): Screen {
	const colour = out.isTTY === true && !noColor;
	const paint = (code: number, text: string) => (colour ? `\x1b[${code}m${text}\x1b[0m` : text);
	let repeated = { line: '', times: 0 };
	const write = (line: string) => void out.write(`${line}\n`);
	const print = (line: string) => {
		const { times } = repeated;
		repeated = { line: '', times: 0 };
		if (times > 0) write(`       ${paint(DIM, `| … and ${times} more`)}`);
		write(line);
	};
	return {
		heading: (text) => print(`\n${paint(BOLD, text)}`),
		outcome: (passed, what, result) => {
			const mark = passed ? paint(GREEN, 'ok  ') : paint(RED, 'FAIL');
			print(`  ${mark} ${what.padEnd(WHAT_COLUMNS)} ${result}`);
		},
		record: (record) => {
			const line = `       ${paint(DIM, '|')} ${formatPretty(record, colour).replace(/^\S+ /, '')}`;
			if (line === repeated.line) repeated.times++;
			else {
				print(line);
				repeated.line = line;
			}
		},
		stray: (line) => print(`       ${paint(DIM, '|')} ${line}`),
		text: print,
	};
}

const WHAT_COLUMNS = 46;
const BOLD = 1;
const DIM = 2;
const RED = 31;
const GREEN = 32;
