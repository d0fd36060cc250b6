/** The least that a configuration file must say; keys of the top level go before it, tables after it. */
export const MINIMAL = `
[tls]
cert_path = "server.pem"
key_path = "server.key"
client_ca_path = "ca.pem"
[jwt]
jwks_path = "jwt.pem"
`;
