/** The library that reads and makes certificates. It is large, and loaded only by code that needs the contents of certificates. */
export type X509Library = typeof import('@peculiar/x509');

/**
 * Loads the library on first use. Its dependency injection refuses to load without the metadata functions of
 * `reflect-metadata`, but only ever asks them for constructor parameters that its classes do not declare: "none" is the true
 * answer, and a package for it would be one too many.
 */
export function loadX509(): Promise<X509Library> {
	// `unknown`, since a test's framework declares these functions.
	const reflect = Reflect as unknown as { getMetadata?: () => undefined; getOwnMetadata?: () => undefined };
	reflect.getMetadata ??= () => undefined;
	reflect.getOwnMetadata ??= () => undefined;
	return import('@peculiar/x509');
}
