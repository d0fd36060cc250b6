import type { TestPki } from '../fixtures/pki.ts';
import type { Asked, Clients, Lost, TenantPlan } from './fleet-figures.ts';
import { type Line, openLine } from './fleet-lines.ts';

/** Most requests of one tenant in flight: a proxy that hangs must not cost the machine its memory. */
const MAX_UNDER_WAY = 200;

/**
 * Clients of one tenant with a steady pace: each request is sent on time, whatever happened to earlier ones. If a busy machine is late, late
 * requests are sent one by one, not all at once.
 */
export class TenantClients implements Clients {
	readonly plan: TenantPlan;
	readonly asked: Asked[] = [];
	readonly lost: Lost[] = [];
	misnamed = 0;
	withheld = 0;
	readonly #lines: readonly Line[];
	#turn = 0;
	#underWay = 0;
	#cancel: (() => void) | undefined;

	constructor(plan: TenantPlan, port: number, pki: TestPki) {
		this.plan = plan;
		const authorization = `Bearer ${pki.token(plan.name)}`;
		const options = { port, localAddress: plan.address, authorization, pki };
		this.#lines = Array.from({ length: plan.connections }, () => openLine(plan.protocol, options));
	}

	/** @param random from 0 to 1: offsets tenants against each other. */
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
		for (const line of this.#lines) line.close();
	}

	#send(now: number): void {
		if (this.#underWay >= MAX_UNDER_WAY) return void this.withheld++;
		this.#underWay++;
		let sentMs = now;
		const onSent = () => {
			sentMs = performance.now();
		};
		this.#lines[this.#turn++ % this.#lines.length]!.ask(onSent, (outcome) => {
			this.#underWay--;
			if ('error' in outcome) return void this.lost.push({ atMs: performance.now(), code: outcome.error });
			const { status, body } = outcome;
			// The upstream responds with the address that it received.
			if (status === 200 && body !== this.plan.address) this.misnamed++;
			this.asked.push({ sentMs, endMs: performance.now(), status });
		});
	}
}
