import type { IncomingMessage } from 'node:http';
import type { WorkerCounts } from '../../memory/worker-stats.ts';
import type { Page, PageResponse, Pages } from '../admin/listener.ts';
import { inSlices } from '../slices.ts';
import type { Timers } from '../timers.ts';
import { type Assets, readAssets } from './assets.ts';
import { countersOf } from './counts.ts';
import { History, type Sampled } from './history.ts';
import { jsonOf } from './json.ts';
import { renderBody, renderPage } from './page.ts';
import { judge } from './problems.ts';
import type { Found, Snapshot, StatusPage } from './schema.ts';
import { ownShareCounts } from './shares.ts';
import { pageOfSnapshot } from './snapshot.ts';
import { parseView, queryOf, type View } from './view.ts';

/** The source of the pages. */
export interface StatusSource {
	/** Reads everything; a step for each upstream and route. */
	read(history: History): Generator<void, Found>;
	/** The smaller part that the history needs. */
	counters(): WorkerCounts;
	/** Of the table in force. */
	sampled(): Iterable<Sampled>;
}

interface StatusParts {
	readonly source: StatusSource;
	readonly timers: Timers;
	/** Monotonic milliseconds. */
	readonly now: () => number;
	/** Gets unexpected errors: a page must never end the process. */
	readonly onFault: (error: unknown) => void;
}

/** How long a snapshot and its renderings serve all readers, ms. */
const FRESH_MS = 900;
const HISTORY_TICK_MS = 1_000;

/**
 * The status page, its changing part, and the same as JSON. While nobody reads them, only the history is written, once in ten
 * seconds for each upstream.
 */
export class StatusPages {
	readonly #parts: StatusParts;
	readonly #history: History;
	#read: Assets | undefined;
	#snapshot: { readonly value: Snapshot; readonly at: number } | undefined;
	/** Renderings of the last `FRESH_MS`, finished or under way, by kind and view. */
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
	}

	/** By path. */
	get routes(): Pages {
		return new Map<string, Page>([
			['/', (request) => this.#html(viewOf(request))],
			['/status.json', (request) => this.#json(viewOf(request))],
			['/status/page', (request) => this.#body(viewOf(request))],
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
			this.#snapshot = { value: judge(yield* this.#parts.source.read(this.#history)), at: now };
		}
		return this.#snapshot;
	}

	#forgetOld(now: number): void {
		if (now - this.#renderedAt >= FRESH_MS) this.#rendered.clear();
	}

	async #html(view: View): Promise<PageResponse> {
		const { policy } = this.#assets;
		return {
			status: 200,
			body: await this.#once('html', view, (page) => renderPage(page, view, this.#assets)),
			type: 'text/html; charset=utf-8',
			headers: { ...HEADERS, 'content-security-policy': policy },
		};
	}

	/** What the page's script asks for: the part that changes. */
	async #body(view: View): Promise<PageResponse> {
		const body = await this.#once('body', view, (page) => renderBody(page, view, this.#assets.build));
		return { status: 200, body, type: 'text/html; charset=utf-8', headers: HEADERS };
	}

	async #json(view: View): Promise<PageResponse> {
		const body = await this.#once('json', view, jsonOf);
		return { status: 200, body: `${body}\n`, type: 'application/json', headers: HEADERS };
	}

	/** Read with the first request. */
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
	// No script and no frame if a browser shows it as a document.
	'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
} as const;

function viewOf({ url }: IncomingMessage): View {
	return parseView(url!.split('?').slice(1).join('?'));
}
