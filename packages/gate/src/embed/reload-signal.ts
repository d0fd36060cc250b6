/** The reloads that SIGUSR1 runs: one for each open mTLS server of this process. */
const reloads = new Set<() => void>();
let installed = false;

/**
 * Runs `reload` at every SIGUSR1 from now on.
 *
 * @returns a function that ends this. The signal handler stays even when nothing is left to reload: without one, a late signal (during
 *   a drain, for example) would kill the process.
 */
export function onReloadSignal(reload: () => void): () => void {
	if (!installed) {
		installed = true;
		process.on('SIGUSR1', () => {
			for (const one of [...reloads]) one();
		});
	}
	reloads.add(reload);
	return () => reloads.delete(reload);
}
