import { LedgerStore } from '../../../../src/control/store/ledger.ts';
import { leaseStoreSuite } from '../../../fixtures/lease-store-suite.ts';

leaseStoreSuite('in memory', async () => {
	const store = new LedgerStore();
	let micros = 1_700_000_000_000_000;
	return {
		lease: async (batch) => store.lease(batch, micros),
		advance: async (ms) => {
			micros += ms * 1000;
		},
		flush: async () => store.flush(),
		close: async () => {},
	};
});
