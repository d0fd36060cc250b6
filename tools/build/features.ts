/** The build-time features. Each is a condition of the package's `imports` map, where it chooses a module. */
export const FEATURES: readonly string[] = ['boxed_body'];

/**
 * The features in `--features a,b --features c`, each once.
 * @throws {Error} naming the feature that does not exist
 */
export function parseFeatures(values: readonly string[]): string[] {
	const names = values.flatMap((value) => value.split(',')).map((name) => name.trim());
	for (const name of names) {
		if (!FEATURES.includes(name)) throw new Error(`there is no feature '${name}'`);
	}
	return [...new Set(names)];
}
