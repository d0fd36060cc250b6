/** An image built by buildah, run by bubblewrap as a strict runtime would: fixed user, no capability, read-only root, its own network. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import type { Readable } from 'node:stream';
import { json } from 'node:stream/consumers';
import { within } from '../../fixtures/wait.ts';

/** The parts of an image's configuration that a runtime reads (OCI image configuration, and Docker's `Healthcheck`). */
export interface ImageConfig {
	readonly User: string;
	readonly Env: readonly string[];
	readonly Entrypoint: readonly string[];
	readonly WorkingDir: string;
	readonly StopSignal: string;
	readonly ExposedPorts: Readonly<Record<string, object>>;
	readonly Labels: Readonly<Record<string, string>>;
	readonly Healthcheck: { readonly Test: readonly string[] };
}

export interface Container extends AsyncDisposable {
	/** Standard output and standard error so far. */
	output(): string;
	/** Process id of the image's command on this machine. */
	pid(): number;
	/** Like `docker exec`: in its namespaces, as its user. */
	exec(...command: string[]): { readonly status: number | null; readonly output: string };
	/** Like `docker stop`: sends the image's stop signal. @returns the exit code */
	stop(): Promise<number | null>;
}

/** @param etc folder to mount, read-only, as the image's working directory */
export async function startContainer(root: string, config: ImageConfig, etc: string): Promise<Container> {
	const [uid = 0, gid = 0] = config.User.split(':').map(Number);
	const environment = config.Env.flatMap((pair) => {
		const [name = '', ...value] = pair.split('=');
		return ['--setenv', name, value.join('=')];
	});
	const args = [
		...['--unshare-all', '--cap-drop', 'ALL', '--die-with-parent', '--new-session'],
		...['--ro-bind', root, '/', '--proc', '/proc', '--dev', '/dev', '--ro-bind', etc, config.WorkingDir],
		...['--chdir', config.WorkingDir, '--clearenv', ...environment, '--info-fd', '3', '--', ...config.Entrypoint],
	];
	const child = spawn('bwrap', args, { uid, gid, stdio: ['ignore', 'pipe', 'pipe', 'pipe'] });
	const exited = once(child, 'close') as Promise<[number | null]>;
	let output = '';
	for (const stream of [child.stdout, child.stderr]) stream?.setEncoding('utf8').on('data', (text) => (output += text));
	// bubblewrap's first process in the new namespaces is their init; the image's own command is its child.
	const { 'child-pid': init } = (await within(json(child.stdio[3] as Readable), 'bubblewrap')) as {
		'child-pid': number;
	};
	const command = () => {
		const { stdout } = spawnSync('pgrep', ['-P', String(init)], { encoding: 'utf8' });
		return Number(stdout.trim().split('\n')[0] || init);
	};
	return {
		output: () => output,
		pid: command,
		exec: (...words) => {
			const into = ['-t', String(command()), '-m', '-p', '-n', '-i', '-u', '-S', String(uid), '-G', String(gid)];
			const { status, stdout, stderr } = spawnSync('nsenter', [...into, '--', ...words], {
				encoding: 'utf8',
				env: Object.fromEntries(config.Env.map((pair) => pair.split('=', 2))),
			});
			return { status, output: `${stdout}${stderr}` };
		},
		stop: async () => {
			process.kill(command(), config.StopSignal as NodeJS.Signals);
			return (await within(exited, () => `the end of the container: ${output}`))[0];
		},
		[Symbol.asyncDispose]: async () => {
			kill(child);
			await exited;
		},
	};
}

function kill(child: ChildProcess): void {
	if (child.exitCode === null) child.kill('SIGKILL');
}
