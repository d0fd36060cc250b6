import { get } from 'node:http';

/** The text of `/metrics` on a loopback port. */
export function scrape(port: number): Promise<string> {
	return new Promise((resolve, reject) => {
		const request = get({ host: '127.0.0.1', port, path: '/metrics', agent: false }, (response) => {
			let text = '';
			response.setEncoding('utf8').on('data', (chunk: string) => {
				text += chunk;
			});
			response.on('end', () => resolve(text)).on('error', reject);
		});
		request.on('error', reject);
	});
}
