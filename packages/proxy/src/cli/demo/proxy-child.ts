/** The real proxy as a child process of the demo: starts, watches, reloads and drains it. */
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { createServer } from 'node:net';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import type { LogRecord } from '@mtls-edge-proxy/gate/shared/log.ts';

interface ProxyChildOptions {
	/** The module of the `proxy` command. */
	readonly mainPath: string;
	/** Options of the runtime, such as `-C boxed_body`. */
	readonly execArgv: readonly string[];
	readonly env: NodeJS.ProcessEnv;
	readonly configPath: string;
	/** Gets every record that the proxy logs. */
	readonly onRecord: (record: LogRecord) => void;
	/** Gets every other line that it prints: why it could not start. */
	readonly onStray: (line: string) => void;
}

export interface ProxyChild {
	readonly pid: number;
	readonly port: number;
	readonly metricsPort: number;
	/** Resolves with the next log record of this message. Rejects at exit, and after 30 s. */
	says(message: string): Promise<LogRecord>;
	/** SIGUSR1; resolves when TLS material, identity and routes have been reloaded. Rejects if one of them was refused. */
	reload(): Promise<void>;
	/** SIGTERM. A second call cuts the drain short. */
	stop(): void;
	/** The exit code, or the name of the signal that ended it. */
	readonly exited: Promise<number | string>;
}

/** Starts the proxy on loopback. Resolves when it accepts connections; rejects when it ends, or does not within 30 s. */
export async function startProxyChild(options: ProxyChildOptions): Promise<ProxyChild> {
	const child = spawnProxy(options, await flags(options.configPath));
	const reap = () => child.kill('SIGKILL');
	process.once('exit', reap);
	const exited = new Promise<number | string>((resolve) => {
		child.once('error', (error) => resolve(error.message));
		child.once('close', (code, signal) => resolve(code ?? signal ?? 'no exit code'));
	});
	void exited.then(() => process.off('exit', reap));
	const log = new LogWatch(child, options, exited);
	const { fields = {} } = await log.next('ready').catch((error) => {
		reap();
		throw error;
	});
	return {
		pid: child.pid!,
		port: portOf(fields.bind),
		metricsPort: portOf(fields.metrics_bind),
		says: (message) => log.next(message),
		reload: async () => {
			const reloaded = [
				log.next('mTLS config reloaded', 'mTLS reload failed; keeping old'),
				log.next('identity reloaded', 'identity reload failed; keeping old'),
				log.next('routing table reloaded', 'route reload failed; keeping old table'),
			];
			child.kill('SIGUSR1');
			await Promise.all(reloaded);
		},
		stop: () => {
			child.kill('SIGTERM');
		},
		exited,
	};
}

type Child = ChildProcessByStdio<null, Readable, Readable>;

async function flags(configPath: string): Promise<string[]> {
	return [
		`--config=${configPath}`,
		// The ports that the documentation names, unless something else has them.
		`--bind=127.0.0.1:${await portOrAny(8443)}`,
		`--metrics-bind=127.0.0.1:${await portOrAny(9090)}`,
		'--workers=2',
		'--log-format=json',
	];
}

function spawnProxy({ execArgv, mainPath, env }: ProxyChildOptions, args: readonly string[]): Child {
	return spawn(process.execPath, [...execArgv, mainPath, ...args], {
		stdio: ['ignore', 'pipe', 'pipe'],
		// The demo waits for log lines of level `info`, whatever RUST_LOG says; a pid file would belong to another proxy.
		env: { ...env, RUST_LOG: 'info', PROXY_PID_FILE: '' },
		// A separate process group. Ctrl-C in a terminal goes to the whole group, and together with the demo's SIGTERM the
		// proxy would count two signals, which mean "exit at once".
		detached: true,
	});
}

/** Longer than the drain of 25 s, the longest step here. */
const DEADLINE_MS = 30_000;

/** Reads the log and lets callers wait for a record. */
class LogWatch {
	readonly #listeners = new Set<(record: LogRecord) => void>();
	readonly #exited: Promise<number | string>;

	constructor(child: Child, { onRecord, onStray }: ProxyChildOptions, exited: Promise<number | string>) {
		this.#exited = exited;
		createInterface({ input: child.stderr }).on('line', onStray);
		createInterface({ input: child.stdout }).on('line', (line) => {
			const record = parseLogLine(line);
			if (record === undefined) return onStray(line);
			onRecord(record);
			for (const listener of this.#listeners) listener(record);
		});
	}

	/** Resolves with the next record with `message`. Rejects on a record with `refusal`, at exit and after 30 s. */
	next(message: string, refusal?: string): Promise<LogRecord> {
		const { promise, resolve, reject } = Promise.withResolvers<LogRecord>();
		const listener = (record: LogRecord) => {
			if (record.message === message) resolve(record);
			if (record.message === refusal) reject(new Error(`the proxy says: ${refusal}`));
		};
		this.#listeners.add(listener);
		void this.#exited.then((code) =>
			reject(new Error(`the proxy ended with ${code} without the log line "${message}"`)),
		);
		const expire = () => reject(new Error(`the proxy did not say "${message}" within ${DEADLINE_MS / 1000} s`));
		const timer = setTimeout(expire, DEADLINE_MS);
		return promise.finally(() => {
			clearTimeout(timer);
			this.#listeners.delete(listener);
		});
	}
}

function parseLogLine(line: string): LogRecord | undefined {
	try {
		const { timestamp, level, target, message, ...fields } = JSON.parse(line);
		return typeof message === 'string' ? { time: new Date(timestamp), level, target, message, fields } : undefined;
	} catch {
		return undefined;
	}
}

function portOf(address: unknown): number {
	return Number(/:(\d+)$/.exec(String(address))?.[1]);
}

/** `port` if it is free on loopback, else 0: any. If another process takes it meanwhile, the start reports that. */
function portOrAny(port: number): Promise<number> {
	return new Promise((resolve) => {
		const probe = createServer();
		probe.once('error', () => resolve(0));
		probe.listen(port, '127.0.0.1', () => probe.close(() => resolve(port)));
	});
}
