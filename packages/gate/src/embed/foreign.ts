/**
 * The one way in which foreign code is called: hooks and handlers of the program. Each of its faults reaches `failed`, once: what it
 * throws, which may be `undefined`, a promise or another thenable that rejects, and a `then` that throws.
 *
 * @param failed must not throw.
 * @param done gets what the code returns or resolves with. What `done` itself throws reaches `failed` as well.
 */
export function callForeign(
	code: () => unknown,
	failed: (error: unknown) => void,
	done: (value: unknown) => void = ignore,
): void {
	try {
		const value = code();
		if (!isThenable(value)) {
			done(value);
			return;
		}
		// Not `value.then`: only a promise of the language itself settles once, and later.
		new Promise((resolve) => resolve(value)).then(done).catch((error) => failed(visible(error)));
	} catch (error) {
		failed(visible(error));
	}
}

/** What was thrown, or an error in its place where looking at it throws, as at a proxy: `failed` will ask whether it is an error. */
function visible(thrown: unknown): unknown {
	try {
		void (thrown instanceof Error);
		return thrown;
	} catch {
		return new Error('something was thrown that cannot be looked at');
	}
}

/**
 * What foreign code answers that must not wait.
 *
 * @throws TypeError for a thenable, whose rejection then ends nothing; and whatever the code throws.
 */
export function answerNow<Answer>(code: () => Answer): Answer {
	const value = code();
	if (!isThenable(value)) return value;
	new Promise((resolve) => resolve(value)).catch(ignore);
	throw new TypeError('a promise where a value is wanted at once');
}

function ignore(): void {}

/** @throws whatever its `then` throws when it is read. */
function isThenable(value: unknown): value is PromiseLike<unknown> {
	if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return false;
	return typeof (value as { readonly then?: unknown }).then === 'function';
}
