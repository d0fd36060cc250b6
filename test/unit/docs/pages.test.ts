/** Links of pages lead somewhere, pages are near README.md, and every block of code is tested (CONTRIBUTING.md, "Pages", has the rules). */
import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { describe, it } from 'node:test';
import { parseCommandLine } from '../../../packages/proxy/src/cli/arguments.ts';
import { COMMANDS } from '../../../packages/proxy/src/cli/commands.ts';
import type { ConfigError } from '../../../packages/proxy/src/config/error.ts';
import { SCHEMA_LINE } from '../../../packages/proxy/src/config/json-schema.ts';
import { readRevocationList } from '../../../packages/proxy/src/config/revocation-list.ts';
import { anchorsIn, blocksIn, type DocBlock, linksIn, PAGES, ROOT, readPage } from '../../fixtures/doc-blocks.ts';
import { parseConfig } from '../config/parse.ts';

for (const page of PAGES) {
	it(`${page}: every link leads somewhere`, () => assert.deepEqual(brokenLinks(page), []));

	it(`${page}: every block of code is tested`, () => {
		const problems = blocksIn(page).flatMap((block) => problemOf(block)?.replace(/^/, `${page}:${block.line}: `) ?? []);
		assert.deepEqual(problems, []);
	});
}

it('proxy accepts every command line of its own', () => {
	for (const { page, line, language, code } of PAGES.flatMap((page) => blocksIn(page))) {
		if (!['sh', 'bash', 'shell', 'console'].includes(language)) continue;
		for (const words of proxyCommands(code)) {
			assert.doesNotThrow(() => parseCommandLine(words, {}, COMMANDS), `${page}:${line}: proxy ${words.join(' ')}`);
		}
	}
});

it('every page of docs/ is at most two clicks from README.md', () => {
	const near = ['README.md']
		.flatMap((page) => [page, ...pagesLinkedFrom(page)])
		.flatMap((page) => [page, ...pagesLinkedFrom(page)]);
	assert.deepEqual(
		PAGES.filter((page) => page.startsWith('docs/') && !near.includes(page)),
		[],
	);
});

it('configurations name their schema by its path in the repository, or next to the file', () => {
	for (const file of globSync('{deploy,examples,docs,bench}/**/*.toml', {
		cwd: ROOT,
		exclude: ['**/node_modules/**'],
	})) {
		const [, path = ''] = /^#:schema (\S+)\n/.exec(readPage(file)) ?? [];
		const isHere = posix.join(dirname(file), path) === 'schema/config.schema.json';
		assert.ok(isHere || path === './config.schema.json', `${file} must begin with ${SCHEMA_LINE}`);
	}
});

describe('the rule about blocks of code', () => {
	const WHOLE = '[tls]\ncert_path = "a"\nkey_path = "b"\nclient_ca_path = "c"\n[jwt]\njwks_path = "j"\n';
	const HERE = 'test/unit/docs/pages.test.ts';
	const cases: readonly (readonly [mark: string, language: string, code: string, problem?: RegExp])[] = [
		['', 'toml', `${SCHEMA_LINE}\n${WHOLE}`],
		['', 'toml', WHOLE, /begin with #:schema/],
		[
			'fragment',
			'toml',
			'[limits]\nmax_conections = 1\n',
			/^limits\.max_conections: .* did you mean max_connections\?$/,
		],
		['revoked by hand', 'toml', 'tokens = 5\n', /tokens: must be/],
		['', 'json', '{a: 1}\n', /not JSON/],
		['anything', 'sh', 'ls\n', /no test runs it/],
		['run by test/nowhere.test.ts: it', 'sh', 'ls\n', /no such file/],
		[`run by ${HERE}: the rule`, 'sh', 'ls\n', /has no blockNamed/],
		[`checked by ${HERE}: the rule about blocks`, 'sh', 'ls\n'],
	];

	it('accepts a marked block, and refuses one without a test or a reason', () => {
		for (const [mark, language, code, problem] of cases) {
			const [block] = blocksIn('docs/x.md', `<!-- ${mark} -->\n\`\`\`${language}\n${code}\`\`\``);
			assert.match(problemOf(block!) ?? '', problem ?? /^$/, `${mark} ${code}`);
		}
	});
});

function pagesLinkedFrom(page: string): string[] {
	return linksIn(page)
		.map(({ target }) => posix.join(dirname(page), target.replace(/#.*/, '')))
		.filter((linked) => PAGES.includes(linked));
}

function brokenLinks(page: string): string[] {
	return linksIn(page).flatMap(({ line, target }) => {
		if (/^[a-z][a-z\d+.-]*:/i.test(target)) return URL.canParse(target) ? [] : [`${line}: ${target} is no address`];
		const [path = '', anchor] = target.split('#');
		const file = path === '' ? page : posix.join(dirname(page), path);
		if (!existsSync(join(ROOT, file))) return [`${line}: ${target}: there is no ${file}`];
		if (anchor === undefined || !file.endsWith('.md') || anchorsIn(file).has(anchor)) return [];
		return [`${line}: ${target}: ${file} has no heading #${anchor}`];
	});
}

/** Why a block is not tested, or fails its test. */
function problemOf(block: DocBlock): string | undefined {
	const { language, mark = '', code } = block;
	const [, how, file, name] = /^(run|checked) by (test\/\S+\.test\.ts): (.+)$/.exec(mark) ?? [];
	if (name !== undefined) return problemOfTest(file!, how === 'run' ? `blockNamed('${name}')` : name);
	if (/^not run: \S/.test(mark)) return undefined;
	switch (language) {
		case '':
		case 'text':
		case 'mermaid':
			return undefined;
		case 'toml':
			return problemOfToml(block);
		case 'json':
			return problemOfJson(code);
		case 'sh':
			// test/unit/cli/help.test.ts looks at the examples.
			if (COMMANDS.some(({ example }) => code === `${example}\n`)) return undefined;
			break;
		case 'ts':
			// test/package/doc-examples.ts finds these.
			if (['docs/reference/embed.md', 'packages/gate/README.md'].includes(block.page)) return undefined;
	}
	return 'no test runs it: write <!-- run by FILE: NAME -->, or another mark of test/unit/docs/pages.test.ts, above it';
}

function problemOfTest(file: string, wanted: string): string | undefined {
	if (!existsSync(join(ROOT, file))) return `${file}: there is no such file`;
	return readFileSync(join(ROOT, file), 'utf8').includes(wanted) ? undefined : `${file} has no ${wanted}`;
}

function problemOfToml({ mark, code, page }: DocBlock): string | undefined {
	if (mark === 'revoked by hand') return readRevocationList(code).problems.join('; ') || undefined;
	if (mark !== 'fragment' && !code.startsWith(`${SCHEMA_LINE}\n`)) {
		return `must begin with ${SCHEMA_LINE}, or be marked as <!-- fragment -->`;
	}
	try {
		parseConfig(code, page);
		return undefined;
	} catch (error) {
		const problems = (error as ConfigError).problems ?? [error as Error];
		const left = problems.filter((one) => mark !== 'fragment' || !('key' in one) || !LEFT_OUT.has(one.key ?? ''));
		return left.map((one) => `${'key' in one ? one.key : page}: ${one.message}`).join('\n') || undefined;
	}
}

/** Required keys that a part of a configuration leaves to the reader. */
const LEFT_OUT: ReadonlySet<string> = new Set(['tls.cert_path', 'tls.key_path', 'tls.client_ca_path', 'jwt.jwks_path']);

function problemOfJson(code: string): string | undefined {
	const isJson = (text: string) => {
		try {
			JSON.parse(text);
			return true;
		} catch {
			return false;
		}
	};
	return isJson(code) || code.trim().split('\n').every(isJson) ? undefined : 'is not JSON';
}

/** The words after `proxy` in each command line of a script. */
function proxyCommands(script: string): string[][] {
	return script
		.replaceAll('\\\n', ' ')
		.split('\n')
		.flatMap((line) => line.replace(/(?:^|\s)#.*$/, '').split(/&&|\|\||[|;&]/))
		.map((command) => /^\s*(?:\$ )?(?:npx )?proxy(?:\s+([^>]*))?(?:>.*)?$/.exec(command))
		.filter((match) => match !== null)
		.map(([, words = '']) => Array.from(words.matchAll(/"([^"]*)"|'([^']*)'|\S+/g), ([all, a, b]) => a ?? b ?? all));
}
