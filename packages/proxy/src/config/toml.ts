import { type AST, ParseError, parseTOML } from 'toml-eslint-parser';
import { ConfigError, type Lines } from './error.ts';
import { TOO_DEEP, tooDeepAt } from './toml-nesting.ts';
import { quote } from './wording.ts';

/** Keys and list positions from the root: `['routes', 2, 'prefix']`. */
export type TomlPath = readonly (string | number)[];
export type TomlTable = { [key: string]: unknown };

export function isTable(value: unknown): value is TomlTable {
	return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A TOML file as plain values, and the line of each. */
export interface TomlDocument {
	/** Tables have no prototype, so that a key such as `__proto__` is a key like any other. */
	readonly root: TomlTable;
	/** Line of each key, table header and list element, in the order of the file. */
	readonly lines: Lines;
}

/**
 * Reads TOML 1.1.
 *
 * @param path name of the file, for messages only.
 * @throws ConfigError with one problem when the text is not TOML, for a parser cannot see past its first error, or nests
 *   too deeply.
 */
export function parseToml(text: string, path: string): TomlDocument {
	const line = tooDeepAt(text);
	if (line !== undefined) throw new ConfigError(path, [{ line, message: TOO_DEEP }]);
	const builder = new DocumentBuilder();
	for (const entry of parseSyntax(text, path).body[0].body) {
		if (entry.type === 'TOMLKeyValue') builder.addKeyValue([], entry);
		else builder.addTable(entry);
	}
	return builder;
}

function parseSyntax(text: string, path: string): AST.TOMLProgram {
	try {
		return parseTOML(text);
	} catch (error) {
		if (!(error instanceof ParseError)) throw error;
		const { line, excerpt } = locate(text, error);
		const problem = unclosedHeader(text, line) ?? { line, message: `${error.message} (${excerpt})` };
		throw new ConfigError(path, [{ line: problem.line, message: `is not valid TOML: ${problem.message}` }], {
			cause: error,
		});
	}
}

/** The parser treats the header as closed at the end of the line and reports the next line. */
function unclosedHeader(text: string, at: number): { line: number; message: string } | undefined {
	const lines = text.split(/\r?\n/).slice(0, at);
	const before = lines.findLastIndex((line, i) => i < at - 1 && !/^\s*(?:#.*)?$/.test(line));
	for (const i of [at - 1, before]) {
		const [, header = '', open = '', name, closed = ''] = UNCLOSED_HEADER.exec(lines[i] ?? '') ?? [];
		if (name === undefined || open.length === closed.length) continue;
		const whole = `${open}${name}${']'.repeat(open.length)}`;
		return { line: i + 1, message: `the table header ${quote(header)} is not closed; write ${whole}` };
	}
	return undefined;
}

/** The header as written, its opening brackets, its name, its closing brackets. */
const UNCLOSED_HEADER = /^\s*((\[\[?)\s*([A-Za-z_][\w-]*(?:\.[\w-]+)*)\.?(?:\s*(\]))?)\s*(?:#.*)?$/;

function locate(text: string, error: ParseError): { line: number; excerpt: string } {
	const lines = text.split(/\r?\n/);
	let line = error.lineNumber;
	let column = error.column;
	// The parser notices unfinished text only after it: point to the text, not to the blank lines that follow.
	while (line > 1 && (lines[line - 1] ?? '').trim() === '') {
		line--;
		column = lines[line - 1]!.length;
	}
	return { line, excerpt: `column ${column + 1} of ${quote(lines[line - 1] ?? '')}` };
}

/**
 * Turns the syntax tree into values. The parser's own `getStaticTOMLValue` will not do: it loses the lines, drops keys
 * named `__proto__` and writes what is below them into `Object.prototype`.
 */
class DocumentBuilder implements TomlDocument {
	readonly root = emptyTable();
	readonly lines: Record<string, number> = Object.create(null);

	addTable(table: AST.TOMLTable): void {
		this.#open(table.resolvedKey, table.loc.start.line);
		for (const entry of table.body) this.addKeyValue(table.resolvedKey, entry);
	}

	addKeyValue(above: TomlPath, { key, value }: AST.TOMLKeyValue): void {
		const line = key.loc.start.line;
		const path = [...above, ...key.keys.map((part) => (part.type === 'TOMLBare' ? part.name : part.value))];
		this.#open(path.slice(0, -1), line);
		this.#put(path, value, line);
	}

	#put(path: TomlPath, node: AST.TOMLContentNode, line: number): void {
		this.#setLine(path, line);
		const parent = this.#open(path.slice(0, -1), line);
		const name = path.at(-1)!;
		if (node.type === 'TOMLValue') {
			parent[name] = node.value instanceof Date ? DATE_OR_TIME : node.value;
		} else if (node.type === 'TOMLArray') {
			parent[name] = [];
			for (const [i, element] of node.elements.entries()) this.#put([...path, i], element, element.loc.start.line);
		} else {
			parent[name] = emptyTable();
			for (const entry of node.body) this.addKeyValue(path, entry);
		}
	}

	/** Finds or creates the table or list at `path`. The parser has ruled out conflicts. */
	#open(path: TomlPath, line: number): TomlTable {
		let container = this.root;
		for (const [depth, name] of path.entries()) {
			container[name] ??= typeof path[depth + 1] === 'number' ? [] : emptyTable();
			container = container[name] as TomlTable;
			this.#setLine(path.slice(0, depth + 1), line);
		}
		return container;
	}

	/** The first mention counts: that is where a reader looks for it. */
	#setLine(path: TomlPath, line: number): void {
		this.lines[formatKey(path)] ??= line;
	}
}

/** `routes[2].cooldown_secs`: positions are counted from 0, unusual names are quoted. */
export function formatKey(path: TomlPath): string {
	const parts = path.map((part) => {
		if (typeof part === 'number') return `[${part}]`;
		return `.${/^[\w-]+$/.test(part) ? part : quote(part)}`;
	});
	return parts.join('').replace(/^\./, '');
}

/** Replaces dates and times, which no key accepts: a `Date` would look like a table without keys. */
const DATE_OR_TIME = Symbol('a date or time');

function emptyTable(): TomlTable {
	return Object.create(null);
}
