import type { IncomingMessage, ServerResponse } from 'node:http';
import { sum } from '../metrics/adding-up.ts';
import type { Timers } from '../timers.ts';
import { type Assets, readAssets } from './assets.ts';
import { countersOf } from './counts.ts';
import { MAX_CLIENTS, StatusEvents } from './events.ts';
import type { CounterFacts, Facts } from './facts.ts';
import { History, type Sampled } from './history.ts';
import { mayAsk } from './host-names.ts';
import { renderMain, renderPage } from './page.ts';
import type { Snapshot, StatusPage } from './schema.ts';
import { pageOfSnapshot, takeSnapshot } from './snapshot.ts';
import { parseView, type View } from './view.ts';

/** What the pages are made of. */
export interface FactSource {
	/** All of it, anew. */
	facts(): Facts;
	/** What the history wants of it, which is less. */
	counters(): CounterFacts;
	/** Of the table in force. */
	sampled(): Iterable<Sampled>;
}

export interface StatusParts {
	readonly source: FactSource;
	/** Names that the page may be asked for by, beside those that are nobody else's. */
	readonly hosts: readonly string[];
	readonly timers: Timers;
	/** Monotonic milliseconds. */
	readonly now: () => number;
	/** Told of what nobody has foreseen: a page must never end the process. */
	readonly onFault: (error: unknown) => void;
}

export interface StatusAnswer {
	readonly status: number;
	readonly body: string;
	readonly type?: string;
	readonly headers?: Readonly<Record<string, string>>;
}

/** `undefined`: it has answered by itself. */
export type StatusRoute = (request: IncomingMessage, response: ServerResponse) => StatusAnswer | undefined;

/** A snapshot that is younger serves all who ask, ms; a little less than the second between two updates. */
const FRESH_MS = 900;
const HISTORY_TICK_MS = 1_000;

/**
 * The status page, the same as JSON, and the stream of what changes. While nobody looks, only the history is written, once in ten
 * seconds for each upstream.
 */
export class StatusPages {
	readonly #parts: StatusParts;
	readonly #history: History;
	readonly #events: StatusEvents;
	readonly #hosts: ReadonlySet<string>;
	#read: Assets | undefined;
	#snapshot: { readonly value: Snapshot; readonly at: number } | undefined;

	constructor(parts: StatusParts) {
		const { source, timers, now, onFault } = parts;
		this.#parts = parts;
		this.#hosts = new Set(parts.hosts.map((name) => name.toLowerCase()));
		const counters = () => source.counters();
		const history = {
			upstreams: () => source.sampled(),
			ownAnswers: () => sum(counters().ownAnswers.values()),
			counters: () => countersOf(counters()),
		};
		this.#history = new History(history, now());
		const guarded = (run: () => void) => () => {
			try {
				run();
			} catch (error) {
				onFault(error);
			}
		};
		timers.every(
			HISTORY_TICK_MS,
			guarded(() => this.#history.tick(now())),
		);
		this.#events = new StatusEvents({
			timers: { ...timers, every: (ms, run) => timers.every(ms, guarded(run)) },
			render: (view) => renderMain(this.#page(view), view, this.#assets.build),
		});
	}

	/** By path. */
	get routes(): ReadonlyMap<string, StatusRoute> {
		return new Map<string, StatusRoute>([
			['/', (request) => this.#guarded(request) ?? this.#html(viewOf(request))],
			['/status.json', (request) => this.#guarded(request) ?? this.#json(viewOf(request))],
			['/status/events', (request, response) => this.#guarded(request) ?? this.#stream(request, response)],
		]);
	}

	#html(view: View): StatusAnswer {
		const { policy } = this.#assets;
		return {
			status: 200,
			body: renderPage(this.#page(view), view, this.#assets),
			type: 'text/html; charset=utf-8',
			headers: { ...HEADERS, 'content-security-policy': policy },
		};
	}

	#json(view: View): StatusAnswer {
		const body = `${JSON.stringify(this.#page(view))}\n`;
		return { status: 200, body, type: 'application/json', headers: HEADERS };
	}

	#stream(request: IncomingMessage, response: ServerResponse): StatusAnswer | undefined {
		// A page of somebody else's could take all places, though it reads nothing.
		const site = request.headers['sec-fetch-site'];
		if (site !== undefined && site !== 'same-origin') return { status: 403, body: 'for the status page alone' };
		// Behind another request of its connection, so that nobody gets it yet, and some versions of Node do not tell of its end.
		if (response.socket === null) return { status: 503, body: 'ask over a connection of its own' };
		if (this.#events.isFull) {
			const body = `${MAX_CLIENTS} readers look on already; ask /status.json from time to time`;
			return { status: 503, body, headers: { 'retry-after': '30' } };
		}
		response.writeHead(200, { ...HEADERS, 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
		if (request.method === 'HEAD') response.end();
		else this.#events.add(viewOf(request), response);
		return undefined;
	}

	#guarded({ headers }: IncomingMessage): StatusAnswer | undefined {
		if (mayAsk(headers.host, this.#hosts)) return undefined;
		return {
			status: 421,
			body: "this name could be anybody's: ask by the IP address, or add the name to hosts in [status]",
		};
	}

	#page(view: View): StatusPage {
		const now = this.#parts.now();
		if (this.#snapshot === undefined || now - this.#snapshot.at >= FRESH_MS) {
			this.#snapshot = { value: takeSnapshot(this.#parts.source.facts(), this.#history), at: now };
		}
		return pageOfSnapshot(this.#snapshot.value, view, this.#history, this.#snapshot.at);
	}

	/** Read when somebody asks for the first time. */
	get #assets(): Assets {
		this.#read ??= readAssets();
		return this.#read;
	}
}

/** Numbers and names of a private network: no other page frames them, reads them or learns where its reader came from. */
const HEADERS = {
	'x-content-type-options': 'nosniff',
	'x-frame-options': 'DENY',
	'referrer-policy': 'no-referrer',
	'cross-origin-resource-policy': 'same-origin',
	'cross-origin-opener-policy': 'same-origin',
	// No script and no frame, where a browser shows it as a document.
	'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
} as const;

function viewOf({ url }: IncomingMessage): View {
	return parseView(url!.split('?').slice(1).join('?'));
}
