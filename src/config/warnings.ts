import type { Config } from './config.ts';

/** What is allowed but hardly ever meant; one sentence each, to be logged at start and after a reload. */
export function configWarnings({ jwt, routes, limits }: Config): string[] {
	const warnings: string[] = [];
	if (jwt.issuer === undefined) {
		warnings.push(
			'jwt.issuer is not set: tokens of any issuer are accepted if the key fits; set it unless this is local',
		);
	}
	if (jwt.audience === undefined) {
		warnings.push(
			'jwt.audience is not set: tokens without "aud" are accepted whatever service they were minted for, and ' +
				'tokens with any "aud" are rejected; set it unless this is local',
		);
	}
	if (routes.length === 0) warnings.push('there are no [[routes]]: every request will be answered 404');
	if (limits.maxBufferedBytes < limits.maxRequestBodyBytes) {
		warnings.push(
			'limits.max_buffered_bytes is less than limits.max_request_body_bytes: the largest bodies allowed can never be held',
		);
	}
	if (limits.maxBufferedBytesPerTenant < Math.min(limits.maxRequestBodyBytes, limits.maxBufferedBytes)) {
		warnings.push(
			'limits.max_buffered_bytes_per_tenant is less than limits.max_request_body_bytes: the largest bodies allowed can never be held',
		);
	}
	return warnings;
}
