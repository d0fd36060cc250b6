// The page is whole without this script, as it was when it was asked for. The script keeps it up to date: the server sends elements
// that have changed, and morphdom changes of the page what differs, so that focus, selection and scrolling stay. uPlot draws.

(() => {
	/** What follows the last change that was told, for screen readers, ms. */
	const LEAST_BETWEEN_ANNOUNCEMENTS = 10_000;
	/** Where there is no place for one more reader of the stream: the whole page so often, ms. */
	const POLL_EVERY = 10_000;
	/** After so many polls the stream is tried again. */
	const POLLS_BEFORE_STREAM = 6;
	const TYPING_PAUSE = 300;

	/** @param {string} id */
	const byId = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

	// --- What is on the page. ---

	/** @param {string} markup */
	function replace(markup) {
		const template = document.createElement('template');
		template.innerHTML = markup;
		const after = /** @type {HTMLElement} */ (template.content.firstElementChild);
		const before = document.getElementById(after.id);
		// Of a page that has changed more than this: what follows will say.
		if (before === null) return;
		morphdom(before, after, {
			// What the script has drawn, and what somebody is typing into.
			onBeforeElUpdated: (from, to) => !('keep' in from.dataset && 'keep' in to.dataset) && !from.isEqualNode(to),
		});
	}

	/** @param {readonly string[]} elements */
	function show(elements) {
		for (const element of elements) replace(element);
		const { build } = byId('page').dataset;
		// Another version of the proxy has other scripts.
		if (build !== firstBuild) return location.reload();
		document.body.classList.remove('stale');
		shownAt = new Date();
		drawAll();
		announce();
	}

	/** When the figures on the page were made, by the reader's clock. */
	let shownAt = new Date();
	const firstBuild = byId('page').dataset.build;

	// --- For those who do not see what changes: the verdict alone, and not too often. ---

	function verdictNow() {
		const items = [...document.querySelectorAll('#summary li')].map((item) => item.textContent);
		return [byId('verdict').textContent, ...items].join('. ');
	}

	let announced = verdictNow();
	let silentUntil = 0;

	function announce() {
		const verdict = verdictNow();
		document.title = `${byId('verdict').textContent} – mtls-edge-proxy`;
		if (verdict === announced || Date.now() < silentUntil) return;
		announced = verdict;
		silentUntil = Date.now() + LEAST_BETWEEN_ANNOUNCEMENTS;
		byId('announcement').textContent = verdict;
	}

	// --- Charts. ---

	/** @typedef {[rate: (number | null)[], p50: (number | null)[], p99: (number | null)[]]} Columns */
	/** @type {Map<HTMLElement, { plot: uPlot, drawn: string }>} */
	const plots = new Map();

	function drawAll() {
		/** @type {{ total: Columns, rows: (Columns | null)[] }} */
		const data = JSON.parse(byId('chart-data').textContent ?? '');
		for (const [element, { plot }] of plots) {
			if (element.isConnected) continue;
			plot.destroy();
			plots.delete(element);
		}
		for (const element of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll('.chart'))) {
			const { row, series } = element.dataset;
			const columns = row === 'total' ? data.total : data.rows[Number(row)];
			draw(element, series === 'rate' ? columns?.slice(0, 1) : columns?.slice(1));
		}
	}

	/**
	 * @param {HTMLElement} element
	 * @param {(number | null)[][] | undefined} columns
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
		const rate = element.dataset.series === 'rate';
		// What is empty has no size.
		element.append(document.createElement('i'));
		const { width, height } = sizeOf(element);
		element.replaceChildren();
		/** @param {string} name */
		const colour = (name) => () => getComputedStyle(element).getPropertyValue(name);
		/** @param {string} name */
		const line = (name) => ({ stroke: colour(name), width: 1.5, points: { show: false }, spanGaps: false });
		/** @param {uPlot.Axis} axis */
		const axis = (axis) => ({
			stroke: colour('--quiet'),
			grid: { stroke: colour('--grid'), width: 1 },
			ticks: { show: false },
			font: '11px system-ui, sans-serif',
			...axis,
		});
		/** @param {number} minutes */
		const ago = (minutes) => (minutes === 0 ? 'now' : `${minutes} min`);
		return new uPlot(
			{
				width,
				height,
				padding: large ? [8, 12, 0, 0] : [2, 2, 2, 2],
				cursor: { show: false },
				legend: { show: false },
				scales: {
					x: { time: false, range: [-10, 0] },
					y: { range: (_, __, most) => [0, most > 0 ? most * 1.1 : 1] },
				},
				axes: large
					? [
							axis({ values: (_, ticks) => ticks.map(ago), size: 26 }),
							axis({ values: (_, ticks) => ticks.map(rate ? String : latency), size: 58 }),
						]
					: [{ show: false }, { show: false }],
				series: rate
					? [{}, { ...line('--series-1'), fill: colour('--fill') }]
					: [{}, { ...line('--series-1'), dash: [4, 3] }, line('--series-2')],
			},
			values,
			element,
		);
	}

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

	/** @type {EventSource | undefined} */
	let stream;
	/** @type {number | undefined} */
	let poll;
	let paused = false;

	function start() {
		stop();
		if (paused || document.hidden) return;
		const opened = new EventSource(`/status/events${location.search}`);
		stream = opened;
		opened.onmessage = ({ data }) => {
			say('Live', true);
			show(JSON.parse(data));
		};
		opened.onerror = () => {
			if (opened.readyState !== EventSource.CLOSED) return lost();
			stop();
			pollPage(POLLS_BEFORE_STREAM);
		};
	}

	function stop() {
		stream?.close();
		stream = undefined;
		clearTimeout(poll);
	}

	/** @param {number} left before the stream is tried again. */
	async function pollPage(left) {
		try {
			const answer = await fetch(`/${location.search}`);
			if (!answer.ok) throw new Error(`${answer.status}`);
			const page = new DOMParser().parseFromString(await answer.text(), 'text/html').getElementById('page');
			if (page !== null) show([page.outerHTML]);
			say('Many look on: brought up to date every 10 seconds');
		} catch {
			lost();
		}
		if (stream !== undefined || paused) return;
		poll = setTimeout(() => (left > 1 ? pollPage(left - 1) : start()), POLL_EVERY);
	}

	/** What the page shows is of the past: nobody is to take it for what is so. */
	function lost() {
		document.body.classList.add('stale');
		document.title = 'No answer – mtls-edge-proxy';
		say(`No answer: the figures are of ${shownAt.toLocaleTimeString()}; trying again`);
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
		pause.textContent = paused ? 'Go on' : 'Pause';
		if (paused) say('Paused');
		start();
	});
	// A page that nobody sees takes no reader's place.
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
		// Each letter would be a step back otherwise.
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
