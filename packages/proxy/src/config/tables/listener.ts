import { z } from 'zod';
import { MAX_RANGES, parseAddressRange } from '../../shared/address-ranges.ts';
import { checked, expected, seconds, table, text } from './kinds.ts';

const REMEDY = 'name the load balancers, for example "192.0.2.7" or "10.0.0.0/8"';
const LIST = expected('a list of addresses and ranges', REMEDY);

/** `[listener]`: what the TLS listener learns about connections from load balancers. */
export const listener = table('[listener]', {
	proxy_protocol_from: z
		.array(addressRange(), { error: LIST })
		.max(MAX_RANGES, { error: () => `has more than ${MAX_RANGES} entries; combine them into ranges` })
		.default([])
		.describe(
			'load balancers that begin each connection with a PROXY header (version 1 or 2): IP addresses and ranges (`10.0.0.0/8`). They must send the header, and the proxy accepts it from no one else; see docs/how-to/tcp-balancer.md',
		),
	proxy_protocol_timeout_secs: seconds(5).describe(
		'time for the PROXY header, counted from accept; `tls_handshake_timeout_secs` starts when the header is complete. A value of 3 or more leaves time for a retransmission',
	),
}).meta({ description: 'the TLS listener behind load balancers', read: 'at startup' });

function addressRange() {
	return checked(text('an IP address or a range of them', REMEDY), '^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$', (range) => {
		const parsed = parseAddressRange(range);
		return typeof parsed === 'string' ? parsed : undefined;
	}).meta({ noun: 'address or range' });
}
