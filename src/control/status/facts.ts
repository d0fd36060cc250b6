import type { Balance } from '../../gates/balancing/settings.ts';
import type { Circuit } from '../../gates/breaker.ts';
import type { RateSeed } from '../../identity/quotas.ts';
import type { LastTransition } from '../../memory/transition-counts.ts';
import type { Failing } from '../addresses/address-refresher.ts';
import type { Expiring } from '../facts/certificates.ts';
import type { LoopFact } from '../facts/loops.ts';
import type { StoreFacts } from '../facts/store.ts';
import type { ProbeOutcome } from '../health/outcome.ts';
import type { LogLosses } from '../log-output.ts';
import type { ReloadEntry } from '../reload/journal.ts';
import type { NeedsRestart } from '../state/in-force.ts';
import type { ShareBounds } from './shares.ts';

/** What workers count, added up. */
export interface CounterFacts {
	/** Answers without an upstream, by status. */
	readonly ownAnswers: ReadonlyMap<number, number>;
	readonly auth: ReadonlyMap<string, number>;
	readonly forbidden: ReadonlyMap<string, number>;
	readonly rateLimited: ReadonlyMap<string, number>;
	readonly handshakeFailures: ReadonlyMap<string, number>;
	readonly handshakesDone: number;
	readonly connections: {
		readonly handshake: number;
		readonly 'http/1.1': number;
		readonly h2: number;
		readonly refused: ReadonlyMap<string, number>;
		readonly ended: ReadonlyMap<string, number>;
		readonly http2Errors: ReadonlyMap<string, number>;
	};
}

/** What of the process the status page is made of, as it is at one moment. */
export interface Facts extends CounterFacts {
	/** Since 1970. */
	readonly wallMs: number;
	readonly startedMs: number;
	/** The scale of the history. */
	readonly monotonicMs: number;
	readonly build: { readonly version: string; readonly bodyMode: string; readonly node: string };
	/** Why it is not ready. */
	readonly obstacle: string | undefined;
	readonly residentBytes: number;
	readonly heapUsedBytes: number;
	/** Workers that accept connections. */
	readonly listening: number;
	/** By index. */
	readonly workers: readonly WorkerFacts[];
	readonly upstreams: readonly UpstreamFacts[];
	readonly names: readonly NameFacts[];
	readonly handshakes: {
		readonly completed: number;
		/** ms; `NaN` without any in the last minute. */
		readonly quantile: (q: number) => number;
	};
	readonly bodyBudget: BudgetFacts;
	readonly connectionBudget: BudgetFacts;
	readonly certificates: readonly Expiring[];
	readonly issuers: readonly IssuerFacts[];
	readonly generation: number;
	readonly reloads: {
		readonly success: number;
		readonly failure: number;
		/** The latest first. */
		readonly last: readonly ReloadEntry[];
		/** `undefined`: nothing does. */
		readonly needsRestart?: NeedsRestart | undefined;
	};
	/** From which shares on refusals and failures are a problem. */
	readonly shareBounds: ShareBounds;
	readonly log: LogLosses;
	/** `undefined`: limits are this process's own. */
	readonly store?: StoreFacts | undefined;
	/** `undefined`: they are not to be shown. */
	readonly tenants: readonly TenantFacts[] | undefined;
}

export interface UpstreamFacts {
	/** `host:port`. */
	readonly upstream: string;
	/** Name of its `[[upstreams]]`. */
	readonly group: string | undefined;
	/** How that spreads its requests, and the weight of this address; `undefined`: it is a route's URL. */
	readonly share?: { readonly balance: Balance; readonly weight: number } | undefined;
	/** Whether it is spoken to over TLS, and whether its certificate is verified then. */
	readonly tls: 'none' | 'verified' | 'not verified';
	/** Prefixes. */
	readonly routes: readonly string[];
	readonly circuit: Circuit;
	/** The last one, or how an open circuit began; `undefined` where it has never been open. */
	readonly transition: Pick<LastTransition, 'wallSeconds' | 'reason' | 'cause'> | undefined;
	/** Transitions to open. */
	readonly opened: number;
	/** Whether its health is probed. */
	readonly probed: boolean;
	readonly alive: boolean | undefined;
	readonly lastProbe?: ProbeOutcome | undefined;
	/** By status. */
	readonly answers: ReadonlyMap<number, number>;
	readonly active: number;
	readonly idle: number;
}

/** An `[[upstreams]]` whose addresses DNS says. */
export interface NameFacts {
	readonly group: string;
	/** `host:port`. */
	readonly name: string;
	/** Prefixes. */
	readonly routes: readonly string[];
	/** In the last good answer; 0 before there has been one. */
	readonly addresses: number;
	/** Since the last good answer; `undefined` before there has been one. */
	readonly ageMs: number | undefined;
	readonly failing: Failing | undefined;
}

export interface WorkerFacts {
	readonly connections: number;
	/** Requests. */
	readonly inFlight: number;
	/** `undefined` while there is no such thread. */
	readonly loop: LoopFact | undefined;
}

export interface BudgetFacts {
	readonly used: number;
	readonly limit: number;
}

export interface IssuerFacts {
	readonly issuer: string | undefined;
	readonly remote: boolean;
	readonly algorithms: readonly string[];
	readonly kids: readonly (string | undefined)[];
	readonly ageMs: number | undefined;
	readonly fetches: { readonly success: number; readonly failure: number } | undefined;
}

export interface TenantFacts {
	readonly name: string;
	/** `undefined`: what holds for all; `null`: no limit. */
	readonly rate: RateSeed | null | undefined;
	readonly concurrency: number | undefined;
	/** Requests; `undefined` where nobody counts them. */
	readonly inFlight: number | undefined;
}
