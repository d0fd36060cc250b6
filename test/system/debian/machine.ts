/** A fresh Debian from this machine's mirror, started by systemd-nspawn with its own systemd, process table and network. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { globSync } from 'node:fs';
import { until, within } from '../../fixtures/wait.ts';
import { type Outcome, succeed, tool } from '../tools.ts';

/** Time for systemd and its services on a busy machine, ms. */
const BOOT_MS = 120_000;
const SUITE = 'bookworm';

/** Fills `root` with the smallest Debian that systemd starts in; without package lists, as in a cloud image. */
export function installDebian(root: string): void {
	const sources = globSync('/etc/apt/{sources.list,sources.list.d/*.{list,sources}}');
	succeed('mmdebstrap', ['--quiet', '--mode=root', '--variant=apt', '--include=systemd-sysv', SUITE, root, ...sources]);
}

const NSPAWN = ['--quiet', '--register=no', '--keep-unit', '--console=pipe', `--machine=edge-${process.pid}`];

// Where this machine also has version 1 hierarchies: the Debian uses version 2.
process.env.SYSTEMD_NSPAWN_UNIFIED_HIERARCHY = '1';

/** Runs commands in `root` before it is started: with this machine's network and the CAs that Node trusts here, without systemd. */
export function runBeforeBoot(root: string, code: string): Outcome {
	const authorities = process.env.NODE_EXTRA_CA_CERTS;
	const trust = authorities ? [`--bind-ro=${authorities}:${TRUSTED}`, `--setenv=NODE_EXTRA_CA_CERTS=${TRUSTED}`] : [];
	const args = [...NSPAWN, ...trust, '--as-pid2', '--chdir=/root', `--directory=${root}`];
	return tool('systemd-nspawn', [...args, 'bash', '--norc', '-euc', code]);
}

const TRUSTED = '/run/trusted.pem';

export class Machine implements AsyncDisposable {
	readonly #nspawn: ChildProcess;
	readonly #exited: Promise<unknown>;
	/** Process id of its systemd on this machine. */
	#leader = '';

	private constructor(nspawn: ChildProcess) {
		this.#nspawn = nspawn;
		this.#exited = once(nspawn, 'close');
	}

	/** Resolves when systemd has started all units. */
	static async boot(root: string): Promise<Machine> {
		const args = [...NSPAWN, '--boot', '--private-network', `--directory=${root}`];
		const machine = new Machine(spawn('systemd-nspawn', args, { stdio: 'ignore' }));
		await until(() => machine.#isUp(), 'systemd to be up', BOOT_MS);
		return machine;
	}

	/** Runs commands as root in one shell, in /root. */
	run(code: string): Outcome {
		const inside = ['bash', '--norc', '-euc', `cd /root\n${code}`];
		return tool('nsenter', ['--target', this.#leader, '--all', ...inside], { cwd: '/' });
	}

	/** @param pid of a process, as numbered inside the machine. */
	statusOf(pid: string): string {
		return this.run(`cat /proc/${pid}/status`).stdout;
	}

	async [Symbol.asyncDispose](): Promise<void> {
		if (this.#nspawn.exitCode === null && this.#leader !== '') this.run('systemctl poweroff --force');
		else this.#nspawn.kill('SIGKILL');
		await within(this.#exited, 'the end of the machine').catch(() => this.#nspawn.kill('SIGKILL'));
	}

	#isUp(): boolean {
		if (this.#nspawn.exitCode !== null) throw new Error(`systemd-nspawn ended with ${this.#nspawn.exitCode}`);
		const { pid } = this.#nspawn;
		this.#leader = spawnSync('pgrep', ['--parent', String(pid)], { encoding: 'utf8' }).stdout.trim();
		if (this.#leader === '') return false;
		return this.run('systemctl is-system-running').stdout.trim() === 'running';
	}
}
