import { testPki } from '../fixtures/pki.ts';

const tokens = new Map<string, string>();

/** The tenant's token in this run, which may be longer than the usual lifetime of a token. */
export async function tokenOf(tenant: string): Promise<string> {
	const token =
		tokens.get(tenant) ?? (await testPki()).token(tenant, { exp: Math.floor(Date.now() / 1000) + 7 * 86_400 });
	tokens.set(tenant, token);
	return token;
}
