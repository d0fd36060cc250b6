import type { LogFields, Logger } from '@mtls-edge-proxy/gate/shared/log.ts';
import type { Config } from '../../config/config.ts';
import { type ConfigProblem, describeProblem } from '../../config/error.ts';
import { changedInVain, type VainSetting, vainSetting } from '../../config/start-settings.ts';
import type { ReadSpec } from '../files/findings.ts';
import type { InForce } from '../state/in-force.ts';
import type { Resources, Specs } from '../state/resources.ts';
import type { ReloadedPart, ReloadJournal } from './journal.ts';

interface ReloadParts {
	/** The configuration of the start. */
	readonly booted: Config;
	/** Reads the file anew; rejects with the reason. */
	readonly loadConfig: () => Promise<Config>;
	/** Reads and judges the files of each resource; rejects with the reason. */
	readonly read: { readonly [Name in keyof Specs]: (config: Config) => Promise<ReadSpec<Specs[Name]>> };
	readonly resources: Resources;
	/** Whether the keys of `[jwt]` have changed in their file although they are read only at the start. */
	readonly keysChangedInVain: (config: Config) => Promise<boolean>;
	/** Valid settings that are hardly ever intended. */
	readonly configWarnings: (config: Config) => readonly ConfigProblem[];
	/** Seconds since the epoch. */
	readonly wallSeconds: () => number;
	readonly inForce: InForce;
	readonly journal: Pick<ReloadJournal, 'add'>;
	readonly log: Logger;
}

const TARGET = 'proxy::reload';

/**
 * Reload by SIGUSR1, by SIGHUP, or because files have changed: reads the files and sets the resources, each independently of the
 * others. Any number of requests during a reload cause one more run: the files may have changed after they were read.
 */
export class Reloader {
	readonly #parts: ReloadParts;
	#running: Promise<void> | undefined;
	#again = false;
	/** The last cause. */
	#asked = '';
	#stopped = false;

	constructor(parts: ReloadParts) {
		this.#parts = parts;
	}

	/**
	 * Resolves when a reload that began no earlier than now has ended, whatever its result. Never rejects.
	 *
	 * @param cause for the log.
	 */
	request(cause: LogFields = {}): Promise<void> {
		if (!this.#stopped) this.#parts.log.info(TARGET, 'reading the files again', cause);
		this.#again = true;
		this.#parts.inForce.reloading = true;
		this.#asked = typeof cause.signal === 'string' ? cause.signal : 'files changed';
		this.#running ??= this.#runWhileAsked();
		return this.#running;
	}

	/** The process is ending: starts no further reload. */
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
		// An error anywhere in the file fails all resources: its author did not want half of the configuration.
		const config = this.#loadConfig();
		const { inForce } = this.#parts;
		const generation = inForce.generation + 1;
		const causes = new Set<string>();
		for (const resource of RESOURCES) {
			if (resource === 'identity' && !(await this.#reloadsIdentity(config))) continue;
			const cause = await this.#reloadResource(resource, config, generation);
			if (cause !== undefined) causes.add(cause);
		}
		inForce.failures = [...causes];
		inForce.reloads[causes.size === 0 ? 'success' : 'failure'] += 1;
	}

	/** If not, the identity stays as it was at the start, and the log does not mention it. */
	async #reloadsIdentity(loading: Promise<Config>): Promise<boolean> {
		const { booted, inForce } = this.#parts;
		// The last `[[tenants]]` may have been removed from the file.
		if ((inForce.identity.quotas?.tenants.length ?? 0) > 0) return true;
		return (await loading.catch(() => booted)).reloadsIdentity;
	}

	/** @returns the reason of a failure; `undefined`: it succeeded. */
	async #reloadResource(
		resource: keyof Specs,
		loading: Promise<Config>,
		generation: number,
	): Promise<string | undefined> {
		const { inForce, journal, log } = this.#parts;
		const { part, reloaded, failed } = OUTCOMES[resource];
		const asked = this.#asked;
		try {
			await this.#set(resource, await loading);
			inForce.generation = generation;
			log.info(TARGET, reloaded, { generation });
			journal.add({ part, result: 'success', asked, cause: undefined, generation });
			return undefined;
		} catch (error) {
			const { generation } = inForce;
			const { message: cause } = error as Error;
			log.error(TARGET, failed, { cause, generation });
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
		log.warn(TARGET, 'needs a restart: settings that the proxy reads only at startup have changed', {
			keys: settings.map(({ key }) => key),
			settings: settings.map(({ words }) => words),
		});
	}

	async #set<Name extends keyof Specs>(name: Name, config: Config): Promise<void> {
		const { read, resources } = this.#parts;
		const { spec, warnings } = await read[name](config);
		this.#warn(config, warnings);
		await resources[name].set(spec);
	}

	#warn({ path }: Config, warnings: readonly ConfigProblem[]): void {
		for (const warning of warnings) this.#parts.log.warn(TARGET, describeProblem(path, warning));
	}
}

/** In the order in which they are reloaded. */
const RESOURCES = ['tls', 'identity', 'routing'] as const satisfies readonly (keyof Specs)[];

const OUTCOMES: Readonly<Record<keyof Specs, { part: ReloadedPart; reloaded: string; failed: string }>> = {
	tls: { part: 'tls', reloaded: 'mTLS config reloaded', failed: 'mTLS reload failed; keeping old' },
	identity: { part: 'identity', reloaded: 'identity reloaded', failed: 'identity reload failed; keeping old' },
	routing: {
		part: 'routes',
		reloaded: 'routing table reloaded',
		failed: 'route reload failed; keeping old table',
	},
};
