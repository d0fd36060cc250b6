/** One point of the charts, ms: as long as a slice of the histograms, so that a point's quantiles are exactly its own. */
export const POINT_MS = 10_000;
/** Ten minutes. */
export const POINTS = 60;
