/**
 * Memory that all threads of the process share. Each structure of this folder has the same convention:
 *
 * - `X.allocate(…)` makes the region, once, on the main thread;
 * - `new X(region, worker)`, or `X.view(…)` for a part of a region, is one thread's view of it;
 * - `X.reclaim(region, worker)` takes back what a thread held that has ended; that thread must not touch the region again.
 */
export type Region = SharedArrayBuffer;
