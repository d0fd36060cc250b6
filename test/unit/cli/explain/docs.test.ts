/** The example of docs/how-to/explain.md, with its own configuration and claims, says what the page says. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { createAuthority, issue } from '../../../../packages/proxy/src/cli/demo/pki.ts';
import { createTokenKey, mintToken } from '../../../../packages/proxy/src/cli/demo/tokens.ts';
import { type ExplainOptions, runExplain } from '../../../../packages/proxy/src/cli/explain/run.ts';
import { temporaryFolder } from '../../../fixtures/pki.ts';

const page = readFileSync(join(import.meta.dirname, '../../../../docs/how-to/explain.md'), 'utf8');
const blocks = (language: string) =>
	[...page.matchAll(new RegExp(`^\`\`\`${language}\n([\\s\\S]*?)^\`\`\`$`, 'gm'))].map(([, text]) => text!);

const NOW = new Date('2026-11-22T10:00:00Z');
const VALID = { notBefore: new Date('2026-01-01T00:00:00Z'), notAfter: new Date('2036-01-01T00:00:00Z') };

test('the example of docs/how-to/explain.md shows what the command prints', async () => {
	process.chdir(temporaryFolder('explain-docs'));
	const ca = await createAuthority({ commonName: 'Clients', ...VALID });
	const server = await issue(ca, { commonName: 'edge', sans: ['localhost'], usages: 'server', ...VALID });
	const client = await issue(ca, { commonName: 'device-7', usages: 'client', ...VALID });
	const key = createTokenKey();
	const [claims] = blocks('json').map((text) => JSON.parse(text));
	for (const [name, text] of Object.entries({
		'config.toml': blocks('toml')[0]!,
		'server.crt': server.certPem,
		'server.key': server.keyPem,
		'clients.crt': ca.certPem,
		'client.crt': client.certPem,
		'jwt.pub': key.publicKeyPem,
		'token.jwt': mintToken(key, claims),
		'good.jwt': mintToken(key, { ...claims, aud: 'edge', scope: 'items:read' }),
	})) {
		writeFileSync(name, text);
	}
	const [refused, passes] = blocks('text');
	const base = { config: 'config.toml', method: 'GET', clientCert: 'client.crt' };
	const none = { headers: [], http2: false, offline: false, json: false };
	const first = await run({ ...base, ...none, path: '/api/items', tokenFile: 'token.jwt' });
	const second = await run({
		...base,
		...none,
		path: '/api/items?page=2',
		tokenFile: 'good.jwt',
		headers: ['Cookie: session=1', 'X-Real-IP: 203.0.113.9'],
		peer: '192.0.2.7',
	});
	if (process.env.PRINT_EXAMPLE) console.log(`${first.text}=====\n${second.text}`);
	assert.deepEqual([first.code, second.code], [1, 0]);
	assert.equal(first.text, refused);
	assert.equal(second.text, passes);
	for (const line of `${first.text}${second.text}`.split('\n')) assert.ok(line.length <= 80, line);
});

test('explain ends with 3 for a configuration with mistakes, and with 2 for a token file that cannot be read', async () => {
	const faulty = join(temporaryFolder('explain-faulty'), 'config.toml');
	writeFileSync(faulty, 'tenant_rps = { average = 100 }\n');
	const none = { config: faulty, method: 'GET', path: '/', headers: [], http2: false, offline: true, json: false };
	const { code, text } = await run(none);
	assert.equal(code, 3);
	assert.match(text, /config\.toml:1: tenant_rps: must be a whole number/);
	assert.equal((await run({ ...none, tokenFile: '/nowhere/token' })).code, 2);
});

async function run(options: ExplainOptions): Promise<{ code: number; text: string }> {
	let text = '';
	const print = (more: string) => {
		text += more;
	};
	const code = await runExplain(options, { print, complain: print, color: false, now: () => NOW });
	return { code, text: text.replace(/serial [0-9A-F]+/, 'serial 5A73') };
}
