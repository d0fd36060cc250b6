# syntax=docker/dockerfile:1
# One image a body mode:
#   docker build -t mtls-edge-proxy .
#   docker build -t mtls-edge-proxy:streaming --build-arg BODY_MODE=streaming .
# A registry of your own for npm: --secret id=npmrc,src=.npmrc-of-yours

# 26.12.1 and 26.13.1 fix faults of Node that can be reached over the network. The proxy warns at its start below 26.13.1.
ARG NODE_VERSION=26.13.1

FROM docker.io/library/node:${NODE_VERSION}-trixie-slim AS node

FROM node AS build
# collected: bodies are read whole. streaming: they pass through. See docs/how-to/deploy.md.
ARG BODY_MODE=collected
ENV NPM_CONFIG_USERCONFIG=/run/secrets/npmrc
WORKDIR /build
# The other workspaces hold the Node and the benchmarks of development.
COPY package.json package-lock.json .npmrc ./
COPY packages/gate/package.json packages/gate/
COPY packages/gate/src/package.json packages/gate/src/
COPY packages/proxy/package.json packages/proxy/
RUN --mount=type=secret,id=npmrc \
    npm pkg set --json 'workspaces=["packages/gate", "packages/gate/src", "packages/proxy"]' \
    && npm ci --ignore-scripts --no-audit --no-fund
COPY . .
RUN case "${BODY_MODE}" in \
      collected) node tools/build.ts --out-dir packages/proxy/dist ;; \
      streaming) node tools/build.ts --features boxed_body ;; \
      *) echo "BODY_MODE is '${BODY_MODE}', neither 'collected' nor 'streaming'" >&2; exit 1 ;; \
    esac

FROM node AS root
ENV NPM_CONFIG_USERCONFIG=/run/secrets/npmrc
WORKDIR /root-of-image/app
COPY package.json package-lock.json .npmrc ./
COPY packages/proxy/package.json packages/proxy/
# What the proxy installs, without the link to the proxy itself.
RUN --mount=type=secret,id=npmrc \
    npm pkg set --json 'workspaces=["packages/proxy"]' \
    && npm ci --omit=dev --ignore-scripts --no-audit --no-fund \
    && rm -rf package-lock.json .npmrc packages node_modules/mtls-edge-proxy
COPY packages/proxy/package.json LICENSE ./
COPY --from=build /build/packages/proxy/dist dist
# Node needs libatomic, which the base image lacks. /usr/lib is searched on every architecture.
RUN mkdir -p ../usr/local/bin ../usr/local/share/licenses/node ../usr/lib ../etc/edge \
    && cp /usr/local/bin/node ../usr/local/bin/ \
    && cp /usr/local/LICENSE ../usr/local/share/licenses/node/ \
    && cp -L /usr/lib/*-linux-gnu/libatomic.so.1 ../usr/lib/

# glibc, libstdc++, CA certificates, and no shell. Nothing is written to it: it runs with a read-only root.
FROM gcr.io/distroless/cc-debian13:nonroot
ARG VERSION=0.0.0
ARG REVISION=unknown
ARG SOURCE=unknown
LABEL org.opencontainers.image.title="mtls-edge-proxy" \
      org.opencontainers.image.description="Edge reverse proxy for private networks: mutual TLS, JWT, per-tenant rate limits, routes and circuit breakers" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.base.name="gcr.io/distroless/cc-debian13:nonroot"
COPY --from=root /root-of-image /
# `proxy init` writes to it where a volume is mounted here: a new volume takes over the owner.
COPY --from=root --chown=65532:65532 /root-of-image/etc/edge /etc/edge
# `nonroot` of the base image. The number, because Kubernetes' runAsNonRoot does not look up names.
USER 65532:65532
# config.toml and the relative paths in it are looked for here.
WORKDIR /etc/edge
EXPOSE 8443 9090
STOPSIGNAL SIGTERM
# Kubernetes and systemd do not look at it. There is no curl here.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["/usr/local/bin/node", "/app/dist/main.js", "healthcheck"]
ENTRYPOINT ["/usr/local/bin/node", "/app/dist/main.js"]
