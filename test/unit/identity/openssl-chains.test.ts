import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { caId, factsOf } from '../../../packages/gate/src/identity/certificate-facts.ts';
import { NOTHING_REVOKED, RevokedCertificates } from '../../../packages/gate/src/identity/revocations.ts';
import type { Authority } from '../../../packages/proxy/src/cli/demo/pki.ts';
import { ChainRevocation, type CrlSeed } from '../../../packages/proxy/src/identity/client-chain.ts';
import { crlPem, issueCrl, serialMemory } from '../../fixtures/crl.ts';
import { temporaryFolder } from '../../fixtures/pki.ts';
import {
	type CertificateOptions,
	certify,
	type Keys,
	newKeys,
	presenting,
} from '../../fixtures/second-certificates.ts';

/** What is revoked for `openssl verify` has to be revoked for us, whatever else clients send. */

/** Second certificates of a CA's key. Some of them admit no client. */
const SECOND: Record<string, CertificateOptions> = {
	plain: {},
	'another one': { to: 24 * 30 },
	expired: { to: -1 },
	'not yet valid': { from: 1 },
	'for servers': { usage: 'server' },
	'for clients': { usage: 'client' },
	'for other names': { permittedDns: 'elsewhere.example' },
	'no path left': { pathLength: 0 },
	'may not issue': { mayIssue: false },
	'no CA': { isCa: false },
	'without key identifier': { issuerKey: false },
	'another encoding of its key': { compressedKey: true },
};
const KINDS = Object.keys(SECOND);

interface World {
	readonly roots: readonly Authority[];
	readonly uppers: readonly Authority[];
	readonly lowers: readonly Authority[];
	readonly leaves: readonly Authority[];
	/** For each kind of CA the certificates that it has issued. */
	readonly issued: readonly (readonly [issuer: Authority, certificates: readonly Authority[]])[];
}

const dir = temporaryFolder('openssl-chains');
let world: World;
before(async () => {
	world = await createWorld();
});

/** Two roots that have both certified the upper CA, which has certified the lower one, which has issued leaves. */
async function createWorld(): Promise<World> {
	const [root, other, upper, lower, leaf] = (await Promise.all(Array.from({ length: 5 }, newKeys))) as [
		Keys,
		Keys,
		Keys,
		Keys,
		Keys,
	];
	const roots = [await certify(undefined, 'Root', root), await certify(undefined, 'Other root', other)];
	const all = (issuer: Authority, name: string, keys: Keys) =>
		Promise.all(KINDS.map((kind) => certify(issuer, name, keys, SECOND[kind])));
	const uppers = [await all(roots[0]!, 'Upper', upper), await all(roots[1]!, 'Upper', upper)];
	const lowers = await all(uppers[0]![0]!, 'Lower', lower);
	const belowUpper = await certify(uppers[0]![0]!, 'client', leaf, { isCa: false, usage: 'client' });
	const belowLower = await certify(lowers[0]!, 'client', leaf, { isCa: false, usage: 'client' });
	return {
		roots,
		uppers: uppers.flat(),
		lowers,
		leaves: [belowUpper, belowLower],
		issued: [
			[roots[0]!, uppers[0]!],
			[roots[1]!, uppers[1]!],
			[uppers[0]![0]!, [...lowers, belowUpper]],
			[lowers[0]!, [belowLower]],
		],
	};
}

interface Case {
	readonly leaf: Authority;
	readonly presented: readonly Authority[];
	readonly bundle: readonly Authority[];
	readonly revoked: readonly Authority[];
}

/** @param random numbers from 0 to 1. */
function randomCase(random: () => number): Case {
	const { roots, uppers, lowers, leaves } = world;
	const some = <One>(list: readonly One[], most: number) =>
		list.length === 0
			? []
			: Array.from({ length: Math.floor(random() * (most + 1)) }, () => list[Math.floor(random() * list.length)]!);
	const first = [lowers[0]!, uppers[0]!].filter(() => random() < 0.7);
	const presented = [...first, ...some(lowers, 2), ...some(uppers, 2), ...some(roots, 1)].toSorted(
		() => random() - 0.5,
	);
	const bundle = [...new Set([...some(roots, 2), ...(random() < 0.2 ? some([...uppers, ...lowers], 2) : [])])];
	return {
		leaf: leaves[Math.floor(random() * leaves.length)]!,
		presented: [...new Set(presented)],
		bundle: bundle.length === 0 ? [roots[0]!] : bundle,
		revoked: some([...presented, ...leaves.slice(random() < 0.1 ? 0 : 2)], 2),
	};
}

const der = ({ certPem }: Authority) => new X509Certificate(certPem);
const serialOf = (authority: Authority) => factsOf(der(authority)).serial;
const text = (list: readonly { readonly certPem: string }[]) => list.map(({ certPem }) => certPem).join('');

const CRLS = new Map<string, string>();

async function openssl({ leaf, presented, bundle, revoked }: Case): Promise<'good' | 'revoked' | 'refused'> {
	const file = (name: string, content: string) => {
		writeFileSync(join(dir, name), content);
		return [`-${name}`, join(dir, name)];
	};
	const crls = await Promise.all(
		world.issued.map(async ([issuer, certificates]) => {
			const serials = certificates.filter((one) => revoked.includes(one)).map(serialOf);
			const key = `${caId(der(issuer))} ${serials}`;
			const known = CRLS.get(key) ?? crlPem(await issueCrl(issuer, { serials }));
			CRLS.set(key, known);
			return known;
		}),
	);
	writeFileSync(join(dir, 'leaf'), leaf.certPem);
	const verify = (...more: string[]) => {
		const words = ['verify', '-partial_chain', '-purpose', 'sslclient', ...file('CAfile', text(bundle)), ...more];
		const { status, stderr } = spawnSync('openssl', [...words, join(dir, 'leaf')], { encoding: 'utf8' });
		return { isGood: status === 0, stderr };
	};
	const untrusted = presented.length === 0 ? [] : file('untrusted', text(presented));
	if (!verify(...untrusted).isGood) return 'refused';
	return verify(...untrusted, '-crl_check_all', ...file('CRLfile', crls.join(''))).stderr.includes('revoked')
		? 'revoked'
		: 'good';
}

function ours({ leaf, presented, bundle, revoked }: Case): string {
	const crls = world.issued.map(
		([issuer, certificates]): CrlSeed => ({
			caId: caId(der(issuer)),
			issuer: '',
			thisUpdate: 0,
			nextUpdate: Number.POSITIVE_INFINITY,
			covers: 'all',
			serials: serialMemory(certificates.filter((one) => revoked.includes(one)).map(serialOf)),
		}),
	);
	const seconds = Date.now() / 1000;
	const revocation = new ChainRevocation(crls, false, new RevokedCertificates(NOTHING_REVOKED));
	const certificate = presenting([leaf, ...presented].map(({ certPem }) => certPem));
	return revocation.judge(certificate, { bundle: { cas: bundle.map(der) }, seconds }, seconds) ?? 'good';
}

/** Park and Miller's, so that a failure can be seen again. */
function numbers(seed: number): () => number {
	let state = seed;
	return () => {
		state = (state * 48_271) % 2_147_483_647;
		return state / 2_147_483_647;
	};
}

describe('a chain that openssl verify accepts', () => {
	test('is refused if -crl_check_all says revoked, and for no other fault', async () => {
		const random = numbers(18);
		const seen: Record<string, number> = {};
		for (let i = 0; i < CASES; ) {
			const one = randomCase(random);
			const theirs = await openssl(one);
			if (theirs === 'refused') continue;
			i++;
			const verdict = ours(one);
			seen[`${theirs} ${verdict}`] = (seen[`${theirs} ${verdict}`] ?? 0) + 1;
			if (theirs === 'revoked' || one.revoked.length === 0) assert.equal(verdict, theirs, described(one));
			else assert.ok(verdict === 'good' || verdict === 'revoked', `${verdict}: ${described(one)}`);
		}
		assert.ok(seen['revoked revoked']! > CASES / 10 && seen['good good']! > CASES / 4, JSON.stringify(seen));
	});
});

/** Each starts openssl two or three times. */
const CASES = 40;

function described({ leaf, presented, bundle, revoked }: Case): string {
	const cas = [...world.uppers, ...world.lowers];
	const name = (one: Authority) =>
		`${one.certificate.subject} (${KINDS[cas.indexOf(one) % KINDS.length] ?? serialOf(one)})`;
	const names = { presented: presented.map(name), bundle: bundle.map(name), revoked: revoked.map(name) };
	return JSON.stringify({ leaf: leaf.certificate.issuer, ...names });
}
