import type { Page, Pages } from '../admin/listener.ts';
import { inSlices } from '../slices.ts';
import type { Timers } from '../timers.ts';
import { type Assets, readAssets } from './assets.ts';
import { countersOf } from './counts.ts';
import { History } from './history.ts';
import { jsonOf } from './json.ts';
import { renderBody, renderPage } from './page.ts';
import { judge, type Snapshot } from './problems.ts';
import { ownShareCounts } from './shares.ts';
import type { StatusReader } from './snapshot.ts';
import { pageOfSnapshot, parseView, queryOf, type StatusPage, type View } from './view.ts';

interface StatusParts {
	readonly source: Pick<StatusReader, 'read' | 'counters' | 'sampled'>;
	readonly timers: Timers;
	/** Monotonic milliseconds. */
	readonly now: () => number;
	/** Gets unexpected errors: a page must never end the process. */
	readonly onFault: (error: unknown) => void;
}

type Render = (status: StatusPage, view: View) => Generator<void, string>;

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
	/** Renderings of the last `FRESH_MS`, finished or under way, by path and view. */
	readonly #rendered = new Map<string, Promise<string>>();
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
		const html = 'text/html; charset=utf-8';
		const pages: readonly (readonly [path: string, type: string, render: Render])[] = [
			['/', html, (status, view) => renderPage(status, view, this.#assets)],
			// What the page's script asks for: the part that changes.
			['/status/page', html, (status, view) => renderBody(status, view, this.#assets.build)],
			['/status.json', 'application/json', jsonLineOf],
		];
		const pageOf = (path: string, type: string, render: Render): Page => {
			return async ({ url }) => {
				const body = await this.#once(path, parseView(url!.split('?').slice(1).join('?')), render);
				const headers = path === '/' ? { ...HEADERS, 'content-security-policy': this.#assets.policy } : HEADERS;
				return { status: 200, body, type, headers };
			};
		};
		return new Map(pages.map(([path, type, render]) => [path, pageOf(path, type, render)]));
	}

	/**
	 * One rendering serves all that ask for a view within `FRESH_MS`. With thousands of upstreams it takes a while, so it is made in
	 * slices, and renderings of several views one after the other.
	 */
	#once(path: string, view: View, render: Render): Promise<string> {
		this.#forgetOld(this.#parts.now());
		const key = path + queryOf(view);
		const known = this.#rendered.get(key);
		if (known !== undefined) return known;
		if (this.#rendered.size === 0) this.#renderedAt = this.#parts.now();
		const rendered = this.#last.then(() => inSlices(this.#steps(view, render)));
		this.#rendered.set(key, rendered);
		this.#last = rendered.catch(() => this.#rendered.delete(key));
		return rendered;
	}

	*#steps(view: View, render: Render): Generator<void, string> {
		const { value, at } = yield* this.#freshSnapshot();
		return yield* render(yield* pageOfSnapshot(value, view, this.#history, at), view);
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

function* jsonLineOf(status: StatusPage): Generator<void, string> {
	return `${yield* jsonOf(status)}\n`;
}
