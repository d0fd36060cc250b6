/** One thing wrong with the configuration, or doubtful in it. */
export interface ConfigProblem {
	/** Line in the file, from 1; absent if no line is at fault (a missing table, a file that cannot be read). */
	readonly line?: number;
	/** Full key, with list positions counted from 0: `routes[2].cooldown_secs`. */
	readonly key?: string;
	/** The file that the key names, if that file has the fault. */
	readonly file?: string;
	/** What is wrong, what was found and what to write instead. */
	readonly message: string;
	/** Only on warnings: the start continues, because a reload can fix it, but no request is served until then. `proxy check` fails. */
	readonly failsCheck?: true;
}

/** Line of each key that a file has, from 1, by the key's full name: `tls.cert_path`, `routes[2].prefix`. */
export type Lines = Readonly<Record<string, number>>;

/** A problem of a key. A missing key gets the line of its table or list. @param file the file that the key names, if it has the fault. */
export function problemAt(lines: Lines, key: string, message: string, file?: string): ConfigProblem {
	const line = lines[key] ?? lines[key.replace(/(?:\.[\w-]+|\."(?:[^"\\]|\\.)*"|\[\d+\])$/, '')];
	return { ...(line !== undefined && { line }), key, ...(file !== undefined && { file }), message };
}

/** The configuration cannot be used. The message has one line for every problem: `file:line: key: message`. */
export class ConfigError extends Error {
	override readonly name = 'ConfigError';
	readonly path: string;
	readonly problems: readonly ConfigProblem[];

	/** @param problems at least one; they are put in the order of the file, those without a line last. */
	constructor(path: string, problems: readonly ConfigProblem[], options?: ErrorOptions) {
		const sorted = inFileOrder(problems);
		super(sorted.map((problem) => describeProblem(path, problem)).join('\n'), options);
		this.path = path;
		this.problems = Object.freeze(sorted);
	}
}

/** Those without a line last. */
export function inFileOrder(problems: readonly ConfigProblem[]): ConfigProblem[] {
	return problems.toSorted((a, b) => (a.line ?? Infinity) - (b.line ?? Infinity) || 0);
}

/** On one line: `config.toml:7: tls.key_path (certs/edge.key): cannot be read: there is no such file`. */
export function describeProblem(path: string, { line, key, file, message }: ConfigProblem): string {
	const place = line === undefined ? path : `${path}:${line}`;
	if (key === undefined) return `${place}: ${message}`;
	return `${place}: ${file === undefined ? key : `${key} (${file})`}: ${message}`;
}
