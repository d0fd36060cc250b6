import assert from 'node:assert/strict';
import { test } from 'node:test';
import { routesShown } from '../../../packages/proxy/src/control/supervisor.ts';
import { route } from './fixtures/routes.ts';

test('the first line lists at most 20 routes, and then says how many there are', () => {
	const routes = Array.from({ length: 21 }, (_, i) => route(`/${i}`, 'up:1'));
	const shown = routes.slice(0, 20).map(({ prefix }) => ({ prefix, upstream: 'up:1' }));
	assert.deepEqual(routesShown(routes), { routes: shown, routes_total: 21 });
	assert.deepEqual(routesShown(routes.slice(0, 20)), { routes: shown });
});
