/** The figures that README.md and docs/explanation/performance.md show are those of bench/results.json. After a benchmark the message has the rows to write. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { readPage } from '../../fixtures/doc-blocks.ts';

interface Row {
	readonly name: string;
	readonly cpu_us_median: number;
	readonly times_ours: number;
	readonly rss_mib: number;
}
interface Case {
	readonly name: string;
	readonly commit: string;
	readonly rows: readonly Row[];
}

const { cases }: { cases: readonly Case[] } = JSON.parse(readPage('bench/results.json'));
const SHOWN: Readonly<Record<string, string>> = {
	'h2-varied': 'varied, h2, 16 connections of 16 streams',
	'h1-varied': 'varied, http/1.1, 64 connections',
	h2: 'repeated, h2, 16 connections of 16 streams',
	'h2-paths': 'the same, 1,000 paths in turn',
	h1: 'repeated, http/1.1, 64 connections',
	'h2-upstream': 'repeated, h2, to an HTTP/2 upstream',
	unary: 'gRPC calls, 100 bytes each way',
	websocket: 'WebSocket messages, 100 bytes each way',
	'h1-mib': 'responses of 1 MiB, http/1.1',
	handshakes: 'a new mutual TLS connection',
};

/** Of all cases README.md has four that this proxy wins and one that it loses. */
const FIRST_SCREEN = ['h2-varied', 'h1-varied', 'h2', 'h1', 'handshakes'];

for (const [page, names] of [
	['README.md', FIRST_SCREEN],
	['docs/explanation/performance.md', Object.keys(SHOWN)],
] as const) {
	it(`${page} shows the figures of bench/results.json`, () => {
		const lines = readPage(page).split('\n');
		for (const name of names) {
			const title = SHOWN[name];
			const { rows } = cases.find((one) => one.name === name)!;
			const [ours, ...others] = ['ours', 'haproxy whole job', 'ferryman whole job', 'envoy whole job'].map((proxy) =>
				rows.find((row) => row.name === proxy),
			);
			// A proxy that was not on the machine has no figure.
			const cells = others.map((row) =>
				row === undefined ? '–' : `${micros(row.cpu_us_median)} (${row.times_ours.toFixed(1)} times)`,
			);
			assert.equal(
				lines.find((line) => line.startsWith(`| ${title} |`)),
				`| ${[title, micros(ours!.cpu_us_median), ...cells].join(' | ')} |`,
			);
		}
		const { rows } = cases.find(({ name }) => name === 'h2')!;
		for (const { name, rss_mib } of rows.filter(({ name }) => name === 'ours' || name === 'haproxy whole job')) {
			assert.match(readPage(page), new RegExp(`\\b${Math.round(rss_mib)} MiB`), `the memory of ${name}`);
		}
	});
}

it('README.md names the commit that was measured', () => {
	const commits = new Set(FIRST_SCREEN.map((name) => cases.find((one) => one.name === name)!.commit));
	for (const commit of commits) assert.ok(readPage('README.md').includes(commit), commit);
});

function micros(us: number): string {
	return `${us < 100 ? us.toFixed(1) : Math.round(us).toLocaleString('en')} µs`;
}
