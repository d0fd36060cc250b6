import type { Context } from '../command.ts';
import type { Address } from '../options.ts';
import { askMetrics, formatHost } from './metrics-client.ts';

interface HealthcheckOptions {
	readonly metrics: Address;
	/** Checks whether the proxy answers at all, instead of whether it accepts connections. */
	readonly live: boolean;
	readonly timeoutMs: number;
}

/** `proxy healthcheck`. @returns the exit code: 0 if healthy, else 1 with one line that says why. */
export async function healthcheck(
	{ metrics, live, timeoutMs }: HealthcheckOptions,
	{ print }: Pick<Context, 'print'>,
	ask = askMetrics,
): Promise<number> {
	const path = live ? '/livez' : '/readyz';
	const { status, body } = await ask(metrics, path, timeoutMs).catch(({ message }: Error) => ({
		status: 0,
		body: message,
	}));
	// The status decides, as it does for load balancers. The body is for people, and may have a remark.
	const [line = ''] = body.split('\n');
	const isWell = status === 200;
	const isOurs = isWell || status === 503 || status === 0;
	print(
		isOurs
			? `${line}\n`
			: `${formatHost(metrics)}: answers ${status} to ${path}; is that the --metrics-bind of a proxy?\n`,
	);
	return isWell ? 0 : 1;
}
