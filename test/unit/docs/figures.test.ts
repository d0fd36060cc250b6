/** The figures that README.md and docs/explanation/performance.md show are those of bench/results.json. After a benchmark the message has the rows to write. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { readPage } from '../../fixtures/doc-blocks.ts';

type Row = Readonly<Record<'cpu_us_median' | 'times_ours' | 'rss_mib', number> & { name: string }>;
type Case = Readonly<{ name: string; commit: string; rows: readonly Row[] }>;

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
		const text = readPage(page);
		const rowOf = (name: string, proxy: string) =>
			cases.find((one) => one.name === name)!.rows.find((row) => row.name === proxy);
		for (const name of names) {
			const others = ['haproxy whole job', 'ferryman whole job', 'envoy whole job'].map((proxy) => {
				const row = rowOf(name, proxy);
				// A proxy that was not on the machine has no figure.
				return row === undefined ? '–' : `${micros(row.cpu_us_median)} (${row.times_ours.toFixed(1)} times)`;
			});
			const cells = [SHOWN[name], micros(rowOf(name, 'ours')!.cpu_us_median), ...others];
			const row = `| ${cells.join(' | ')} |`;
			assert.ok(text.includes(`\n${row}\n`), row);
		}
		for (const proxy of ['ours', 'haproxy whole job']) {
			assert.match(text, new RegExp(`\\b${Math.round(rowOf('h2', proxy)!.rss_mib)} MiB`), `the memory of ${proxy}`);
		}
	});
}

it('README.md names each commit that was measured', () => {
	for (const name of FIRST_SCREEN)
		assert.match(readPage('README.md'), new RegExp(cases.find((one) => one.name === name)!.commit));
});

function micros(us: number): string {
	return `${us < 100 ? us.toFixed(1) : Math.round(us).toLocaleString('en')} µs`;
}
