/** What the demo prints. Colours only where a person looks at a terminal and has not declined them. */
import { formatPretty, type LogRecord } from '@mtls-edge-proxy/gate/shared/log.ts';

/** As much of `process.stdout` as is needed. */
export interface Output {
	write(text: string): unknown;
	readonly isTTY?: boolean;
}

export interface Screen {
	heading(text: string): void;
	/** One thing that was done, what came of it, and whether it should have. */
	outcome(passed: boolean, what: string, result: string): void;
	/** A line of the proxy's own log, without its time. The same line again only counts. */
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
