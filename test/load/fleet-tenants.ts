import { Agent, request } from 'node:https';
import type { TestPki } from '../fixtures/pki.ts';
import type { Asked } from './fleet-figures.ts';

export interface TenantPlan {
	readonly name: string;
	/** Requests a second that it asks for, evenly. */
	readonly asksRps: number;
	/** Connections that it uses in turns: with one of them all of its requests meet one replica. */
	readonly connections: number;
}

/**
 * Clients of one tenant, at a pace of their own: a request is sent when its time has come, whatever has become of the ones before it. What
 * a busy machine is late with is sent late, not all at once.
 */
export class TenantClients {
	readonly plan: TenantPlan;
	/** Requests with an answer. */
	readonly asked: Asked[] = [];
	/** Requests without one, by the code of the error. */
	readonly lost = new Map<string, number>();
	readonly #agents: readonly Agent[];
	readonly #options: { readonly host: string; readonly port: number; readonly headers: Record<string, string> };
	#sent = 0;
	#underWay = 0;
	#cancel: (() => void) | undefined;

	constructor(plan: TenantPlan, port: number, pki: TestPki) {
		this.plan = plan;
		const { certPem: cert, keyPem: key } = pki.clients.valid;
		const tls = { ca: pki.ca.certPem, cert, key, servername: 'localhost', maxCachedSessions: 0 };
		this.#agents = Array.from(
			{ length: plan.connections },
			() => new Agent({ keepAlive: true, maxSockets: 1, ...tls }),
		);
		const headers = { authorization: `Bearer ${pki.token(plan.name)}` };
		this.#options = { host: '127.0.0.1', port, headers };
	}

	/** @param random from 0 to 1: tenants do not ask in step. */
	start(random: number): void {
		const everyMs = 1000 / this.plan.asksRps;
		let due = performance.now() + random * everyMs;
		const step = () => {
			const now = performance.now();
			if (now >= due) {
				this.#send(now);
				due = Math.max(due + everyMs, now - everyMs);
			}
			timer = setTimeout(step, Math.max(0, due - performance.now()));
		};
		let timer = setTimeout(step, random * everyMs);
		this.#cancel = () => clearTimeout(timer);
	}

	async stop(): Promise<void> {
		this.#cancel?.();
		const deadline = performance.now() + 5_000;
		while (this.#underWay > 0 && performance.now() < deadline) await new Promise((resolve) => setTimeout(resolve, 20));
		for (const agent of this.#agents) agent.destroy();
	}

	/** Requests that were sent between these moments. */
	between(fromMs: number, toMs: number): Asked[] {
		return this.asked.filter(({ sentMs }) => sentMs >= fromMs && sentMs < toMs);
	}

	#send(now: number): void {
		// A proxy that hangs must not cost the machine its memory.
		if (this.#underWay >= 200) return this.#lose('too many');
		this.#underWay++;
		const agent = this.#agents[this.#sent++ % this.#agents.length]!;
		let sentMs = now;
		const call = request({ ...this.#options, path: '/', agent }, (response) => {
			response.resume();
			response.on('close', () => {
				this.#underWay--;
				this.asked.push({ sentMs, endMs: performance.now(), status: response.statusCode! });
			});
		});
		// It may have waited for its connection.
		call.on('socket', (socket) => {
			if (!socket.connecting) sentMs = performance.now();
		});
		call.on('error', (error: NodeJS.ErrnoException) => {
			this.#underWay--;
			this.#lose(error.code ?? error.message);
		});
		call.end();
	}

	#lose(code: string): void {
		this.lost.set(code, (this.lost.get(code) ?? 0) + 1);
	}
}
