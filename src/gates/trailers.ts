/** Names (lower case) and values in turn, as they follow a message's content (RFC 9110 section 6.5). Never empty: no trailers are `undefined`. */
export type Trailers = readonly string[];
