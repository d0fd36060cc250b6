/** What SIGUSR1 reloads: every mTLS server of this process that is not closed. */
const reloads = new Set<() => void>();
let installed = false;

/**
 * Runs `reload` at every SIGUSR1 from now on.
 *
 * @returns a function that ends this. The process's own handler stays even when nothing is left to reload: without one
 *   a signal that comes late, during a drain for example, kills the process.
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
