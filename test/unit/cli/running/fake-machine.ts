import type { Machine } from '../../../../packages/proxy/src/cli/running/machine.ts';
import type { MetricsResponse } from '../../../../packages/proxy/src/cli/running/metrics-client.ts';
import type { ProcessEntry } from '../../../../packages/proxy/src/cli/running/process-table.ts';
import type { ProcessFacts } from '../../../../packages/proxy/src/control/admin/process-facts.ts';

/** A machine on which a proxy runs as process 42; its time passes only in `sleep`. */
export class FakeMachine implements Machine {
	readonly processes = new Map<number, ProcessEntry>([
		[42, { startTicks: 1_000, startedMs: 0, args: ['/usr/bin/node', '/opt/proxy/dist/main.js'] }],
	]);
	facts: ProcessFacts = {
		pid: 42,
		startTicks: 1_000,
		phase: 'serving',
		generation: 1,
		reloads: { success: 0, failure: 0 },
		failures: [],
		needsRestart: [],
		reloading: false,
	};
	/** In place of the facts. */
	answer: MetricsResponse | Error | undefined;
	readonly signals: string[] = [];
	/** Why no signal can be sent. */
	signalError: NodeJS.ErrnoException | undefined;
	time = 0;
	/** Events during each wait, by its number. */
	onSleep: (count: number) => void = () => {};
	#sleeps = 0;

	ask = async (): Promise<MetricsResponse> => {
		if (this.answer instanceof Error) throw this.answer;
		return this.answer ?? { status: 200, body: JSON.stringify(this.facts) };
	};
	readProcess = (pid: number) => this.processes.get(pid);
	signal = (pid: number, signal: NodeJS.Signals): void => {
		if (this.signalError !== undefined) throw this.signalError;
		this.signals.push(`${signal} ${pid}`);
	};
	now = () => this.time;
	sleep = async (ms: number): Promise<void> => {
		this.time += ms;
		this.onSleep(++this.#sleeps);
	};
}
