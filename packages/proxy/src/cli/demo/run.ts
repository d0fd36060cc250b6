/**
 * `proxy demo`: everything on loopback. Creates certificates and tokens, starts sample upstreams and the real proxy,
 * shows a request of each kind, and keeps running for experiments.
 */
import { once } from 'node:events';
import type { SampleUpstreams, Stage } from './act.ts';
import { curlLines } from './curl-lines.ts';
import { startGrpcUpstream } from './grpc.ts';
import { type ProxyChild, startProxyChild } from './proxy-child.ts';
import { startSampleUpstream } from './sample-upstream.ts';
import { createScreen, type Output, type Screen } from './screen.ts';
import { initialGroups, initialRoutes, playShow } from './show.ts';
import { createWorkspace } from './workspace.ts';

interface DemoOptions {
	/** Exit after the show instead of staying up until SIGINT or SIGTERM. */
	readonly once: boolean;
	/** Where certificates, keys, tokens and the configuration go; made if needed. */
	readonly dir: string;
	readonly out: Output;
	/** The module of the `proxy` command. */
	readonly mainPath: string;
	/** Options of the runtime for the proxy, such as `-C boxed_body`. Default: this process's own. */
	readonly execArgv?: readonly string[];
	/** Default: this process's own. */
	readonly env?: NodeJS.ProcessEnv;
	/** ms since the epoch: certificates and tokens are valid from a little before it. Default: now. */
	readonly now?: number;
}

/**
 * Handles SIGINT, SIGTERM and SIGHUP while it runs: the first drains the proxy, the second cuts the drain short.
 *
 * @returns the exit code: 0 if every outcome was as expected and the proxy drained cleanly, else 1.
 */
export async function runDemo(options: DemoOptions): Promise<number> {
	const screen = createScreen(options.out, (options.env ?? process.env).NO_COLOR);
	const end = new AbortController();
	let proxy: ProxyChild | undefined;
	const onSignal = () => {
		if (end.signal.aborted) proxy?.stop();
		end.abort(INTERRUPTED);
	};
	// SIGHUP too: the proxy is in another process group and would outlive its terminal.
	for (const signal of SIGNALS) process.on(signal, onSignal);
	const [a, b, c1, c2] = await Promise.all(SAMPLES.map(startSampleUpstream));
	const grpc = await startGrpcUpstream(GRPC_SAMPLE);
	const upstreams = { a, b, c: [c1, c2], grpc } as SampleUpstreams;
	const failures: string[] = [];
	try {
		const stage = await setStage(options, screen, upstreams, end.signal);
		proxy = stage.proxy;
		void proxy.exited.then((code) => end.abort(`the proxy ended with ${code}`));
		failures.push(...(await playShow(stage)));
		if (!options.once && !end.signal.aborted) failures.push(...(await stayUp(stage)));
		failures.push(...(await drain(stage)));
	} catch (error) {
		// For example a file that cannot be written, or a proxy that does not start.
		failures.push((error as Error).message);
	} finally {
		for (const signal of SIGNALS) process.off(signal, onSignal);
		await Promise.all([a, b, c1, c2, grpc].map((upstream) => upstream?.close()));
	}
	return conclude(screen, failures);
}

const SAMPLES = ['svc-a', 'svc-b', 'svc-c-1', 'svc-c-2'] as const;
const GRPC_SAMPLE = 'greeter';
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
const INTERRUPTED = 'interrupted';

async function setStage(
	options: DemoOptions,
	screen: Screen,
	upstreams: SampleUpstreams,
	ended: AbortSignal,
): Promise<Stage> {
	const { dir, mainPath, execArgv = process.execArgv, env = process.env, now = Date.now() } = options;
	screen.heading(`Certificates, keys, tokens and configuration go to ${dir}; the proxy starts`);
	const workspace = await createWorkspace(dir, now);
	workspace.writeConfig(initialRoutes(upstreams), initialGroups(upstreams));
	const proxy = await startProxyChild({
		mainPath,
		execArgv,
		env,
		configPath: workspace.paths.config,
		onRecord: screen.record,
		onStray: screen.stray,
	});
	return { screen, workspace, proxy, upstreams, ended };
}

/** Waits until the user ends the demo, or the proxy exits, which is a failure. */
async function stayUp({ screen, ended, ...stage }: Stage): Promise<string[]> {
	screen.heading('It keeps running. From another shell, in this directory:');
	screen.text(`\n${curlLines(stage)}\nCtrl-C drains the proxy and ends the demo.`);
	if (!ended.aborted) await once(ended, 'abort');
	return ended.reason === INTERRUPTED ? [] : [String(ended.reason)];
}

async function drain({ screen, proxy }: Stage): Promise<string[]> {
	screen.heading('SIGTERM: requests in flight are finished, then the proxy exits');
	proxy.stop();
	const code = await proxy.exited;
	screen.outcome(code === 0, 'exit code', `${code}`);
	return code === 0 ? [] : [`the proxy's exit code was ${code}`];
}

function conclude(screen: Screen, failures: readonly string[]): number {
	if (failures.length === 0) {
		screen.text('\nEvery outcome was as expected.');
		return 0;
	}
	screen.text(`\nNot as expected:\n${failures.map((failure) => `  ${failure}`).join('\n')}`);
	return 1;
}
