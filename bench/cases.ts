/** The measurements of `npm run bench`, stored in results.json: the figures for the chart and the tables. */
export interface Case {
	readonly name: string;
	readonly title: string;
	/** Arguments of compare.py. */
	readonly args: readonly string[];
	/** Drawn in the chart, which has only a few cases. */
	readonly drawn?: true;
	/** A program that this case needs besides those of compare.py. */
	readonly needs?: string;
}

const H2 = ['--proto', 'h2', '--conns', '16', '--streams', '16'];
const MIB = ['--path', '/svc-a/1m', '--conns', '16'];

const VARIED = ['--vary', '1000'];

export const CASES: readonly Case[] = [
	{
		name: 'h2-varied',
		title: 'HTTP/2, 16 × 16, no two requests alike',
		args: [...H2, ...VARIED],
		drawn: true,
		needs: 'go',
	},
	{
		name: 'h1-varied',
		title: 'HTTP/1.1, 64 connections, no two requests alike',
		args: VARIED,
		drawn: true,
		needs: 'go',
	},
	{ name: 'h2', title: 'HTTP/2, 16 connections × 16 streams', args: H2, drawn: true },
	{ name: 'h2-paths', title: 'HTTP/2, 16 × 16, 1,000 paths in turn', args: [...H2, '--paths', '1000'] },
	{
		name: 'h2-single',
		title: 'HTTP/2, 64 connections × 1 stream',
		args: ['--proto', 'h2', '--conns', '64', '--streams', '1'],
	},
	{ name: 'h1', title: 'HTTP/1.1, 64 connections', args: [], drawn: true },
	{ name: 'h1-paths', title: 'HTTP/1.1, 64 connections, 1,000 paths in turn', args: ['--paths', '1000'] },
	{ name: 'h2-upstream', title: 'HTTP/2, 16 × 16, to an HTTP/2 upstream', args: [...H2, '--h2-upstream'] },
	{
		name: 'h2-upstream-varied',
		title: 'HTTP/2, 16 × 16, to an HTTP/2 upstream, no two requests alike',
		args: [...H2, '--h2-upstream', ...VARIED],
		needs: 'go',
	},
	{ name: 'unary', title: 'gRPC, unary, 100 bytes each way, 16 × 16', args: [...H2, '--unary'] },
	{
		name: 'websocket',
		title: 'WebSocket messages of 100 bytes each way, 64 connections',
		args: ['--websocket'],
		needs: 'go',
	},
	{ name: 'handshakes', title: 'New mTLS connections', args: ['--handshakes'], drawn: true },
	{ name: 'h1-mib', title: 'Answers of 1 MiB, HTTP/1.1, 16 connections', args: MIB },
	{ name: 'h2-mib', title: 'Answers of 1 MiB, HTTP/2, 16 connections', args: ['--proto', 'h2', ...MIB] },
];

/** A line of compare.py; CPU time in µs per request (per connection for handshakes), over the rounds. */
export interface Row {
	/** compare.py's name: `ours`, `haproxy whole job`, `nginx mTLS only` …. The first word is the key of its version. */
	readonly name: string;
	readonly cpu_us_median: number;
	readonly cpu_us_min: number;
	readonly cpu_us_max: number;
	readonly per_second_median: number;
	readonly rss_mib: number;
	readonly times_ours: number;
}

export interface CaseResult {
	/** Name of a `Case`. */
	readonly name: string;
	/** The measured version of this project. */
	readonly commit: string;
	readonly rounds: number;
	readonly seconds: number;
	readonly rows: readonly Row[];
}

export interface Results {
	readonly machine: string;
	/** By the first word of a row's name. */
	readonly versions: Readonly<Record<string, string>>;
	readonly cases: readonly CaseResult[];
}
