import assert from 'node:assert/strict';
import type { Config } from '../../../packages/proxy/src/config/config.ts';
import { MINIMAL } from './minimal.ts';
import { errorIn, parseConfig } from './parse.ts';

/** A configuration whose only optional table is this one. */
export function tableOf(name: string) {
	const textOf = (lines: string) => `${MINIMAL}\n[${name}]\n${lines}\n`;
	const parse = (lines: string): Config => parseConfig(textOf(lines));
	/** What is wrong with these lines; fails where nothing is. */
	const problemOf = (lines: string): string => errorIn(textOf(lines))?.message ?? assert.fail('accepted');
	return { parse, problemOf };
}
