import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { MINIMAL } from './minimal.ts';
import { errorIn } from './parse.ts';

function messages(...routes: [prefix: string, keys?: string][]): string[] {
	const tables = routes.map(
		([prefix, keys = '']) => `[[routes]]\nprefix = "${prefix}"\nupstream = "http://a:1"\n${keys}\n`,
	);
	return errorIn(`${MINIMAL}${tables.join('')}`)?.message.split('\n') ?? [];
}

describe('the prefixes of routes', () => {
	it('are refused if two are the same path by another reading, with both lines and the remedy', () => {
		assert.deepEqual(messages(['/admin'], ['/%61dmin']), [
			'config.toml:13: routes[1].prefix: "/%61dmin" and "/admin", the prefix of routes[0] on line 9, are the same path ' +
				'"/admin" to some upstreams, so every request for it would be refused; remove one of the two, or write both ' +
				'without escapes, path parameters and empty segments, and in the same letter case',
		]);
		for (const [one, two] of [
			['/a', '/a;v=1'],
			['/a/b', '/a//b'],
			['/a%2fb', '/a/b'],
			['/', '/;v=1'],
		] as const) {
			assert.match(messages([one], [two]).join(), /are the same path/, `${one} ${two}`);
			assert.match(messages([two], [one]).join(), /are the same path/, `${two} ${one}`);
		}
	});

	it('are refused if two differ only in letter case and one of them ignores it', () => {
		const ignores = 'case_insensitive = true';
		assert.match(messages(['/Admin'], ['/admin', ignores]).join(), /"\/Admin" and "\/admin".*are the same path/);
		assert.match(messages(['/Admin', ignores], ['/admin', ignores]).join(), /are the same path/);
		assert.deepEqual(messages(['/Admin'], ['/admin']), []);
	});

	it('may differ by a final slash, or by an escape that no other prefix decodes', () => {
		assert.deepEqual(messages(['/a'], ['/a/'], ['/%7Euser'], ['/s%20p'], ['/a;v=1/b']), []);
	});
});
