/** The library that reads and makes certificates. It is large, so only code that needs the contents of certificates loads it. */
export type X509Library = typeof import('@peculiar/x509');

/**
 * Loads the library on first use. Its dependency injection refuses to load without the metadata functions of `reflect-metadata`. It
 * only asks them for constructor parameters, which its classes do not declare. So "none" is the correct answer, and the package is
 * not needed.
 */
export function loadX509(): Promise<X509Library> {
	// `unknown`, since the test framework declares these functions as well.
	const reflect = Reflect as unknown as { getMetadata?: () => undefined; getOwnMetadata?: () => undefined };
	reflect.getMetadata ??= () => undefined;
	reflect.getOwnMetadata ??= () => undefined;
	return import('@peculiar/x509');
}
