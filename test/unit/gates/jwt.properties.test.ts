/** What we accept, jose accepts and reads alike; what jose accepts and we refuse, we refuse for a reason that can be named. */
import assert from 'node:assert/strict';
import { sign } from 'node:crypto';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { readPublicKey } from '../../../packages/gate/src/gates/public-key.ts';
import { Rejection } from '../../../packages/gate/src/gates/rejection.ts';
import { createTokenKey } from '../../../packages/proxy/src/cli/demo/tokens.ts';
import { verifyByJose, verifyToken } from '../../fixtures/token-policy.ts';

const NOW = 1_800_000_000;
const ISSUER = 'https://issuer.test';
const AUDIENCE = 'edge';
const key = createTokenKey();
const publicKey = readPublicKey(key.publicKeyPem);
const policy = { publicKey, issuer: ISSUER, audience: AUDIENCE };

const HEADER = '{"alg":"RS256","typ":"JWT"}';
const PAYLOAD = `{"sub":"tenant","iss":"${ISSUER}","aud":["${AUDIENCE}","b"],"exp":${NOW + 9},"nbf":${NOW},"x":{"y":[1,{"z":"\\u00e4"}]}}`;

/** Where to cut, what to leave out, what to put there. */
const edit = fc.record({
	at: fc.nat(200),
	remove: fc.nat(3),
	insert: fc.oneof(
		fc.string({ unit: fc.constantFrom(...'"{}[]:,\\ \n019eE+-. tsubexp'), maxLength: 3 }),
		fc.constantFrom(
			'',
			'"sub":"x",',
			'"crit":["x"],',
			'"crit":[],',
			'"b64":true,',
			'"exp":9e9,',
			'"aud":"edge",',
			'"nbf":1,',
		),
		fc.constantFrom(
			'\ufeff',
			'\u2028',
			'\\u0061',
			'\u00e4',
			'\0',
			'1e400',
			'null',
			'"x":1,"x":2,',
			'"\\u0073ub":"x",',
			'  ',
		),
	),
});
const edits = (most: number) => fc.array(edit, { maxLength: most });
type Edit = { at: number; remove: number; insert: string };

const apply = (text: string, changes: readonly Edit[]) =>
	changes.reduce((all, { at, remove, insert }) => {
		const place = at % (all.length + 1);
		return all.slice(0, place) + insert + all.slice(place + remove);
	}, text);

describe('a token whose header and payload are nearly JSON', () => {
	it('is read as jose reads it, or refused for a reason that the model names', async () => {
		const reasons = new Map<string, number>();
		let both = 0;
		await fc.assert(
			fc.asyncProperty(
				edits(2),
				edits(2),
				edits(1),
				edits(1),
				async (header, payload, spelledHeader, spelledPayload) => {
					const texts = [apply(HEADER, header), apply(PAYLOAD, payload)] as const;
					// The segments' spelling may be odd as well; whatever they are, the signature is right.
					const segments = [
						apply(
							Buffer.from(texts[0]).toString('base64url'),
							spelledHeader.filter(({ insert }) => insert.length === 1),
						),
						apply(
							Buffer.from(texts[1]).toString('base64url'),
							spelledPayload.filter(({ insert }) => insert.length === 1),
						),
					].join('.');
					const token = `${segments}.${sign('sha256', Buffer.from(segments, 'latin1'), key.privateKey).toString('base64url')}`;
					const verdict = verifyToken(token, policy, NOW);
					const oracle = await verifyByJose(token, policy, NOW);
					if (!(verdict instanceof Rejection)) {
						both++;
						assert.deepEqual(verdict.payload, oracle, `only we accept, or read differently, ${token}`);
						return;
					}
					if (oracle === undefined) return;
					const reason = whyNot(token);
					assert.ok(reason !== undefined, `refused without a reason: ${texts.join('.')}`);
					reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
				},
			),
			// The first two are refused for a reason in any case; what follows may not hit upon two.
			{
				numRuns: 2500,
				examples: [
					[[{ at: 0, remove: 0, insert: '\ufeff' }], [], [], []],
					[[], [{ at: PAYLOAD.indexOf('"x":'), remove: 0, insert: '"x":1,"x":2,' }], [], []],
				],
			},
		);
		assert.ok(both > 20, `the generator is too wild: ${both} accepted`);
		assert.ok(reasons.size > 1, `the generator is too tame: ${[...reasons.keys()].join()}`);
	});
});

/** Our rules for tokens, where they are stricter than the RFCs or than jose. */
function whyNot(token: string): string | undefined {
	const [header = '', payload = ''] = token.split('.');
	for (const segment of [header, payload]) {
		if (!/^[A-Za-z0-9_-]*$/.test(segment)) return 'a character beyond the alphabet';
		const bytes = Buffer.from(segment, 'base64url');
		if (bytes.toString('base64url') !== segment) return 'a spelling that is not the canonical one';
		if (bytes.toString('utf8').startsWith('\ufeff')) return 'a byte order mark';
		if (!Buffer.from(bytes.toString('utf8')).equals(bytes)) return 'bytes that are no UTF-8';
		if (hasNameTwice(bytes.toString('utf8'))) return 'a name twice';
	}
	const head = JSON.parse(Buffer.from(header, 'base64url').toString());
	if ('crit' in head || head.b64 === false) return 'crit, or an unencoded payload';
	const types = ['jwt', 'at+jwt', 'application/jwt', 'application/at+jwt'];
	if (head.typ !== undefined && !types.includes(String(head.typ).toLowerCase())) return 'a type that is not ours';
	if (typeof head.typ === 'object') return 'a type that is no string';
	if (header.length > 1024) return 'a header beyond 1 KiB';
	const { sub, exp, nbf, aud } = JSON.parse(Buffer.from(payload, 'base64url').toString());
	if (typeof sub !== 'string' || !/^[!-~]([ -~]*[!-~])?$/.test(sub) || sub.length > 256)
		return 'a sub that is no identity';
	if (!Number.isFinite(exp) || (nbf !== undefined && !Number.isFinite(nbf))) return 'a time that is no finite number';
	if (nbf < 0) return 'a time before 1970';
	if (Array.isArray(aud) && aud.some((one) => typeof one !== 'string')) return 'an audience that is no string';
	return undefined;
}

/** By writing the object again and counting: what came twice is written once. */
function hasNameTwice(text: string): boolean {
	const names = (json: string) => json.match(/"(?:[^"\\]|\\.)*"\s*:/g)?.length ?? 0;
	return names(text) !== names(JSON.stringify(JSON.parse(text)));
}
