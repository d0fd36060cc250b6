/** The explanations of gates compared with their decisions: the two never disagree. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Rejection } from '../../../../packages/gate/src/gates/rejection.ts';
import { Quotas } from '../../../../packages/gate/src/identity/quotas.ts';
import { fateOf, type Identifiers, namedByConnection } from '../../../../packages/proxy/src/gates/field-kinds.ts';
import { readHttp1Head } from '../../../../packages/proxy/src/gates/headers.ts';
import { cleanTarget, doubtIn } from '../../../../packages/proxy/src/gates/path.ts';
import { fitOf, PrefixTable } from '../../../../packages/proxy/src/gates/prefix-table.ts';

test('a doubt in a target is found exactly if the gate refuses it, with the same reason and position', () => {
	const piece = fc.constantFrom(
		'/',
		'a',
		'.',
		'..',
		'%2e',
		'%2F',
		'%5c',
		'\\',
		';',
		'%00',
		'%252e',
		'%zz',
		'#',
		'?',
		'ä',
		' ',
	);
	fc.assert(
		fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
			const target = pieces.join('');
			const said = cleanTarget(target);
			const doubt = doubtIn(target);
			assert.equal(doubt?.refusal, said instanceof Rejection ? said : undefined, target);
			if (doubt !== undefined) assert.equal(target.slice(doubt.at, doubt.at + doubt.part.length), doubt.part, target);
		}),
		{ numRuns: 2000 },
	);
});

test('the longest prefix that fits is taken', () => {
	const path = fc.array(fc.constantFrom('a', 'b', '/', '/'), { maxLength: 6 }).map((parts) => `/${parts.join('')}`);
	fc.assert(
		fc.property(fc.uniqueArray(path, { maxLength: 12 }), path, (prefixes, target) => {
			const taken = new PrefixTable(prefixes.map((prefix) => [prefix, prefix])).longest(target);
			const [longest] = prefixes
				.filter((prefix) => fitOf(prefix, target) === 'matches')
				.sort((a, b) => b.length - a.length);
			assert.equal(taken?.route, longest);
		}),
	);
});

test('a field is forwarded if it is said to be', () => {
	const names = [
		...[
			'X-A',
			'x_a',
			'X-Proxy-Tenant',
			'x_proxy_tenant',
			'Client.Cert',
			'Te',
			'upgrade',
			'Expect',
			'cookie',
			'Forwarded',
		],
		...['authorization', 'traceparent', 'x-request-id', 'tracestate', 'keep-alive', 'proxy-connection', 'accept'],
	];
	const field = fc.tuple(fc.constantFrom(...names, 'connection'), fc.constantFrom('1', 'x-a, cookie', 'authorization'));
	fc.assert(
		fc.property(
			fc.array(field, { maxLength: 8 }),
			fc.constantFrom<Identifiers>('none', 'trace', 'trace and request'),
			(fields, apart) => {
				const head = readHttp1Head(['host', 'x', ...fields.flat()], 1, apart);
				assert.ok(!(head instanceof Rejection));
				let named: Set<string> | undefined;
				for (const [name, value] of fields) if (name === 'connection') named = namedByConnection(value, named);
				for (const [name] of fields) {
					const isForwarded = hasLine(head.lines, name);
					assert.equal(fateOf(name, named, apart) === 'forwarded', isForwarded, `${name} in ${head.lines}`);
				}
			},
		),
	);
});

function hasLine(lines: string, name: string): boolean {
	return lines.split('\r\n').some((line) => line.toLowerCase().startsWith(`${name.toLowerCase()}: `));
}

test('a rate has the source that it is said to have', () => {
	const rate = { rps: 7, burst: 7 };
	const tenants = [
		{ name: 'rated', rate, concurrency: undefined },
		{ name: 'free', rate: null, concurrency: undefined },
		{ name: 'slots', rate: undefined, concurrency: 2 },
	];
	const slots = { limit: 2, taken: 0, tryClaim: () => true, release: () => {} };
	const quotas = new Quotas({ tenants }, 100, () => slots);
	const rps = { tenants: [7, undefined], claim: [3], default: [100] };
	for (const tenant of ['rated', 'free', 'slots', 'other']) {
		for (const claimed of [undefined, 3]) {
			const wanted: readonly (number | undefined)[] = rps[quotas.sourceOf(tenant, claimed)];
			assert.ok(wanted.includes(quotas.of(tenant, claimed).rate?.rps), `${tenant} ${claimed}`);
		}
	}
});
