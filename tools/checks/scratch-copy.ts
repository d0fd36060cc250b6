import { cpSync, mkdtempSync, realpathSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';

/** By path from the folder of the repository. */
export const NOT_COPIED = /(?:^|\/)(?:node_modules|\.git|dist|dist-streaming|\.demo|coverage)$|\.tgz$/;

/** Does something with a copy of the package so that a build does not replace a dist/ that is in use. */
export async function inScratchCopy<Result>(root: string, work: (copy: string) => Promise<Result>): Promise<Result> {
	const copy = realpathSync(mkdtempSync(join(tmpdir(), 'package-')));
	try {
		cpSync(root, copy, { recursive: true, filter: (path) => !NOT_COPIED.test(relative(root, path)) });
		symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
		return await work(copy);
	} finally {
		rmSync(copy, { recursive: true });
	}
}
