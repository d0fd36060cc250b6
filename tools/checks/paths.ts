/**
 * Proves that every source file or page that a Markdown page or a comment names exists. A name may be the end of a path: `data/memo/`,
 * `plane.ts`.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { basename, extname, join, resolve } from 'node:path';
import { finish } from './finish.ts';

/** Names that examples make up. */
const EXAMPLES: ReadonlySet<string> = new Set([
	'opening-hours.ts',
	'opening-hours.test.ts',
	'NAME.ts',
	'x.ts',
	'x.d.ts',
]);

/** The comment on a line, by the extension of its file; all of a page is prose. */
const PROSE: Readonly<Record<string, RegExp>> = {
	'.md': /^(.*)$/,
	'.ts': /^\s*(?:\/?\*+|\/\/)(.*)$|[;,{})\]]\s+\/\/ (.*)$/,
	'.mjs': /^\s*(?:\/?\*+|\/\/)(.*)$|[;,{})\]]\s+\/\/ (.*)$/,
	'.py': /^\s*#(.*)$|\s# (.*)$/,
};

/** A source file or a page, with its folders or in backticks; or in backticks a folder within another one, with a slash at its end. */
const NAMED =
	/`((?:[\w.-]+\/)*[\w-][\w.-]*\.(?:ts|mjs|py|md))`|(?<![\w./:@<-])((?:[\w.-]+\/)+[\w-][\w.-]*\.(?:ts|mjs|py|md))(?![\w/])|`((?:[\w-]+\/){2,})`/g;

/** The paths that a text names, each with its line. */
function pathsIn(file: string, text: string): { readonly path: string; readonly line: number }[] {
	const prose = PROSE[extname(file)];
	if (prose === undefined) return [];
	return text.split('\n').flatMap((content, i) => {
		const [, whole, trailing] = prose.exec(content) ?? [];
		return [...(whole ?? trailing ?? '').matchAll(NAMED)].map(([, quoted, plain, folder]) => ({
			path: (quoted ?? plain ?? folder)!,
			line: i + 1,
		}));
	});
}

/** All files and folders, by each end of their paths. Folders end with a slash. */
export function endsOf(files: readonly string[]): ReadonlySet<string> {
	const ends = new Set<string>();
	for (const file of files) {
		const parts = file.split('/');
		for (let to = parts.length; to > 0; to--) {
			const end = to === parts.length ? '' : '/';
			for (let from = 0; from < to; from++) ends.add(parts.slice(from, to).join('/') + end);
		}
	}
	return ends;
}

/** @returns `file:line: what is wrong` for each path that nothing ends with. */
export function brokenPaths(file: string, text: string, ends: ReadonlySet<string>): string[] {
	return pathsIn(file, text)
		.filter(({ path }) => !ends.has(path.replace(/^(?:\.\.?\/)+/, '')) && !EXAMPLES.has(basename(path)))
		.map(({ path, line }) => `${file}:${line}: ${path} does not exist`);
}

function check(root: string): { files: number; breaches: string[] } {
	const listing = execFileSync(
		'git',
		['-c', 'safe.directory=*', 'ls-files', '-z', '--cached', '--others', '--exclude-standard', '--deduplicate'],
		{ cwd: root, encoding: 'utf8' },
	);
	const deleted = execFileSync('git', ['-c', 'safe.directory=*', 'ls-files', '-z', '--deleted'], {
		cwd: root,
		encoding: 'utf8',
	});
	const gone = new Set(deleted.split('\0'));
	const files = listing.split('\0').filter((file) => file !== '' && !gone.has(file));
	const ends = endsOf(files);
	const read = files.filter((file) => extname(file) in PROSE);
	const breaches = read.flatMap((file) => brokenPaths(file, readFileSync(join(root, file), 'utf8'), ends));
	return { files: read.length, breaches };
}

if (import.meta.main) {
	const { files, breaches } = check(resolve(import.meta.dirname, '../..'));
	finish('paths', `every path that ${files} pages and sources name exists`, breaches);
}
