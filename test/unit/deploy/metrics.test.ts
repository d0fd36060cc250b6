/** Alerts and dashboard of deploy/ name what the proxy writes, and nothing else. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { FAMILIES } from '../../../packages/proxy/src/control/metrics/family-table.ts';
import { text, yaml } from './files.ts';

interface Alert {
	readonly alert: string;
	readonly expr: string;
	readonly labels: Readonly<Record<string, string>>;
	readonly annotations: Readonly<Record<string, string>>;
}

interface Panel {
	readonly id: number;
	readonly type: string;
	readonly title: string;
	readonly description?: string;
	readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
	readonly datasource?: object;
	readonly targets?: readonly { readonly refId: string; readonly expr: string; readonly datasource: object }[];
}

/** Every series that packages/proxy/src/control/metrics writes, with the labels that it may have. */
const series = new Map(
	Object.values(FAMILIES).flatMap(({ name, type, labels }): [string, readonly string[]][] => {
		const own = Object.keys(labels);
		const sums: [string, readonly string[]][] = [`${name}_sum`, `${name}_count`].map((part) => [part, own]);
		if (type === 'histogram') return [[`${name}_bucket`, [...own, 'le']], ...sums];
		if (type === 'summary') return [[name, [...own, 'quantile']], ...sums];
		return [[name, own]];
	}),
);
/** Prometheus' own, of each target. */
const OF_TARGETS = ['instance', 'job'];

const rules: { readonly groups: readonly { readonly rules: readonly Alert[] }[] } =
	yaml('deploy/prometheus/rules.yaml');
const alerts = rules.groups.flatMap((group) => group.rules);
const dashboard = JSON.parse(text('deploy/grafana/mtls-edge-proxy.json'));
const panels: readonly Panel[] = dashboard.panels;
const queries = panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => ({ title, expr })));

/** Series of an expression, and labels in their selectors, that the proxy does not write. */
function unknownIn(expr: string): string[] {
	const selectors = expr.matchAll(/\b((?:proxy|process|nodejs)_[a-z0-9_]+)(?:\{([^}]*)\})?/g);
	return Array.from(selectors).flatMap(([, name = '', matchers = '']) => {
		const labels = series.get(name);
		if (labels === undefined) return [name];
		const asked = Array.from(matchers.matchAll(/([a-z_]+)\s*[=!]~?/g), ([, label]) => label!);
		return asked.filter((label) => ![...labels, ...OF_TARGETS].includes(label)).map((label) => `${name}{${label}}`);
	});
}

test('a name or a label that the proxy does not write is detected', () => {
	assert.deepEqual(unknownIn('rate(proxy_request_total[5m]) / proxy_upstream_duration_seconds_bucket{le="1"}'), [
		'proxy_request_total',
	]);
	assert.deepEqual(unknownIn('proxy_requests_total{instance=~"$instance", tenant!="x"}'), [
		'proxy_requests_total{tenant}',
	]);
});

describe('the alerts', () => {
	test('name metrics that the proxy writes', () => {
		for (const { alert, expr } of alerts) assert.deepEqual(unknownIn(expr), [], alert);
	});

	test('have a severity, a summary and a first step', () => {
		for (const { alert, labels, annotations } of alerts) {
			assert.match(alert, /^MtlsEdge[A-Z]/);
			assert.match(labels.severity ?? '', /^(?:warning|critical)$/, alert);
			assert.deepEqual(Object.keys(annotations).sort(), ['description', 'runbook_url', 'summary'], alert);
		}
	});

	test('have a section each in docs/how-to/alerts.md, in the same order, which runbook_url names', () => {
		const sections = Array.from(
			text('docs/how-to/alerts.md').matchAll(
				/^### (\w+)\n\n- \*\*Means:\*\* .+\n- \*\*Check:\*\* .+\n- \*\*Do:\*\* .+$/gm,
			),
		);
		assert.deepEqual(
			sections.map(([, name]) => name),
			alerts.map(({ alert }) => alert),
		);
		for (const { alert, annotations } of alerts)
			assert.equal(annotations.runbook_url, `docs/how-to/alerts.md#${alert.toLowerCase()}`);
	});

	test('each have a test that fires and a quiet test', () => {
		const { tests } = yaml('deploy/prometheus/rules.test.yaml');
		assert.deepEqual(
			tests.map(({ name }: { name: string }) => name),
			alerts.flatMap(({ alert }) => [`${alert} fires`, `${alert} is quiet`]),
		);
	});

	test('are the same for the Prometheus operator', () => {
		const { spec } = yaml('deploy/kubernetes/components/prometheus-operator/prometheus-rule.yaml');
		assert.deepEqual(spec, rules, 'copy `groups` of deploy/prometheus/rules.yaml');
	});

	for (const subject of [
		...['proxy_circuit_state', 'proxy_upstream_alive', 'proxy_certificate_expiry_timestamp_seconds'],
		...['proxy_auth_failures_total', 'proxy_ratelimited_total', 'proxy_tls_handshake_refusals_total'],
		...['proxy_grpc_responses_total', 'proxy_tunnel_ends_total'],
		...['proxy_reload_timestamp_seconds', 'proxy_worker_event_loop_utilization_ratio', 'proxy_body_memory_bytes'],
		...[
			'proxy_connections_limit',
			'proxy_jwks_age_seconds',
			'proxy_crl_next_update_seconds',
			'proxy_access_log_dropped_total',
		],
	]) {
		test(`and the dashboard have ${subject}`, () => {
			assert.ok(
				alerts.some(({ expr }) => expr.includes(subject)),
				'alerts',
			);
			const own = subject.replace('proxy_ratelimited_total', 'proxy_ratelimit_refusals_total');
			assert.ok(
				queries.some(({ expr }) => expr.includes(own)),
				'dashboard',
			);
		});
	}
});

describe('the dashboard', () => {
	test('names metrics that the proxy writes', () => {
		for (const { title, expr } of queries) assert.deepEqual(unknownIn(expr), [], title);
	});

	test('asks the data source and the instances that are chosen in it', () => {
		assert.equal(dashboard.uid, 'mtls-edge-proxy');
		const names = dashboard.templating.list.map(({ name, type }: { name: string; type: string }) => [name, type]);
		assert.deepEqual(names, [
			['datasource', 'datasource'],
			['instance', 'query'],
		]);
		const chosen = { type: 'prometheus', uid: '$' + '{datasource}' };
		for (const { title, datasource, targets = [] } of panels) {
			if (targets.length > 0) assert.deepEqual(datasource, chosen, title);
			for (const target of targets) {
				assert.deepEqual(target.datasource, chosen, title);
				assert.match(target.expr, /instance=~"\$instance"/, title);
			}
		}
	});

	test('has a description of each panel, and no two panels overlap', () => {
		assert.equal(new Set(panels.map(({ id }) => id)).size, panels.length);
		const taken = new Map<string, string>();
		for (const { title, type, description, gridPos } of panels) {
			if (type !== 'row') assert.ok(description, title);
			assert.ok(gridPos.x + gridPos.w <= 24, title);
			for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++) {
				for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
					assert.equal(taken.get(`${x},${y}`), undefined, title);
					taken.set(`${x},${y}`, title);
				}
			}
		}
	});
});
