import assert from 'node:assert/strict';
import type { Config } from '../../../packages/proxy/src/config/config.ts';
import { ConfigError } from '../../../packages/proxy/src/config/error.ts';
import { parseConfig } from '../../../packages/proxy/src/config/load.ts';
import { MINIMAL } from './minimal.ts';

/** A configuration whose only optional table is this one. */
export function tableOf(name: string) {
	const parse = (lines: string): Config => parseConfig(`${MINIMAL}\n[${name}]\n${lines}\n`, 'config.toml');
	/** What is wrong with these lines; fails where nothing is. */
	const problemOf = (lines: string): string => {
		try {
			parse(lines);
		} catch (error) {
			assert.ok(error instanceof ConfigError);
			return error.message;
		}
		throw new Error('accepted');
	};
	return { parse, problemOf };
}
