/** Readers' tasks: from README.md two links are enough to reach the section that answers each. */
import assert from 'node:assert/strict';
import { posix } from 'node:path';
import { describe, it } from 'node:test';
import { anchorsIn, linksIn, PAGES } from '../../fixtures/doc-blocks.ts';

const TASKS: Readonly<Record<string, string>> = {
	"rotate the server's certificate": 'docs/how-to/operations.md#rotate-the-servers-certificate',
	'a tenant gets 429: why?': 'docs/how-to/troubleshooting.md#429-rate-limited',
	'add a second issuer': 'docs/reference/authentication.md#issuers-and-keys',
	'accept tokens of Keycloak': 'docs/how-to/keycloak.md#steps',
	'an alert fires: what now?': 'docs/how-to/alerts.md#mtlsedgeupstreamdown',
	'which settings need a restart?': 'docs/how-to/troubleshooting.md#which-settings-need-a-restart',
	'upgrade without losing requests, and go back': 'docs/how-to/upgrade.md#several-replicas-behind-a-balancer',
	'lock out a client whose key is lost': 'docs/how-to/operations.md#revoke',
	"see the client's address behind a balancer": 'docs/how-to/tcp-balancer.md#haproxy',
	'choose the memory and the workers': 'docs/how-to/operations.md#sizing',
	'serve Server-Sent Events': 'docs/how-to/service-owners.md#server-sent-events-and-long-polls',
	'put a gRPC service behind it': 'docs/how-to/grpc.md#the-smallest-configuration',
	'install it on Debian': 'docs/how-to/debian.md#steps',
	"take nginx's configuration over": 'docs/how-to/moving.md#nginx',
	'what is logged about a refused request?': 'docs/reference/logs.md#why-a-token-was-refused',
	'go back to the old version': 'docs/how-to/upgrade.md#one-machine-with-systemd',
	'add revocation': 'docs/how-to/operations.md#revoke',
	'share one limit over all replicas': 'docs/explanation/shared-rate-limits.md#the-store',
};

/** Links to follow, from README.md, until a page is open; undefined: more than two. */
function clicksTo(wanted: string): number | undefined {
	let open = new Set(['README.md']);
	for (let clicks = 0; clicks <= 2; clicks++) {
		if (open.has(wanted)) return clicks;
		open = new Set([...open].flatMap(pagesLinkedFrom));
	}
	return undefined;
}

function pagesLinkedFrom(page: string): string[] {
	return linksIn(page)
		.map(({ target }) => posix.normalize(posix.join(posix.dirname(page), target.replace(/#.*/, ''))))
		.filter((linked) => PAGES.includes(linked));
}

describe("readers' tasks", () => {
	for (const [task, answer] of Object.entries(TASKS)) {
		it(`${task}: at most two clicks from README.md`, () => {
			const [page, anchor] = answer.split('#') as [string, string];
			assert.ok(anchorsIn(page).has(anchor), `${page} has no section ${anchor}`);
			assert.ok(clicksTo(page) !== undefined, `${page} is more than two clicks away`);
		});
	}
});
