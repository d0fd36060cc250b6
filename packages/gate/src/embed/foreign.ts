/**
 * Calls code of the program (hooks and handlers); all such calls go through here. Each fault reaches `failed` once: a thrown value, also
 * `undefined`, a promise or thenable that rejects, and a `then` that throws.
 *
 * @param failed must not throw.
 * @param done gets the value that the code returns or resolves with. If `done` throws, `failed` gets that too.
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
		// Not `value.then`: only a native promise is sure to settle once and asynchronously.
		new Promise((resolve) => resolve(value)).then(done).catch((error) => failed(visible(error)));
	} catch (error) {
		failed(visible(error));
	}
}

/** The thrown value, or an `Error` in its place if `instanceof` throws on it, as it can on a `Proxy`. */
function visible(thrown: unknown): unknown {
	try {
		void (thrown instanceof Error);
		return thrown;
	} catch {
		return new Error('a value was thrown that cannot be inspected');
	}
}

/**
 * The value of code that must answer synchronously.
 *
 * @throws TypeError for a thenable (its later rejection is ignored), and whatever the code throws.
 */
export function answerNow<Answer>(code: () => Answer): Answer {
	const value = code();
	if (!isThenable(value)) return value;
	new Promise((resolve) => resolve(value)).catch(ignore);
	throw new TypeError('a promise was returned where a value is required');
}

function ignore(): void {}

/** @throws what the getter of `then` throws. */
function isThenable(value: unknown): value is PromiseLike<unknown> {
	if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return false;
	return typeof (value as { readonly then?: unknown }).then === 'function';
}
