import { MAX_FAILURES, MAX_TENANTS } from '../../gates/breaker.ts';
import { table, wholeNumber, wholeNumberOr } from './kinds.ts';

/** `[breaker]`: what opens the breakers of routes that do not say it themselves. */
export const breaker = table('[breaker]', {
	failures: wholeNumberOr(1, 1, MAX_FAILURES, 'of failures in a row'),
	// Who has failed is remembered for each upstream, in memory of a fixed size.
	tenants: wholeNumberOr(1, 1, MAX_TENANTS, 'of tenants'),
});

/** The same for one route. */
export const routeBreakerKeys = {
	failures: wholeNumber(1, MAX_FAILURES, 'that of [breaker]', 'of failures in a row').optional(),
	tenants: wholeNumber(1, MAX_TENANTS, 'that of [breaker]', 'of tenants').optional(),
};
