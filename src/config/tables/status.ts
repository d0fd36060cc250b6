import { z } from 'zod';
import { expected, explained, flag, table } from './kinds.ts';

/** More names than this of one process are a mistake. */
const MAX_HOSTS = 32;

/** `[status]`: the status page of the metrics listener. */
export const status = table('[status]', {
	tenants: flag('false').default(false).describe('show tenants by name on the status page; otherwise none is'),
	hosts: z
		.array(hostName(), {
			error: expected('a list of host names', 'leave it out where the page is asked for by address'),
		})
		.max(MAX_HOSTS, { error: () => `has more than ${MAX_HOSTS} names; name those that people type` })
		.default([])
		.describe(
			'host names that the page may be asked for by, beside `localhost` and addresses: a page of another site can lead here by a name of its own',
		),
}).meta(explained('the status page of the metrics listener', { read: 'at start' }));

function hostName() {
	const error = expected('a host name without port', 'write for example "edge-1.example.com"');
	return z.string({ error }).regex(/^(?=.{1,253}$)[a-z\d_]([a-z\d_.-]*[a-z\d])?$/i, { error });
}
