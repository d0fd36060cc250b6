import { isIPv4 } from 'node:net';
import { quote } from '../../config/wording.ts';
import type { ProcessFacts } from '../../control/admin/process-facts.ts';
import { CommandError } from '../command.ts';
import type { Address } from '../options.ts';
import type { Machine } from './machine.ts';
import { formatHost } from './metrics-client.ts';
import { namesProxy, readPidFile } from './pid-file.ts';
import { mayBeProxy } from './process-table.ts';

export interface Target {
	readonly pidFile: string | undefined;
	readonly metrics: Address;
}

/** Of a command that sends a signal and reports the outcome. */
export interface SignalOptions extends Target {
	/** `false`: only sends the signal. */
	readonly wait: boolean;
	/** Time limit for the outcome. */
	readonly timeoutMs: number;
}

/** A running proxy on this machine. */
export interface Found {
	readonly pid: number;
	/** Start time of the process; `undefined` if the system does not give it. */
	readonly startTicks: number | undefined;
	/** The answer of its metrics listener, or in words why it is unknown. */
	readonly facts: ProcessFacts | string;
}

/** Time limit for one answer of the metrics listener. */
const ASK_MS = 2_000;

/**
 * Finds the process to signal, by its pid file or by asking its metrics listener for the number. The listener's answer
 * proves nothing: the start time that it gives must equal that of the local process with this number. In both ways the
 * command line must be the proxy's.
 *
 * @throws CommandError if there is none.
 */
export async function findProxy(target: Target, mainPath: string, machine: Machine): Promise<Found> {
	return target.pidFile === undefined
		? findByMetrics(target.metrics, mainPath, machine)
		: findByPidFile(target.pidFile, target.metrics, mainPath, machine);
}

async function findByMetrics(metrics: Address, mainPath: string, machine: Machine): Promise<Found> {
	const facts = await askFacts(metrics, machine);
	const entry = machine.readProcess(facts.pid);
	const startTicks = entry?.startTicks;
	// Without /proc there is no proof; a loopback address has to be enough.
	const isHere =
		startTicks === undefined || facts.startTicks === null ? isLoopback(metrics) : startTicks === facts.startTicks;
	if (entry === undefined || !isHere) {
		throw new CommandError(
			`${formatHost(metrics)}: reports process ${facts.pid}, which does not exist on this machine or in this container; run the command where the proxy runs`,
		);
	}
	// While the proxy is down, any local user can listen in its place, and see when each process has started.
	if (!mayBeProxy(entry, mainPath)) {
		throw new CommandError(
			`${formatHost(metrics)}: reports process ${facts.pid}, which is another program on this machine; is that the --metrics-bind of the proxy?`,
		);
	}
	return { pid: facts.pid, startTicks, facts };
}

async function findByPidFile(path: string, metrics: Address, mainPath: string, machine: Machine): Promise<Found> {
	const pid = readPid(path);
	const facts = await askFacts(metrics, machine).catch(({ message }: Error) => message);
	const entry = machine.readProcess(pid);
	const isOther = typeof facts !== 'string' && facts.pid !== pid;
	// Number and start time prove the process. File times do not, because the clock may have been set since.
	const isProved = typeof facts !== 'string' && !isOther && entry?.startTicks === facts.startTicks;
	if (entry === undefined || !(isProved || namesProxy(path, pid, mainPath, machine.readProcess))) {
		throw new CommandError(
			`${path}: process ${pid} is gone; the proxy is not running, or it runs with another --pid-file`,
		);
	}
	return {
		pid,
		startTicks: entry.startTicks,
		facts: isOther ? `${formatHost(metrics)}: reports process ${facts.pid}, but the file names ${pid}` : facts,
	};
}

function readPid(path: string): number {
	let pid: ReturnType<typeof readPidFile>;
	try {
		pid = readPidFile(path);
	} catch (error) {
		throw new CommandError(`${path}: cannot be read: ${(error as Error).message}`);
	}
	if (pid === undefined) throw new CommandError(`${path}: does not exist; is the proxy running, with this --pid-file?`);
	if (pid === 'no pid')
		throw new CommandError(`${path}: does not contain a process number; name the file of --pid-file`);
	return pid;
}

/** @throws CommandError if no proxy answers. */
export async function askFacts(metrics: Address, { ask }: Pick<Machine, 'ask'>): Promise<ProcessFacts> {
	const { status, body } = await ask(metrics, '/process', ASK_MS);
	const facts = status === 200 ? readFacts(body) : undefined;
	if (facts === undefined) {
		throw new CommandError(
			`${formatHost(metrics)}: answers ${status} to /process (${quote(body)}); is that the --metrics-bind of a proxy of this version?`,
		);
	}
	return facts;
}

function readFacts(body: string): ProcessFacts | undefined {
	try {
		const facts = JSON.parse(body);
		const { pid, generation, reloads } = facts;
		// These values are printed and compared, so they must be valid.
		const isWhole = [pid, generation, reloads.success, reloads.failure].every(Number.isSafeInteger);
		if (!isWhole || pid <= 0) return undefined;
		return { ...facts, failures: printable(facts.failures), needsRestart: printable(facts.needsRestart) };
	} catch {
		return undefined;
	}
}

/** Texts that cannot move the cursor of a terminal. Empty for an earlier version of the proxy, which has no such list. */
function printable(lines: unknown): string[] {
	const texts = Array.isArray(lines) ? lines.filter((line) => typeof line === 'string') : [];
	return texts.map((line) => line.replace(/[^\P{C}\n]/gu, '?'));
}

function isLoopback({ host }: Address): boolean {
	return host === 'localhost' || host === '::1' || (isIPv4(host) && host.startsWith('127.'));
}

/** @throws CommandError if the process has ended or belongs to another user. */
export function sendSignal({ pid }: Found, signal: NodeJS.Signals, machine: Machine): void {
	try {
		machine.signal(pid, signal);
	} catch (error) {
		const { code, message } = error as NodeJS.ErrnoException;
		if (code === 'ESRCH') throw new CommandError(`process ${pid} is gone`);
		if (code !== 'EPERM') throw new CommandError(`process ${pid}: ${message}`);
		throw new CommandError(`process ${pid} belongs to another user (EPERM); run the command as that user, or as root`);
	}
}

/** Whether the process has ended; another process may have its number by then. */
export function hasGone({ pid, startTicks }: Found, machine: Machine): boolean {
	const entry = machine.readProcess(pid);
	return entry === undefined || entry.startTicks !== startTicks;
}

/** For example `3.2 s`. */
export function seconds(ms: number): string {
	return `${(ms / 1_000).toFixed(1)} s`;
}
