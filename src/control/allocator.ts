/**
 * How malloc is to serve the workers; it was measured (`bench/RESULTS.md`). Of each small size glibc keeps pieces that a thread
 * has freed at hand for it, but no more than seven. One turn of a worker's loop ends dozens of requests, and each of them
 * frees dozens of Node's and nghttp2's small objects: most would be put together with their neighbours, to be cut off again
 * in the next turn. 512 of each size are at most 17 MiB for a thread.
 */
const TUNABLES = 'glibc.malloc.tcache_count=512';

/** Set by us for ourselves when we have started over: whether a reload had been asked for before that. */
const MARK = 'PROXY_STARTED_OVER';

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * glibc reads its tunables when a program begins, so the program has to begin again.
 *
 * @param platform `process.platform`.
 * @returns the environment to do so with. `undefined`: it has been done, somebody else has tuned glibc (be it with
 *   nothing), or this is no Linux. C libraries other than glibc take no notice of it.
 */
export function tunedEnvironment(platform: string, env: Environment, reloadAsked: boolean): Environment | undefined {
	// The mark alone says for sure that it was tried: a program with privileges of its own is not given the tunables.
	if (platform !== 'linux' || env.GLIBC_TUNABLES !== undefined || env[MARK] !== undefined) return undefined;
	return { ...env, GLIBC_TUNABLES: TUNABLES, [MARK]: reloadAsked ? 'reload' : '' };
}

/** Whether a reload was asked for before the process started over. */
export function reloadAskedBefore(env: Environment): boolean {
	return env[MARK] === 'reload';
}
