/** Numbers and names of deploy/ that several files have to agree on. */
import assert from 'node:assert/strict';
import { existsSync, globSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { parseAllDocuments } from 'yaml';
import { initialise } from '../../../packages/proxy/src/cli/development/init.ts';
import { parseConfig } from '../../../packages/proxy/src/config/load.ts';
import { upstreamKey } from '../../../packages/proxy/src/config/upstream.ts';
import { temporaryFolder } from '../../fixtures/pki.ts';
import { MINIMAL } from '../config/minimal.ts';
import { CONFIGS, config, inBase, ROOT, text, yaml } from './files.ts';

/** Between the end of the drain and the process's, ms. */
const MARGIN_MS = 3_000;
const MIB = 2 ** 20;
/** What an idle connection keeps resident (bench/RESULTS.md), bytes. */
const CONNECTION_BYTES = 78 * 1024;
/** The process with two workers before its first connection, bytes. */
const PROCESS_BYTES = 256 * MIB;

/** What the news of a deleted pod may take to reach every node, ms; docs/how-to/deploy.md has the rule. */
const PROPAGATION_MS = 15_000;

const KUBERNETES = CONFIGS.filter((file) => file.startsWith('deploy/kubernetes/'));

/** From SIGTERM on, ms. */
function drainMs({ limits }: ReturnType<typeof config>): number {
	return limits.shutdownDelayMs + limits.shutdownDrainMs;
}

test('the proxy accepts every configuration in deploy/', () => {
	assert.deepEqual(CONFIGS, [
		'deploy/compose/config.toml',
		'deploy/kubernetes/base/config.toml',
		'deploy/kubernetes/overlays/example/config.toml',
	]);
	for (const file of CONFIGS) assert.ok(config(file).routes.length > 0, file);
});

describe('a supervisor waits longer than the delay and drain of the proxy', () => {
	test('Kubernetes: terminationGracePeriodSeconds exceeds delay, drain and margin', () => {
		const { terminationGracePeriodSeconds } = inBase('Deployment', 'edge').spec.template.spec;
		for (const file of KUBERNETES) {
			const ms = drainMs(config(file));
			assert.ok(terminationGracePeriodSeconds * 1000 >= ms + MARGIN_MS, `${file}: ${ms} ms`);
		}
	});

	test('Compose: stop_grace_period exceeds delay, drain and margin', () => {
		const [, seconds] = /^(\d+)s$/.exec(yaml('compose.yaml').services.edge.stop_grace_period) ?? [];
		assert.ok(Number(seconds) * 1000 >= drainMs(config('deploy/compose/config.toml')) + MARGIN_MS);
	});

	test('TimeoutStopSec of the unit for systemd, which reloads by SIGHUP', () => {
		const unit = text('deploy/systemd/edge.service');
		assert.match(unit, /^ExecReload=\/bin\/kill -HUP \$MAINPID$/m);
		const [, seconds] = /^TimeoutStopSec=(\d+)$/m.exec(unit) ?? [];
		assert.ok(Number(seconds) * 1000 >= drainMs(parseConfig(MINIMAL, 'config.toml')) + MARGIN_MS);
	});
});

test('the metrics listener is bound privately: by the unit to loopback, by Compose and Kubernetes inside a container only', () => {
	assert.match(text('deploy/systemd/edge.service'), /^ExecStart=.* --metrics-bind 127\.0\.0\.1:\d+$/m);
	for (const page of globSync('{README.md,docs/**/*.md}', { cwd: ROOT })) {
		// docs/reference/command.md has the default, in a table.
		for (const [bind] of text(page).matchAll(/(?<=--metrics-bind[= ])(?:0\.0\.0\.0|\[::\]):\d+/g))
			assert.fail(`${page}: ${bind}`);
	}
});

describe('on Kubernetes', () => {
	const { template } = inBase('Deployment', 'edge').spec;
	const [container] = template.spec.containers;

	test('the drain begins when every node knows that the endpoint is gone, as docs/how-to/deploy.md has the rule', () => {
		for (const file of KUBERNETES) assert.ok(config(file).limits.shutdownDelayMs >= PROPAGATION_MS, file);
		const rule = /^\| `shutdown_delay_secs` \|.* at least (\d+) s.*\| (\d+) \|$/m.exec(text('docs/how-to/deploy.md'));
		assert.deepEqual(
			rule?.slice(1),
			[PROPAGATION_MS, config(KUBERNETES[0]!).limits.shutdownDelayMs].map((ms) => `${ms / 1000}`),
		);
	});

	test('the memory limit has room for bodies, connections and the process', () => {
		const limit = Number(/^(\d+)Gi$/.exec(container.resources.limits.memory)?.[1]) * 1024 * MIB;
		for (const file of KUBERNETES) {
			const { maxBufferedBytes, maxConnections } = config(file).limits;
			const needed = maxBufferedBytes + maxConnections! * CONNECTION_BYTES + PROCESS_BYTES;
			assert.ok(needed <= limit, `${file}: ${needed / MIB} MiB`);
		}
	});

	test('mounted files are watched, and mounted as folders', () => {
		for (const file of KUBERNETES) {
			const { reloadOnChange, tls, jwt } = config(file);
			assert.ok(reloadOnChange, file);
			for (const path of [
				tls.certPath,
				tls.keyPath,
				tls.clientCaPath,
				(jwt as { readonly jwksPath: string }).jwksPath,
			]) {
				const mount = container.volumeMounts.find(({ mountPath }: { mountPath: string }) =>
					path.startsWith(`${mountPath}/`),
				);
				assert.ok(mount, `${file}: ${path}`);
				assert.deepEqual([mount.subPath, mount.readOnly], [undefined, true]);
			}
		}
	});

	test('the pod may do nothing that the proxy does not need', () => {
		const { automountServiceAccountToken, securityContext } = template.spec;
		assert.equal(automountServiceAccountToken, false);
		assert.equal(inBase('ServiceAccount', 'edge').automountServiceAccountToken, false);
		const uid = Number(/^USER (\d+):\d+$/m.exec(text('Dockerfile'))?.[1]);
		assert.deepEqual(securityContext, {
			runAsNonRoot: true,
			runAsUser: uid,
			runAsGroup: uid,
			fsGroup: uid,
			seccompProfile: { type: 'RuntimeDefault' },
		});
		assert.deepEqual(container.securityContext, {
			allowPrivilegeEscalation: false,
			readOnlyRootFilesystem: true,
			capabilities: { drop: ['ALL'] },
		});
	});

	test('it has at least two replicas, and a drain of nodes evicts one at a time', () => {
		const { replicas, selector } = inBase('Deployment', 'edge').spec;
		const budget = inBase('PodDisruptionBudget', 'edge').spec;
		assert.ok(replicas >= 2);
		assert.equal(budget.maxUnavailable, 1);
		assert.deepEqual(budget.selector, selector);
		assert.ok(template.spec.topologySpreadConstraints.length > 0);
	});

	test('the probes use paths of the proxy, on the port of its metrics listener', () => {
		const port = container.ports.find(({ name }: { name: string }) => name === 'metrics').containerPort;
		assert.ok(container.args.includes(`--metrics-bind=0.0.0.0:${port}`));
		const asked = ['startupProbe', 'readinessProbe', 'livenessProbe'].map((probe) => container[probe].httpGet);
		assert.deepEqual(
			asked,
			['/readyz', '/readyz', '/livez'].map((path) => ({ path, port: 'metrics' })),
		);
	});

	test('only the proxy reaches upstreams, and only Prometheus the metrics', () => {
		const proxies = inBase('Deployment', 'edge').spec.selector;
		const upstreams = inBase('NetworkPolicy', 'edge-upstreams').spec;
		assert.deepEqual(upstreams.ingress, [{ from: [{ podSelector: proxies }] }]);
		const { podSelector, ingress, egress } = inBase('NetworkPolicy', 'edge').spec;
		assert.deepEqual(podSelector, proxies);
		const open = ingress.filter(({ from }: { from?: object }) => from === undefined);
		assert.deepEqual(open, [{ ports: [{ port: 'https', protocol: 'TCP' }] }]);
		assert.deepEqual(egress[0], { to: [{ podSelector: upstreams.podSelector }] });
		const ports = inBase('Service', 'edge').spec.ports.map(({ targetPort }: { targetPort: string }) => targetPort);
		assert.deepEqual(ports, ['https'], 'what has no authentication is on no load balancer');
	});
});

describe('the store of the limits on Kubernetes', () => {
	const folder = 'deploy/kubernetes/components/redis-store';
	const [service, deployment] = parseAllDocuments(text(`${folder}/store.yaml`)).map((document) => document.toJS());
	const { template } = deployment.spec;
	const [container] = template.spec.containers;

	test('is configured as its comment says, with the mounted password', () => {
		const [, lines = ''] = /^(# {3}\[limiter\]\n(?:# {3}.*\n)+)/m.exec(text(`${folder}/kustomization.yaml`)) ?? [];
		const base = text('deploy/kubernetes/base/config.toml');
		const limiter = parseConfig(`${base}\n${lines.replaceAll(/^# {3}/gm, '')}`, 'config.toml').limiter!;
		const [{ port }] = service.spec.ports;
		assert.deepEqual(
			limiter.store.map(({ host, port: asked }) => [host, asked]),
			[[service.metadata.name, port]],
		);
		const { replicas } = inBase('Deployment', 'edge').spec;
		assert.equal(limiter.replicas, replicas);
		const [{ volumeMounts }] = yaml(`${folder}/password.yaml`).spec.template.spec.containers;
		assert.equal(limiter.passwordPath, `${volumeMounts[0].mountPath}/password`);
		assert.match(text(`${folder}/users.acl`), new RegExp(`^user ${limiter.username} on `, 'm'));
	});

	test('gives the proxies no right but those of docs/explanation/shared-rate-limits.md, and others none', () => {
		const [, rights] = /^ACL SETUSER edge (.+)$/m.exec(text('docs/explanation/shared-rate-limits.md')) ?? [];
		assert.equal(text(`${folder}/users.acl`), `user default off\nuser edge ${rights}\n`);
	});

	test('evicts nothing, and its memory fits into the pod', () => {
		const { args, resources } = container;
		const flag = (name: string) => args[args.indexOf(name) + 1];
		assert.equal(flag('--maxmemory-policy'), 'noeviction');
		const [most, limit] = [flag('--maxmemory'), resources.limits.memory].map(Number.parseFloat);
		assert.ok(most! <= 0.75 * limit!);
	});

	test('has as few rights as the proxy', () => {
		const edge = inBase('Deployment', 'edge').spec.template.spec;
		assert.deepEqual(template.spec.securityContext, edge.securityContext);
		assert.deepEqual(container.securityContext, edge.containers[0].securityContext);
		assert.equal(template.spec.automountServiceAccountToken, false);
	});
});

describe('compose.yaml', () => {
	const { services, networks } = yaml('compose.yaml');

	test('runs the image hardened: read-only root, no capability, no new privileges', () => {
		for (const name of ['init', 'orders', 'invoices', 'edge']) {
			const { image, read_only, cap_drop, security_opt } = services[name];
			assert.deepEqual(
				{ image, read_only, cap_drop, security_opt },
				{
					image: 'mtls-edge-proxy:latest',
					read_only: true,
					cap_drop: ['ALL'],
					security_opt: ['no-new-privileges:true'],
				},
				name,
			);
		}
	});

	test('lets only the proxy reach its services, and publishes only on 127.0.0.1', () => {
		assert.equal(networks.upstreams.internal, true);
		const beside = Object.entries(services).filter(([, service]) =>
			(service as { networks?: string[] }).networks?.includes('upstreams'),
		);
		assert.deepEqual(
			beside.map(([name]) => name),
			['orders', 'invoices', 'edge'],
		);
		for (const { ports = [] } of Object.values(services) as { ports?: string[] }[]) {
			for (const port of ports) assert.match(port, /^127\.0\.0\.1:/);
		}
	});

	test('routes to the services that it runs', () => {
		const upstreams = config('deploy/compose/config.toml').routes.map(({ upstream }) => upstreamKey(upstream));
		assert.deepEqual(upstreams.sort(), ['invoices:8080', 'orders:8080']);
		assert.match(text('deploy/compose/service.mjs'), /PORT \?\? 8080/);
	});

	test('names the files that `proxy init` makes', async () => {
		const dir = temporaryFolder('compose');
		await initialise({ dir, hosts: [], upstream: 'http://127.0.0.1:3000' }, Date.now());
		const { tls, jwt } = config('deploy/compose/config.toml');
		const made = config(join(dir, 'config.toml'));
		assert.deepEqual(tls, made.tls);
		const trusted = ({ jwksPath, issuer, audience }: { jwksPath: string; issuer?: string; audience?: string }) => ({
			jwksPath,
			issuer,
			audience,
		});
		assert.deepEqual(trusted(jwt as never), trusted(made.jwt as never));
		assert.ok(existsSync(join(dir, tls.certPath)));
	});
});
