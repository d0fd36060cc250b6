/**
 * Shared by the fuzzers of both fronts: the real command before a strict upstream that records requests, separate tenants for each input,
 * and bystanders that must not notice anything.
 */
import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { type Connection, connect, PROTOCOLS } from '../fixtures/clients.ts';
import { headerValues } from '../fixtures/http1-message.ts';
import { testPki } from '../fixtures/pki.ts';
import { type BodyMode, type ProxyProcess, startProxy } from '../fixtures/proxy.ts';
import { type RecordedRequest, type Script, startUpstream, type Upstream } from '../fixtures/upstream.ts';
import { type Field, folded, forwardedByTheContract, isNoTrailer, trailersBeyond } from '../models/header-contract.ts';
import { mayPass, type SentRequest, tokenOf } from './request-reading.ts';
import { MAX_BODY } from './requests.ts';

const PREFIXES = ['/fuzz', '/victim'];
/** Statuses that the proxy may send: the upstream is healthy, so any other status is a fault. */
const STATUSES = [200, 400, 401, 404, 405, 413, 431, 501];
/** Pairs of tenants. A pair is reused only when nothing of its last input can be in flight. */
const PAIRS = 256;

/** The two tenants of one input. */
export interface Pair {
	readonly tenants: readonly [a: string, b: string];
	readonly tokens: readonly [a: string, b: string];
}

export class InboundStage {
	readonly mode: BodyMode;
	readonly proxy: ProxyProcess;
	readonly #upstream: Upstream;
	readonly #pairs: Pair[] = [];
	readonly #mint: (sub: string) => string;
	readonly #seen = new Map<string, RecordedRequest[]>();
	#next = 0;
	#victims: Connection[] = [];
	#victimRequests = 0;

	private constructor(mode: BodyMode, proxy: ProxyProcess, upstream: Upstream, mint: (sub: string) => string) {
		this.mode = mode;
		this.proxy = proxy;
		this.#upstream = upstream;
		this.#mint = mint;
	}

	static async start(mode: BodyMode): Promise<InboundStage> {
		const upstream = await startUpstream({ script: ECHO });
		const proxy = await startProxy({
			boxedBody: mode === 'streaming',
			routes: PREFIXES.map((prefix) => ({ prefix, upstream: upstream.url })),
			config: { tenant_rps: 0, health_interval_secs: 3600 },
			limits: { max_request_body_bytes: MAX_BODY },
		});
		const pki = await testPki();
		const stage = new InboundStage(mode, proxy, upstream, (sub) => pki.token(sub));
		stage.#victims = await Promise.all(PROTOCOLS.map((protocol) => connect(protocol, proxy)));
		return stage;
	}

	/** The pair of tenants for the next input. */
	pair(): Pair {
		const number = this.#next++ % PAIRS;
		let pair = this.#pairs[number];
		if (pair === undefined) {
			const tenants = ['a', 'b'].map((half) => `fuzz-${String(number).padStart(3, '0')}-${half}`) as [string, string];
			pair = { tenants, tokens: tenants.map(this.#mint) as [string, string] };
			this.#pairs[number] = pair;
		}
		for (const tenant of pair.tenants) this.#seen.delete(tenant);
		return pair;
	}

	/**
	 * Compares what the upstream received from `pair` with what its client sent.
	 *
	 * @param sent in the order of the connection, or of the streams.
	 * @param inOrder whether requests must arrive in that order.
	 * @returns what is wrong.
	 */
	wrongAtTheUpstream(pair: Pair, sent: readonly SentRequest[], inOrder: boolean): string | undefined {
		this.#sortSeen();
		const came = pair.tenants.flatMap((tenant) =>
			(this.#seen.get(tenant) ?? []).map((request) => ({ tenant, request })),
		);
		came.sort((a, b) => this.#arrival(a.request) - this.#arrival(b.request));
		const left = [...sent];
		for (const { tenant, request } of came) {
			const at = left.findIndex((candidate) => this.#isForwarded(request, candidate, pair, tenant));
			if (at === -1) {
				return `the upstream saw what was not sent, as ${tenant}: ${JSON.stringify(request.raw)} ${request.state}, body ${JSON.stringify(request.body.toString('latin1'))}; sent was ${JSON.stringify(left)}`;
			}
			left.splice(inOrder ? 0 : at, inOrder ? at + 1 : 1);
		}
		return undefined;
	}

	/** Throws a fault of the proxy, the upstream or the bystanders. */
	async check(): Promise<void> {
		for (const victim of this.#victims) {
			const path = `/victim/${++this.#victimRequests}`;
			const { status, text } = await victim.request({ path, token: this.#victimToken, ms: PATIENCE_MS });
			const wanted = `200 ${echo('victim', 'GET', path, '')}`;
			if (`${status} ${text}` !== wanted) throw new Error(`a bystander on ${victim.protocol} got ${status} ${text}`);
		}
		this.#sortSeen();
		const { logs, strayLines, stderr } = this.proxy;
		const errors = logs.filter(({ level }) => level.toLowerCase() === 'error').map((line) => JSON.stringify(line));
		const complaints = [...errors, ...strayLines, ...(stderr === '' ? [] : [stderr])];
		if (complaints.length > 0) throw new Error(`the proxy complains: ${complaints.join('\n')}`);
		if (this.#upstream.malformed.length > 0) {
			throw new Error(`the upstream got what is no HTTP/1.1: ${this.#upstream.malformed.join('; ')}`);
		}
	}

	async close(): Promise<void> {
		for (const victim of this.#victims) await victim.close();
		await this.proxy.kill();
		await this.#upstream.stop();
	}

	get #victimToken(): string {
		this.#minted ??= this.#mint('victim');
		return this.#minted;
	}
	#minted: string | undefined;

	/** Assigns the upstream's records to their tenants and forgets old ones, so that a long run needs little memory. */
	#sortSeen(): void {
		const { requests, connections } = this.#upstream;
		for (const request of requests.splice(0)) {
			const tenants = request.headers.filter(([name]) => folded(name) === 'x-proxy-tenant');
			const tenant = tenants[0]?.[1] ?? '';
			if (tenants.length !== 1 || !/^(victim|fuzz-\d{3}-[ab])$/.test(tenant)) {
				throw new Error(`a request of nobody: ${JSON.stringify(request.raw)}`);
			}
			if (tenant === 'victim') {
				const wanted = `GET /victim/${/\d+$/.exec(request.target)?.[0]} HTTP/1.1`;
				if (request.startLine !== wanted || Number(request.target.slice(8)) > this.#victimRequests) {
					throw new Error(`somebody speaks for the bystander: ${JSON.stringify(request.raw)}`);
				}
				continue;
			}
			this.#arrivals.set(request, ++this.#arrived);
			const seen = this.#seen.get(tenant);
			if (seen === undefined) this.#seen.set(tenant, [request]);
			else seen.push(request);
		}
		const open = connections.filter(({ socket }) => !socket.destroyed);
		connections.splice(0, connections.length, ...open);
	}
	readonly #arrivals = new WeakMap<RecordedRequest, number>();
	#arrived = 0;

	#arrival(request: RecordedRequest): number {
		return this.#arrivals.get(request)!;
	}

	/** Whether the record is the sent request as the proxy must forward it. */
	#isForwarded(came: RecordedRequest, sent: SentRequest, { tenants, tokens }: Pair, tenant: string): boolean {
		if (tokenOf(sent) !== tokens[tenants.indexOf(tenant)]) return false;
		if (!mayPass(sent, PREFIXES, MAX_BODY) || came.startLine !== `${sent.method} ${sent.target} HTTP/1.1`) return false;
		const body = came.body.toString('latin1');
		const hasAll = sent.isComplete && body === sent.body;
		const hasPart = this.mode === 'streaming' && sent.body.startsWith(body);
		if (came.state === 'complete' ? !hasAll || body.length > MAX_BODY : !hasPart) return false;
		const wanted: Field[] = [
			['host', this.#upstream.authority],
			['x-forwarded-for', '127.0.0.1'],
			['x-forwarded-proto', 'https'],
			['x-proxy-tenant', tenant],
			// A cookie whose last crumb is empty ends with a space, which is not part of the value.
			...forwardedByTheContract(sent.fields).map(
				([name, value]): Field => [name, value.replace(/^[\t ]+|[\t ]+$/g, '')],
			),
		];
		if (!trailersPass(came, sent)) return false;
		const others = came.headers.filter(([name]) => !/^(content-length|transfer-encoding|trailer)$/i.test(name));
		return isDeepStrictEqual(others, wanted);
	}
}

/** ms; reached only with a fault. */
export const PATIENCE_MS = 30_000;

/** Checks the responses to one input, without regard to other inputs. */
export function wrongAnswer(
	status: number,
	body: string,
	sent: readonly SentRequest[],
	pair: Pair,
): string | undefined {
	if (!STATUSES.includes(status)) return `the answer ${status} ${body}`;
	if (status !== 200 || body === '') return undefined;
	const known = sent.some(({ method, target, body: sentBody }) => {
		return pair.tenants.some((tenant) => body === echo(tenant, method, target, sentBody));
	});
	return known ? undefined : `somebody else's answer: ${JSON.stringify(body)}`;
}

/** The upstream's response, which names the owner of the request. */
export function echo(tenant: string, method: string, target: string, body: string): string {
	return `${tenant} ${method} ${target} ${createHash('sha1').update(body, 'latin1').digest('hex')}`;
}

/** Valid responses in every framing. */
const ECHO: Script = (exchange) => {
	const { method, target, body: bytes } = exchange.request;
	const text = echo(exchange.request.header('x-proxy-tenant') ?? '', method, target, bytes.toString('latin1'));
	const body = Buffer.from(text, 'latin1');
	const way = createHash('sha1').update(text).digest()[0]! % 6;
	if (method === 'HEAD' || way < 3) exchange.respond({ body });
	else if (way === 3) exchange.chunked([body.subarray(0, 5), body.subarray(5)]);
	else if (way === 4) exchange.untilClose({ body });
	else {
		exchange.write('HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n');
		exchange.respond({ body, headers: [['connection', 'close']] });
		exchange.end();
	}
};

/** Sent trailers that may not be in a head; the announced ones likewise. */
function trailersPass({ headers, trailers }: RecordedRequest, sent: SentRequest): boolean {
	const announced = headerValues(headers, 'trailer').flatMap((names) => names.split(', '));
	if (announced.some(isNoTrailer) || trailers.some(([name]) => isNoTrailer(name))) return false;
	if (sent.trailers === undefined) return true;
	const known = trailersBeyond(sent.fields, sent.trailers).map(String);
	return trailers.every((trailer) => known.includes(String(trailer)));
}
