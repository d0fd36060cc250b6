import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Answer, Page, Pages } from '../admin/page.ts';
import { inSlices } from '../slices.ts';
import type { Timers } from '../timers.ts';
import { type Assets, readAssets } from './assets.ts';
import { countersOf } from './counts.ts';
import { MAX_CLIENTS, StatusEvents } from './events.ts';
import type { CounterFacts, Facts } from './facts.ts';
import { History, type Sampled } from './history.ts';
import { jsonOf } from './json.ts';
import { renderMain, renderPage } from './page.ts';
import type { Snapshot, StatusPage } from './schema.ts';
import { ownShareCounts } from './shares.ts';
import { pageOfSnapshot, takeSnapshot } from './snapshot.ts';
import { parseView, queryOf, type View } from './view.ts';

/** What the pages are made of. */
export interface FactSource {
	/** All of it, anew; a step for each upstream and route. */
	facts(): Generator<void, Facts>;
	/** What the history wants of it, which is less. */
	counters(): CounterFacts;
	/** Of the table in force. */
	sampled(): Iterable<Sampled>;
}

export interface StatusParts {
	readonly source: FactSource;
	readonly timers: Timers;
	/** Monotonic milliseconds. */
	readonly now: () => number;
	/** Told of what nobody has foreseen: a page must never end the process. */
	readonly onFault: (error: unknown) => void;
}

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
	#read: Assets | undefined;
	#snapshot: { readonly value: Snapshot; readonly at: number } | undefined;
	/** What was rendered in the last `FRESH_MS`, or is about to be, by what it is and by view. */
	readonly #rendered = new Map<string, Promise<unknown>>();
	#renderedAt = 0;
	/** The last of the renderings, which are made one after the other. */
	#last: Promise<unknown> = Promise.resolve();

	constructor(parts: StatusParts) {
		const { source, timers, now, onFault } = parts;
		this.#parts = parts;
		const counters = () => source.counters();
		const history = {
			upstreams: () => source.sampled(),
			own: () => ownShareCounts(counters()),
			counters: () => countersOf(counters()),
		};
		this.#history = new History(history, now());
		timers.every(HISTORY_TICK_MS, () => {
			try {
				this.#history.tick(now());
				this.#forgetOld(now());
			} catch (error) {
				onFault(error);
			}
		});
		this.#events = new StatusEvents({
			timers,
			render: (view) => this.#once('main', view, (page) => renderMain(page, view, this.#assets.build)),
			onFault,
		});
	}

	/** By path. */
	get routes(): Pages {
		return new Map<string, Page>([
			['/', (request) => this.#html(viewOf(request))],
			['/status.json', (request) => this.#json(viewOf(request))],
			['/status/events', (request, response) => this.#stream(request, response)],
		]);
	}

	/**
	 * One rendering serves all that ask for a view within `FRESH_MS`. With thousands of upstreams it takes a while, so it is made in
	 * slices, and renderings of several views one after the other.
	 *
	 * @param what one kind of result.
	 */
	#once<Rendered>(
		what: string,
		view: View,
		render: (page: StatusPage) => Generator<void, Rendered>,
	): Promise<Rendered> {
		this.#forgetOld(this.#parts.now());
		const key = `${what} ${queryOf(view)}`;
		const known = this.#rendered.get(key);
		if (known !== undefined) return known as Promise<Rendered>;
		if (this.#rendered.size === 0) this.#renderedAt = this.#parts.now();
		const rendered = this.#last.then(() => inSlices(this.#steps(view, render)));
		this.#rendered.set(key, rendered);
		this.#last = rendered.catch(() => this.#rendered.delete(key));
		return rendered;
	}

	*#steps<Rendered>(view: View, render: (page: StatusPage) => Generator<void, Rendered>): Generator<void, Rendered> {
		const { value, at } = yield* this.#freshSnapshot();
		return yield* render(yield* pageOfSnapshot(value, view, this.#history, at));
	}

	*#freshSnapshot(): Generator<void, { readonly value: Snapshot; readonly at: number }> {
		const now = this.#parts.now();
		if (this.#snapshot === undefined || now - this.#snapshot.at >= FRESH_MS) {
			const facts = yield* this.#parts.source.facts();
			this.#snapshot = { value: yield* takeSnapshot(facts, this.#history), at: now };
		}
		return this.#snapshot;
	}

	#forgetOld(now: number): void {
		if (now - this.#renderedAt >= FRESH_MS) this.#rendered.clear();
	}

	async #html(view: View): Promise<Answer> {
		const { policy } = this.#assets;
		return {
			status: 200,
			body: await this.#once('html', view, (page) => renderPage(page, view, this.#assets)),
			type: 'text/html; charset=utf-8',
			headers: { ...HEADERS, 'content-security-policy': policy },
		};
	}

	async #json(view: View): Promise<Answer> {
		const body = await this.#once('json', view, jsonOf);
		return { status: 200, body: `${body}\n`, type: 'application/json', headers: HEADERS };
	}

	#stream(request: IncomingMessage, response: ServerResponse): Answer | undefined {
		if (!isOwnPage(request)) return { status: 403, body: 'for the status page alone' };
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
	// Our own page names itself when it asks for the stream; nobody else learns of it.
	'referrer-policy': 'same-origin',
	'cross-origin-resource-policy': 'same-origin',
	'cross-origin-opener-policy': 'same-origin',
	// No script and no frame, where a browser shows it as a document.
	'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
} as const;

/**
 * Whether our own page asks, or no browser at all. A foreign page could take all places for readers, although it can read nothing.
 * Browsers leave `Sec-Fetch-Site` out over plain HTTP, but a browser that follows our `Referrer-Policy` always names our page.
 */
function isOwnPage({ headers }: IncomingMessage): boolean {
	const { referer, host, origin } = headers;
	const site = headers['sec-fetch-site'];
	if (site !== undefined) return site === 'same-origin';
	if (referer !== undefined) return URL.parse(referer)?.host === host;
	return origin === undefined && !/^Mozilla\//.test(headers['user-agent'] ?? '');
}

function viewOf({ url }: IncomingMessage): View {
	return parseView(url!.split('?').slice(1).join('?'));
}
