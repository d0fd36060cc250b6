/** The stage of the show, and what an act does on it: send a request, compare the outcome, report it. */
import { setTimeout as sleep } from 'node:timers/promises';
import { type Call, type ClientResponse, type Credentials, call, type Protocol } from './client.ts';
import type { GrpcUpstream } from './grpc.ts';
import type { ProxyChild } from './proxy-child.ts';
import type { SampleUpstream } from './sample-upstream.ts';
import type { Screen } from './screen.ts';
import type { Tenant, Workspace } from './workspace.ts';

export interface SampleUpstreams {
	readonly a: SampleUpstream;
	readonly b: SampleUpstream;
	/** Two addresses of one upstream. */
	readonly c: readonly [SampleUpstream, SampleUpstream];
	readonly grpc: GrpcUpstream;
}

export interface Stage {
	readonly screen: Screen;
	readonly workspace: Workspace;
	readonly proxy: ProxyChild;
	readonly upstreams: SampleUpstreams;
	/** Aborted when the demo is interrupted or the proxy has ended, with the reason in words. */
	readonly ended: AbortSignal;
}

/** A request as the show prints it. */
export interface Line {
	readonly protocol: Protocol;
	readonly path: string;
	/** The tenant whose token is sent; none if absent. */
	readonly tenant?: Tenant;
	readonly token?: string;
	/** Sent by the other client. */
	readonly byOther?: boolean;
	/** Printed next to the request. */
	readonly note?: string;
}

const SOON_MS = 10_000;
/** Slower than the limiter refills, so that waiting for one thing does not end in 429. */
const POLL_MS = 250;

/** Sends, compares and reports. */
export class Act {
	readonly stage: Stage;
	readonly #failures: string[];

	constructor(stage: Stage, failures: string[]) {
		this.stage = stage;
		this.#failures = failures;
	}

	report(passed: boolean, what: string, result: string): void {
		this.stage.screen.outcome(passed, what, result);
		if (!passed) this.#failures.push(`${what}: ${result}`);
	}

	send({ protocol, path, tenant, token, byOther }: Line): Promise<ClientResponse> {
		this.stage.ended.throwIfAborted();
		const { tokens } = this.stage.workspace;
		const request: Call = { protocol, path, token: token ?? (tenant && tokens[tenant]) };
		return call(this.credentials(byOther), request);
	}

	/** Sends until the status is the expected one, for at most 10 s, because reloads and breakers take time. */
	async expect(line: Line, status: number): Promise<ClientResponse | undefined> {
		const response = await this.repeat(
			() => this.send(line),
			(response) => response.status === status,
		);
		return this.#show(line, status, response);
	}

	/** Asks until the response fits, for at most 10 s. @returns the last response, or why there was none. */
	async repeat<Asked>(ask: () => Promise<Asked>, fits: (response: Asked) => boolean): Promise<Asked | Error> {
		const deadline = performance.now() + SOON_MS;
		for (;;) {
			this.stage.ended.throwIfAborted();
			const response = await ask().catch((error: Error) => error);
			if ((!(response instanceof Error) && fits(response)) || performance.now() > deadline) return response;
			await sleep(POLL_MS, undefined, { signal: this.stage.ended });
		}
	}

	/** @param identity by default one without a certificate. */
	async expectRefusedHandshake(credentials = this.#anonymous(), what = 'no client certificate'): Promise<void> {
		const outcome = await call(credentials, { protocol: 'h2', path: '/' }).catch((error: Error) => error);
		const refused = outcome instanceof Error;
		this.report(refused, `h2        ${what}`, refused ? 'handshake refused' : `${outcome.status}`);
	}

	#anonymous(): Credentials {
		const { cert: _cert, key: _key, ...anonymous } = this.credentials();
		return anonymous;
	}

	#show(
		{ protocol, path, tenant, note }: Line,
		status: number,
		response: ClientResponse | Error,
	): ClientResponse | undefined {
		const what = [protocol.padEnd(9), path, tenant, note && `(${note})`].filter(Boolean).join(' ');
		const isError = response instanceof Error;
		const passed = !isError && response.status === status;
		const came = isError ? response.message : `${response.status} ${summary(response.body)}`;
		this.report(passed, what, passed ? came : `${came}, expected ${status}`);
		return isError ? undefined : response;
	}

	/** @param isOther whether to use the other client. */
	credentials(isOther = false): Credentials {
		const { workspace, proxy } = this.stage;
		const { certPem: cert, keyPem: key } = isOther ? workspace.otherClient : workspace.client;
		return { port: proxy.port, ca: workspace.ca, cert, key };
	}
}

/** What the upstream saw, in a few words; any other body unchanged. */
function summary(body: string): string {
	const text = body.trimEnd();
	if (!text.startsWith('{')) return text;
	const { upstream, tenant, 'x-forwarded-for': from, 'x-forwarded-proto': scheme } = JSON.parse(text);
	return tenant === undefined ? text : `${upstream} saw ${tenant} from ${from} by ${scheme}`;
}
