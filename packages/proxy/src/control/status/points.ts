/** One point of the charts, ms: as long as a slice of the histograms, so that quantiles cover exactly one point. */
export const POINT_MS = 10_000;
/** Ten minutes. */
export const POINTS = 60;
