import type { Config } from '../../config/config.ts';
import { type ConfigProblem, describeProblem } from '../../config/error.ts';
import { changedInVain, type VainSetting, vainSetting } from '../../config/start-settings.ts';
import type { IdentitySeed } from '../../identity/trust.ts';
import type { LogFields, Logger } from '../../shared/log.ts';
import type { TlsMaterial } from '../../shared/messages.ts';
import type { TlsFiles } from '../files/tls-files.ts';
import type { UpstreamTlsFiles } from '../files/upstream-tls-files.ts';
import { tlsOf } from '../upstreams.ts';
import type { WorkerPool } from '../workers/worker-pool.ts';
import type { ConfigInForce } from './config-in-force.ts';
import type { IdentityPlan } from './identity-plan.ts';
import type { ReloadedPart, ReloadJournal } from './journal.ts';
import type { RoutingSwitch } from './routing-switch.ts';

export interface ReloadParts {
	/** The configuration of the start. */
	readonly booted: Config;
	/** Reads the file anew; rejects with the reason. */
	readonly loadConfig: () => Promise<Config>;
	/** Reads and judges the TLS files; rejects with the reason. */
	readonly readTlsFiles: (config: Config) => Promise<TlsFiles>;
	/** Reads and judges the files of TLS to upstreams; rejects with the reason. */
	readonly readUpstreamTlsFiles: (config: Config) => Promise<UpstreamTlsFiles & Pick<TlsFiles, 'warnings'>>;
	/** What workers get in place of the material of the files. */
	readonly forWorkers: (tls: TlsMaterial) => TlsMaterial;
	/** Reads and judges the files that say whom we believe; rejects with the reason. */
	readonly planIdentity: (config: Config) => Promise<IdentityPlan>;
	/** Whether the keys of `[jwt]`, where they are read at the start only, have changed in their file. */
	readonly keysChangedInVain: (config: Config) => Promise<boolean>;
	/** What is allowed but hardly ever meant. */
	readonly configWarnings: (config: Config) => readonly ConfigProblem[];
	/** Seconds since the epoch. */
	readonly wallSeconds: () => number;
	readonly inForce: ConfigInForce;
	readonly journal: Pick<ReloadJournal, 'add'>;
	readonly routing: Pick<RoutingSwitch, 'take'>;
	readonly pool: Pick<WorkerPool, 'switchAll'>;
	readonly log: Logger;
}

const TARGET = 'proxy::reload';

/**
 * Reload by SIGUSR1, by SIGHUP, or because files have changed. TLS material, identity (whom we believe) and
 * routing table are taken over independently of each other, and each by all workers or by none. Whoever asks while a reload is running
 * makes it run once more, however many there are: the files may have changed after they were read.
 */
export class Reloader {
	readonly #parts: ReloadParts;
	#running: Promise<void> | undefined;
	#again = false;
	/** Who has asked last. */
	#asked = '';
	#stopped = false;

	constructor(parts: ReloadParts) {
		this.#parts = parts;
	}

	/**
	 * Resolves when a reload that began no earlier than now has ended, whatever came of it. Never rejects.
	 *
	 * @param cause who asks, for the log.
	 */
	request(cause: LogFields = {}): Promise<void> {
		if (!this.#stopped) this.#parts.log.info(TARGET, 'reading the files again', cause);
		this.#again = true;
		this.#parts.inForce.reloading = true;
		this.#asked = typeof cause.signal === 'string' ? cause.signal : 'files changed';
		this.#running ??= this.#runWhileAsked();
		return this.#running;
	}

	/** The process is on its way out: nothing new is begun. */
	stop(): void {
		this.#stopped = true;
	}

	async #runWhileAsked(): Promise<void> {
		while (this.#again && !this.#stopped) {
			this.#again = false;
			await this.#reload();
		}
		this.#running = undefined;
		this.#parts.inForce.reloading = false;
	}

	async #reload(): Promise<void> {
		// A file that is wrong anywhere fails all rounds: a part of a configuration is not what its author meant.
		const config = this.#loadConfig();
		const generation = this.#parts.inForce.generation + 1;
		const tls = await this.#attempt('tls', 'mTLS config reloaded', 'mTLS reload failed; keeping old', async () =>
			this.#takeTls(await config, generation),
		);
		const identity = await this.#identityRound(config, generation);
		const routes = await this.#attempt(
			'routes',
			'routing table reloaded',
			'route reload failed; keeping old table',
			async () => this.#takeRoutes(await config, generation),
		);
		const { inForce } = this.#parts;
		// A file that is wrong has failed all of them, with the same words.
		inForce.failures = [...new Set([tls, identity, routes].filter((cause) => cause !== undefined))];
		inForce.reloads[inForce.failures.length === 0 ? 'success' : 'failure'] += 1;
	}

	/** Without `reloadsIdentity` whom we believe stays what it was at the start, and nothing is said of it. */
	async #identityRound(config: Promise<Config>, generation: number): Promise<string | undefined> {
		const { booted, inForce } = this.#parts;
		// The last `[[tenants]]` may have been taken out of the file.
		const hasQuotas = (inForce.identity.quotas?.tenants.length ?? 0) > 0;
		if (!(hasQuotas || (await config.catch(() => booted)).reloadsIdentity)) return undefined;
		return this.#attempt('identity', 'identity reloaded', 'identity reload failed; keeping old', async () =>
			this.#takeIdentity(await config, generation),
		);
	}

	/** @returns why it has failed; `undefined`: it has not. */
	async #attempt(
		part: ReloadedPart,
		success: string,
		failure: string,
		take: () => Promise<void>,
	): Promise<string | undefined> {
		const { inForce, journal, log } = this.#parts;
		const asked = this.#asked;
		try {
			await take();
			const { generation } = inForce;
			log.info(TARGET, success, { generation });
			journal.add({ part, result: 'success', asked, cause: undefined, generation });
			return undefined;
		} catch (error) {
			const { generation } = inForce;
			const { message: cause } = error as Error;
			log.error(TARGET, failure, { cause, generation });
			journal.add({ part, result: 'failure', asked, cause, generation });
			return cause;
		}
	}

	async #loadConfig(): Promise<Config> {
		const { loadConfig, configWarnings } = this.#parts;
		const config = await loadConfig();
		this.#warn(config, configWarnings(config));
		await this.#findChangedInVain(config);
		return config;
	}

	async #findChangedInVain(config: Config): Promise<void> {
		const { booted, keysChangedInVain, inForce, wallSeconds, log } = this.#parts;
		const settings: VainSetting[] = changedInVain(booted, config);
		if (await keysChangedInVain(config)) {
			settings.push(vainSetting('jwt.jwks_path', config, config.jwt?.jwksPath));
		}
		const sinceSeconds = inForce.needsRestart?.sinceSeconds ?? wallSeconds();
		inForce.needsRestart = settings.length === 0 ? undefined : { settings, sinceSeconds };
		if (settings.length === 0) return;
		log.warn(TARGET, 'needs a restart: settings have changed that are read at the start only', {
			keys: settings.map(({ key }) => key),
			settings: settings.map(({ words }) => words),
		});
	}

	async #takeTls(config: Config, generation: number): Promise<void> {
		const { readTlsFiles, forWorkers, pool, inForce } = this.#parts;
		const { material, warnings } = await readTlsFiles(config);
		this.#warn(config, warnings);
		this.#assertRunning();
		await pool.switchAll(
			(_, id) => ({ type: 'prepare-tls', id, tls: forWorkers(material) }),
			() => {
				inForce.tls = material;
				inForce.generation = generation;
			},
		);
	}

	async #takeIdentity(config: Config, generation: number): Promise<void> {
		const { planIdentity, pool, inForce } = this.#parts;
		const plan = await planIdentity(config);
		try {
			this.#warn(config, plan.warnings);
			this.#assertRunning();
			await switchIdentity(pool, plan.identity, (identity) => {
				inForce.identity = identity;
				inForce.generation = generation;
				plan.apply();
			});
		} catch (error) {
			plan.discard();
			throw error;
		}
	}

	async #takeRoutes(config: Config, generation: number): Promise<void> {
		const { readUpstreamTlsFiles, routing, inForce } = this.#parts;
		const { upstreamTls: tls, warnings } = await readUpstreamTlsFiles(config);
		this.#warn(config, warnings);
		await routing.take(
			() => ({ routes: config.routes, tls }),
			() => this.#assertRunning(),
			(plan) => {
				inForce.upstreamTls = tlsOf(plan);
				inForce.generation = generation;
			},
		);
	}

	#warn({ path }: Config, warnings: readonly ConfigProblem[]): void {
		for (const warning of warnings) this.#parts.log.warn(TARGET, describeProblem(path, warning));
	}

	#assertRunning(): void {
		if (this.#stopped) throw new Error('the proxy is shutting down');
	}
}

/**
 * Has all workers take over whom we believe, or none.
 *
 * @param identity called when it is this switch's turn.
 */
export function switchIdentity(
	pool: Pick<WorkerPool, 'switchAll'>,
	identity: () => IdentitySeed,
	apply: (identity: IdentitySeed) => void,
): Promise<void> {
	let taken: IdentitySeed | undefined;
	const take = () => {
		taken ??= identity();
		return taken;
	};
	return pool.switchAll(
		(_, id) => ({ type: 'prepare-identity', id, identity: take() }),
		() => apply(take()),
	);
}
