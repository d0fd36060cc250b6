// Without this script the page is complete, but does not change. The script keeps it up to date: it asks for the part that changes,
// and morphdom updates only what differs, so that focus, selection and scrolling stay. uPlot draws the charts.

(() => {
	/** Pause between two announcements for screen readers, ms. */
	const LEAST_BETWEEN_ANNOUNCEMENTS = 10_000;
	/** Between two updates, ms. */
	const POLL_EVERY = 2_000;
	/** Limit for a response, ms. */
	const PATIENCE = 10_000;
	const TYPING_PAUSE = 300;

	/** @param {string} id */
	const byId = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

	// --- What is on the page. ---

	/** @param {string} markup of the part that changes. */
	function show(markup) {
		const template = document.createElement('template');
		template.innerHTML = markup;
		const after = /** @type {HTMLElement} */ (template.content.firstElementChild);
		// Another version of the proxy has other scripts.
		if (after.dataset.build !== firstBuild) return location.reload();
		morphdom(byId('page'), after, {
			onBeforeElUpdated: (from, to) => {
				// Details that a reader has opened stay open.
				if (from instanceof HTMLDetailsElement && from.open) to.setAttribute('open', '');
				// Keeps charts, and fields that somebody is typing into.
				return !('keep' in from.dataset && 'keep' in to.dataset) && !from.isEqualNode(to);
			},
		});
		document.body.classList.remove('stale');
		shownAt = new Date();
		drawAll();
		announce();
	}

	/** When the figures on the page were made, by the reader's clock. */
	let shownAt = new Date();
	const firstBuild = byId('page').dataset.build;

	// --- For screen readers: only the verdict, and not too often. ---

	function verdictNow() {
		const items = [...document.querySelectorAll('#summary li')].map((item) => item.textContent);
		return [byId('verdict').textContent, ...items].join('. ');
	}

	const host = document.title.split(' – ').at(-1);
	let announced = verdictNow();
	let silentUntil = 0;

	function announce() {
		const verdict = verdictNow();
		document.title = `${byId('verdict').textContent} – ${host}`;
		if (verdict === announced || Date.now() < silentUntil) return;
		announced = verdict;
		silentUntil = Date.now() + LEAST_BETWEEN_ANNOUNCEMENTS;
		byId('announcement').textContent = verdict;
	}

	// --- Charts. ---

	/** @typedef {(number | null)[]} Column */
	/** @typedef {'rate' | 'errors' | 'latency'} Kind */
	/** @type {Map<HTMLElement, { plot: uPlot, drawn: string }>} */
	const plots = new Map();

	function drawAll() {
		/** @type {Record<string, Partial<Record<Kind, Column[]>>>} */
		const data = JSON.parse(byId('chart-data').textContent ?? '');
		for (const [element, { plot }] of plots) {
			if (element.isConnected) continue;
			plot.destroy();
			plots.delete(element);
		}
		for (const element of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll('.chart'))) {
			const { row = '', series } = element.dataset;
			draw(element, data[row]?.[/** @type {Kind} */ (series)]);
		}
	}

	/**
	 * @param {HTMLElement} element
	 * @param {Column[] | undefined} columns
	 */
	function draw(element, columns) {
		const known = plots.get(element);
		const drawn = JSON.stringify(columns ?? null);
		if (known?.drawn === drawn) return;
		if (columns === undefined || columns.every((values) => values.every((value) => value === null))) {
			known?.plot.destroy();
			plots.delete(element);
			element.replaceChildren();
			return;
		}
		const times = (columns[0] ?? []).map((_, i, { length }) => (i + 1 - length) / 6);
		const values = /** @type {uPlot.AlignedData} */ (/** @type {unknown} */ ([times, ...columns]));
		if (known === undefined) plots.set(element, { plot: create(element, values), drawn });
		else {
			known.plot.setData(values);
			known.drawn = drawn;
		}
	}

	/**
	 * @param {HTMLElement} element
	 * @param {uPlot.AlignedData} values
	 */
	function create(element, values) {
		const large = element.classList.contains('large');
		const kind = /** @type {Kind} */ (element.dataset.series);
		const { scale, label, series } = KINDS[kind];
		// An empty element has no size.
		element.append(document.createElement('i'));
		const { width, height } = sizeOf(element);
		element.replaceChildren();
		/** @param {string} name */
		const colour = (name) => () => getComputedStyle(element).getPropertyValue(name);
		/** @param {uPlot.Axis} axis */
		const axis = (axis) => ({
			stroke: colour('--quiet'),
			grid: { stroke: colour('--grid'), width: 1 },
			ticks: { show: false },
			font: '11px system-ui, sans-serif',
			...axis,
		});
		return new uPlot(
			{
				width,
				height,
				padding: large ? [8, 14, 0, 0] : [2, 2, 2, 2],
				cursor: { show: false },
				legend: { show: false },
				scales: { x: { time: false, range: [-10, 0] }, y: scale },
				axes: large
					? [
							axis({ splits: TIMES, values: (_, ticks) => ticks.map(minutesAgo), size: 26 }),
							axis({
								values: (_, ticks) => ticks.map((tick) => (tick === null ? '' : label(tick))),
								size: 58,
								space: 34,
							}),
						]
					: [{ show: false }, { show: false }],
				series: [
					{},
					...series.map(({ fill, ...line }) => ({
						width: 1.5,
						points: { show: false },
						spanGaps: false,
						...line,
						stroke: colour(line.stroke),
						...(fill && { fill: colour(fill) }),
					})),
				],
			},
			values,
			element,
		);
	}

	/** Minutes with a label. None at the left end, where the other axis has its lowest label. */
	const TIMES = () => [-8, -6, -4, -2, 0];
	/** @param {number} minutes */
	const minutesAgo = (minutes) => (minutes === 0 ? 'now' : `${minutes} min`);

	/** @type {(least: number) => uPlot.Scale} from zero, up to `least` at least. */
	const fromZero = (least) => ({ range: (_, __, most) => [0, most > least ? most * 1.1 : least] });

	/**
	 * How each kind of chart is drawn. p50 and p99 are far apart: on a logarithmic scale both can be read.
	 *
	 * @type {Record<Kind, { scale: uPlot.Scale, label: (value: number) => string, series: { stroke: string, fill?: string, dash?: number[] }[] }>}
	 */
	const KINDS = {
		rate: {
			scale: fromZero(1),
			label: String,
			series: [
				{ stroke: '--series-1', fill: '--fill' },
				{ stroke: '--bad', fill: '--bad-fill' },
			],
		},
		errors: {
			scale: fromZero(0.01),
			label: (share) => `${Number((share * 100).toPrecision(3))} %`,
			series: [{ stroke: '--bad', fill: '--bad-fill' }],
		},
		latency: {
			scale: {
				distr: 3,
				range: (_, least, most) => [
					10 ** Math.floor(Math.log10(least || 0.001)),
					10 ** Math.ceil(Math.log10((most || 0.001) * 1.01)),
				],
			},
			label: latency,
			series: [{ stroke: '--series-1', dash: [4, 3] }, { stroke: '--series-2' }],
		},
	};

	/** @param {number} seconds */
	function latency(seconds) {
		const [value, unit] = seconds < 1 ? [seconds * 1000, 'ms'] : [seconds, 's'];
		return `${Number(value.toPrecision(3))} ${unit}`;
	}

	/** @param {HTMLElement} element */
	function sizeOf({ clientWidth, clientHeight }) {
		return { width: Math.max(clientWidth, 40), height: Math.max(clientHeight, 20) };
	}

	new ResizeObserver(() => {
		for (const [element, { plot }] of plots) {
			if (plot.width !== element.clientWidth) plot.setSize(sizeOf(element));
		}
	}).observe(document.body);

	// Colours are read when something is drawn.
	matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
		for (const { plot } of plots.values()) plot.redraw();
	});

	// --- Where the news comes from. ---

	/** Ends the request under way, and the timer after it. */
	let stop = () => {};
	let paused = false;

	/** Asks for the page's changing part again and again. */
	function start() {
		stop();
		// A hidden page asks for nothing.
		if (paused || document.hidden) return;
		const ended = new AbortController();
		stop = () => ended.abort();
		void poll(ended.signal);
	}

	/** @param {AbortSignal} ended */
	async function poll(ended) {
		try {
			const signal = AbortSignal.any([ended, AbortSignal.timeout(PATIENCE)]);
			const response = await fetch(`/status/page${location.search}`, { signal });
			if (!response.ok) throw new Error(`${response.status}`);
			const markup = await response.text();
			if (ended.aborted) return;
			say('Live', true);
			show(markup);
		} catch {
			if (ended.aborted) return;
			lost();
		}
		const timer = setTimeout(() => void poll(ended), POLL_EVERY);
		ended.addEventListener('abort', () => clearTimeout(timer));
	}

	/** Marks the page as stale, so that nobody takes old figures for current ones. */
	function lost() {
		document.body.classList.add('stale');
		document.title = `No answer – ${host}`;
		say(`No answer: these figures are from ${shownAt.toLocaleTimeString()}; retrying`);
	}

	/**
	 * @param {string} words
	 * @param {boolean} on
	 */
	function say(words, on = false) {
		const state = byId('live-state');
		if (state.textContent !== words) state.textContent = words;
		state.classList.toggle('on', on);
	}

	const pause = byId('pause');
	pause.hidden = false;
	pause.addEventListener('click', () => {
		paused = !paused;
		pause.textContent = paused ? 'Resume' : 'Pause';
		if (paused) say('Paused');
		start();
	});
	document.addEventListener('visibilitychange', start);

	// --- Which part of the upstreams. ---

	/**
	 * @param {string} query
	 * @param {'pushState' | 'replaceState'} how
	 */
	function view(query, how) {
		history[how](null, '', query === '' ? '/' : `?${query}`);
		start();
	}

	addEventListener('popstate', () => {
		const fields = new URLSearchParams(location.search);
		const input = document.getElementById('filter');
		if (input instanceof HTMLInputElement) input.value = fields.get('filter') ?? '';
		const box = document.querySelector('input[name=show]');
		if (box instanceof HTMLInputElement) box.checked = fields.has('show');
		start();
	});
	document.addEventListener('click', (event) => {
		const link = event.target instanceof Element ? event.target.closest('a[data-view]') : null;
		if (!(link instanceof HTMLAnchorElement) || event.ctrlKey || event.metaKey || event.shiftKey) return;
		event.preventDefault();
		view(link.search.slice(1), 'pushState');
	});

	/** @param {Event} event */
	function filter({ target }) {
		const form = target instanceof Element ? target.closest('form') : null;
		if (form === null) return;
		const fields = new URLSearchParams(/** @type {any} */ (new FormData(form)));
		if (fields.get('filter') === '') fields.delete('filter');
		// Otherwise each letter would be a step in the browser's history.
		view(fields.toString(), 'replaceState');
	}
	/** @type {number | undefined} */
	let typing;
	document.addEventListener('input', (event) => {
		clearTimeout(typing);
		typing = setTimeout(() => filter(event), TYPING_PAUSE);
	});
	document.addEventListener('submit', (event) => {
		event.preventDefault();
		clearTimeout(typing);
		filter(event);
	});

	drawAll();
	start();
})();
