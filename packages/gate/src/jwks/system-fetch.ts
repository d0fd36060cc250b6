import { type Fetch, FetchError } from './fetch-keys.ts';

/** Node's `fetch`. It refuses to fetch keys if the environment switches certificate checks off. */
export const systemFetch: Fetch = async (address, init) => {
	if (process.env.NODE_TLS_REJECT_UNAUTHORIZED === '0' && URL.parse(address)?.protocol === 'https:') {
		throw new FetchError('NODE_TLS_REJECT_UNAUTHORIZED=0 disables certificate verification; unset it');
	}
	return fetch(address, init);
};
