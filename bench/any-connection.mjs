/**
 * Preloaded by `addresses.py --cold N`: the pool of the `[[upstreams]]` named `cold` makes N connections, and hands out any of them instead of the
 * one that was used last. All other pools stay as they are. The pool's `#idle` is private, but its `pop` is everybody's.
 */
const wanted = Number(process.env.BENCH_CONNECTIONS);
const { pop } = Array.prototype;

// An experiment that does not change the product.
Array.prototype.pop = function () {
	const last = this.length - 1;
	const upstream = this[last]?.upstream;
	if (upstream?.group === 'cold') {
		// No idle connection: the pool opens one.
		if (upstream.connections.total < wanted && Math.random() < 0.3) return undefined;
		const any = Math.floor(Math.random() * this.length);
		[this[any], this[last]] = [this[last], this[any]];
	}
	return pop.call(this);
};
