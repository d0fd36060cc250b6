/**
 * Preloaded by `addresses.py --cold N`: the pool of an `[[upstreams]]` makes N connections, and hands out any of them instead of the one that was
 * used last. Routes by URL keep their pools as they are. The pool's `#idle` is private, but its `pop` is everybody's.
 */
const wanted = Number(process.env.BENCH_CONNECTIONS);
const { pop } = Array.prototype;
let made = 0;

// An experiment that leaves the product as it is.
Array.prototype.pop = function () {
	const last = this.length - 1;
	if (last >= 0 && this[last]?.upstream?.group !== undefined) {
		// None to hand out: the pool makes one.
		if (made < wanted && Math.random() < 0.3) return void made++;
		const any = Math.floor(Math.random() * this.length);
		[this[any], this[last]] = [this[last], this[any]];
	}
	return pop.call(this);
};
