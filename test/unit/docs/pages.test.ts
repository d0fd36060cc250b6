/**
 * The pages hold: every relative link and anchor leads somewhere, and every block of code is tested. How, says its language, or an HTML comment
 * on the line above it (nothing between the two):
 *
 *   ```toml                                  a whole configuration: begins with `#:schema ./config.schema.json`, is accepted by the loader and by the JSON Schema
 *   <!-- fragment -->              ```toml   a part of one: accepted once the required keys of [tls] and [jwt] that it lacks are added
 *   <!-- revoked by hand -->       ```toml   a file of revoked_path
 *   ```json                                  is JSON, each line or the whole
 *   ```ts title="x.ts", ```ts                in docs/reference/embed.md: run or type-checked by test/package/package.test.ts
 *   <!-- run by FILE: NAME -->     any       the test NAME in FILE runs the very text: it takes it by `blockNamed('NAME')` of test/fixtures/doc-blocks.ts
 *   <!-- checked by FILE: NAME --> any       the test NAME in FILE judges it in another way, by a linter or by comparing it with a file that is tested
 *   <!-- not run: WHY -->          any       neither is possible here; say why. To be used for what needs a cluster, a registry or root
 *   ```sh                                    is the example of a command (`proxy help`), which has its tests
 *   ```text, ```mermaid, ``` alone           output and drawings, free
 *
 * Every other block fails, also one of a new language. Command lines of `proxy` must be such that it would take, in every block.
 */
import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { describe, it } from 'node:test';
import { parseCommandLine } from '../../../packages/proxy/src/cli/arguments.ts';
import { COMMANDS } from '../../../packages/proxy/src/cli/commands.ts';
import { SCHEMA_LINE } from '../../../packages/proxy/src/config/json-schema.ts';
import { readRevocationList } from '../../../packages/proxy/src/config/revocation-list.ts';
import { parseToml } from '../../../packages/proxy/src/config/toml.ts';
import { anchorsIn, blocksIn, type DocBlock, linksIn, PAGES, ROOT, readPage } from '../../fixtures/doc-blocks.ts';
import { parseConfig } from '../config/parse.ts';

describe('the pages', () => {
	it('leave README.md short enough to be read: at most 120 lines', () => {
		assert.ok(readPage('README.md').trimEnd().split('\n').length <= 120);
	});

	for (const page of PAGES) {
		it(`${page}: every link leads somewhere`, () => {
			assert.deepEqual(brokenLinks(page), []);
		});

		it(`${page}: every block of code is tested`, () => {
			const problems = blocksIn(page).flatMap(
				(block) => problemOf(block)?.replace(/^/, `${page}:${block.line}: `) ?? [],
			);
			assert.deepEqual(problems, []);
		});

		it(`${page}: proxy would take every command line of its own`, () => {
			for (const { line, language, code } of blocksIn(page)) {
				if (!['sh', 'bash', 'shell', 'console'].includes(language)) continue;
				for (const words of proxyCommands(code)) {
					assert.doesNotThrow(() => parseCommandLine(words, {}, COMMANDS), `${page}:${line}: proxy ${words.join(' ')}`);
				}
			}
		});
	}
});

describe('configurations that lie in the repository', () => {
	it('name their schema in the first line, by a path that is right here or beside a copy of the file', () => {
		for (const file of globSync('{deploy,examples,docs,bench}/**/*.toml', {
			cwd: ROOT,
			exclude: ['**/node_modules/**'],
		})) {
			const [, path] = /^#:schema (\S+)\n/.exec(readFileSync(join(ROOT, file), 'utf8')) ?? [];
			const isHere = path !== undefined && posix.join(dirname(file), path) === 'schema/config.schema.json';
			assert.ok(
				isHere || path === './config.schema.json',
				`${file} must begin with ${SCHEMA_LINE}, or name schema/config.schema.json`,
			);
		}
	});
});

describe('the rule about blocks of code', () => {
	const problem = (text: string) => {
		const [block] = blocksIn('docs/x.md', text);
		return problemOf(block!);
	};

	it('accept a configuration that the proxy accepts, whole or in part', () => {
		const whole = '[tls]\ncert_path = "a"\nkey_path = "b"\nclient_ca_path = "c"\n[jwt]\njwks_path = "j"\n';
		assert.equal(problem(`\`\`\`toml\n${SCHEMA_LINE}\n${whole}\`\`\``), undefined);
		assert.match(problem(`\`\`\`toml\n${whole}\`\`\``)!, /begin with #:schema/);
		assert.match(problem(`\`\`\`toml\n${SCHEMA_LINE}\nx = 1\n${whole}\`\`\``)!, /x: unknown key/);
		for (const part of [
			'tenant_rps = 5',
			'[jwt]\nreload = true',
			'[[issuers]]\nissuer = "https://a.test"\ndiscovery = true',
		]) {
			assert.equal(problem(`<!-- fragment -->\n\`\`\`toml\n${part}\n\`\`\``), undefined, part);
		}
		assert.match(
			problem('<!-- fragment -->\n```toml\n[limits]\nmax_conections = 1\n```')!,
			/did you mean max_connections/,
		);
		assert.match(problem('<!-- revoked by hand -->\n```toml\ntokens = 5\n```')!, /tokens: must be/);
	});

	it('takes commands that a test runs, and wants a reason for those that none does', () => {
		const run = (mark: string) => problem(`${mark}\n\`\`\`sh\nls\n\`\`\``);
		const here = 'test/unit/docs/pages.test.ts';
		const name = 'the rule about blocks of code';
		assert.match(run('')!, /no test runs it/);
		assert.match(run('<!-- anything -->')!, /no test runs it/);
		assert.match(run('<!-- run by test/nowhere.test.ts: it -->')!, /no such file/);
		assert.match(run(`<!-- run by ${here}: ${name} -->`)!, /has no blockNamed/);
		assert.equal(run(`<!-- checked by ${here}: ${name} -->`), undefined);
		assert.match(run(`<!-- checked by ${here}: ${name.toUpperCase()} -->`)!, /has no THE RULE/);
		assert.equal(run('<!-- not run: needs a cluster -->'), undefined);
		assert.match(run('<!-- not run: -->')!, /no test runs it/);
		assert.equal(problem('```sh\nproxy schema\n```'), undefined);
	});
});

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
		parseConfig(mark === 'fragment' ? completed(code) : code, page);
		return undefined;
	} catch (error) {
		return (error as Error).message;
	}
}

/** A part of a configuration, and the required keys of the tables that it leaves to the reader. */
function completed(code: string): string {
	const { tls, jwt, issuers } = parseToml(code, 'fragment').root as Record<string, Record<string, unknown> | undefined>;
	let text = code;
	if (jwt !== undefined && jwt.jwks_path === undefined) text = text.replace(/^\[jwt\].*$/m, '$&\njwks_path = "j"');
	if (tls !== undefined) {
		for (const key of ['cert_path', 'key_path', 'client_ca_path']) {
			if (tls[key] === undefined) text = text.replace(/^\[tls\].*$/m, `$&\n${key} = "f"`);
		}
	} else {
		text += '\n[tls]\ncert_path = "f"\nkey_path = "f"\nclient_ca_path = "f"\n';
	}
	return jwt === undefined && issuers === undefined ? `${text}\n[jwt]\njwks_path = "j"\n` : text;
}

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

/** The words behind `proxy` of each command line that a script calls it by. */
function proxyCommands(script: string): string[][] {
	return script
		.replaceAll('\\\n', ' ')
		.split('\n')
		.flatMap((line) => line.replace(/(?:^|\s)#.*$/, '').split(/&&|\|\||[|;&]/))
		.map((command) => /^\s*(?:\$ )?(?:npx )?proxy(?:\s+([^>]*))?(?:>.*)?$/.exec(command))
		.filter((match) => match !== null)
		.map(([, words = '']) => Array.from(words.matchAll(/"([^"]*)"|'([^']*)'|\S+/g), ([all, a, b]) => a ?? b ?? all));
}
