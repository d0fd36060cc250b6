/**
 * The cost of the embedded gate for a token that it has verified before, compared with the libraries that one would otherwise
 * combine: `jose` and `fast-jwt` (with its cache) for the token, `rate-limiter-flexible` for the limit.
 *
 *   node bench/gate.ts
 *
 * All run in turn, in many short rounds of one process, so that a slow moment of the machine affects all of them. The unit is CPU
 * time of all threads, which other processes on the machine do not change; the table has medians. Exit code 1 if `check` takes
 * longer than its limit.
 */
import { createPublicKey, generateKeyPairSync } from 'node:crypto';
import { createVerifier } from 'fast-jwt';
import { jwtVerify, SignJWT } from 'jose';
import { RateLimiterMemory } from 'rate-limiter-flexible';
import { createGate } from '../packages/gate/src/embed/gate.ts';

/** Limit for `check` on a known token, ns. */
const ALLOWED_NS = 1500;
const TENANTS = 1000;
const ROUNDS = 25;
const ROUND_MS = 20;
/** So high that no request is refused: a refusal would cost less. */
const RPS = 1_000_000;
const ISSUER = 'https://issuer.test';
const AUDIENCE = 'edge';

interface Contender {
	readonly name: string;
	/** Handles `n` requests, the i-th with `tokens[i]`. */
	run(tokens: readonly string[]): unknown;
	/** CPU time per request, ns; one figure per round. */
	readonly figures: number[];
}

async function main(): Promise<void> {
	const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
	const pem = publicKey.export({ type: 'spki', format: 'pem' }) as string;
	const tokens = await Promise.all(Array.from({ length: TENANTS }, (_, i) => mint(privateKey, `tenant-${i}`)));
	const contenders = createContenders(pem);
	for (const contender of contenders) await contender.run(tokens);

	for (let round = 0; round < ROUNDS; round++) {
		for (const contender of contenders) contender.figures.push(await measure(contender, tokens));
	}

	const [check] = contenders.map(({ figures }) => median(figures)) as [number];
	console.log(`Node ${process.versions.node}, ${TENANTS} tenants, medians of ${ROUNDS} rounds\n`);
	console.log(`${'a request with a token seen before'.padEnd(58)} ${'µs'.padStart(8)}  ratio`);
	for (const { name, figures } of contenders) {
		const ns = median(figures);
		console.log(`${name.padEnd(58)} ${(ns / 1000).toFixed(2).padStart(8)} ${(ns / check).toFixed(1).padStart(6)}`);
	}
	console.log(`\ncheck takes ${(check / 1000).toFixed(2)} µs and may take ${ALLOWED_NS / 1000} µs`);
	if (check > ALLOWED_NS) process.exitCode = 1;
}

/** The gate comes first: the others are compared with it. */
function createContenders(pem: string): Contender[] {
	const options = { jwtPublicKey: pem, issuer: ISSUER, audience: AUDIENCE };
	const limited = createGate({ ...options, tenantRps: RPS });
	const unlimited = createGate({ ...options, tenantRps: 0 });
	const key = createPublicKey(pem);
	const fastJwt = createVerifier({
		key: pem,
		algorithms: ['RS256'],
		allowedIss: ISSUER,
		allowedAud: AUDIENCE,
		clockTolerance: 60_000,
		cache: 10_000,
		cacheTTL: 300_000,
	});
	const limiter = new RateLimiterMemory({ points: RPS, duration: 1 });
	const jose = (token: string) =>
		jwtVerify(token, key, { algorithms: ['RS256'], issuer: ISSUER, audience: AUDIENCE, clockTolerance: 60 });

	return [
		contender('check: token and limit', (token) => demand(limited.check(`Bearer ${token}`).ok)),
		contender('check without a limit', (token) => demand(unlimited.check(`Bearer ${token}`).ok)),
		contender('fast-jwt with its cache: token', (token) => demand(fastJwt(token).sub)),
		contenderAsync('rate-limiter-flexible in memory: limit', async (token) => limiter.consume(token)),
		contenderAsync('fast-jwt with its cache + rate-limiter-flexible: both', async (token) => {
			await limiter.consume(fastJwt(token).sub);
		}),
		contenderAsync('jose jwtVerify: token (it has no cache)', async (token) => demand((await jose(token)).payload.sub)),
	];
}

function contender(name: string, one: (token: string) => void): Contender {
	const run = (tokens: readonly string[]) => {
		for (const token of tokens) one(token);
	};
	return { name, run, figures: [] };
}

function contenderAsync(name: string, one: (token: string) => Promise<unknown>): Contender {
	const run = async (tokens: readonly string[]) => {
		for (const token of tokens) await one(token);
	};
	return { name, run, figures: [] };
}

/** @returns CPU time per request, ns, over about `ROUND_MS`. */
async function measure({ run }: Contender, tokens: readonly string[]): Promise<number> {
	let micros = 0;
	let requests = 0;
	while (micros < ROUND_MS * 1000) {
		// New strings, as a parser makes them: a string that was looked up before remembers its hash.
		const fresh = tokens.map((token) => Buffer.from(token, 'latin1').toString('latin1'));
		const before = process.cpuUsage();
		await run(fresh);
		const { user, system } = process.cpuUsage(before);
		micros += user + system;
		requests += fresh.length;
	}
	return (micros * 1000) / requests;
}

function mint(privateKey: Parameters<SignJWT['sign']>[0], sub: string): Promise<string> {
	return new SignJWT({ scope: 'orders:read orders:write' })
		.setProtectedHeader({ alg: 'RS256', typ: 'JWT', kid: 'key-1' })
		.setIssuer(ISSUER)
		.setAudience(AUDIENCE)
		.setSubject(sub)
		.setExpirationTime('1h')
		.sign(privateKey);
}

function demand(value: unknown): void {
	if (!value) throw new Error('a contender refused a good request');
}

function median(figures: readonly number[]): number {
	return figures.toSorted((a, b) => a - b)[figures.length >> 1]!;
}

await main();
