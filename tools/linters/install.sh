#!/usr/bin/env bash
# Installs the linters of test/system into .linters/, in the versions below and in requirements.txt. Needs Python 3 with
# venv, npm, and Go 1.24 or newer; without such a Go, kustomize and actionlint are left out.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

python3 -m venv .linters
.linters/bin/pip install --quiet --disable-pip-version-check --only-binary :all: --requirement tools/linters/requirements.txt

# JSON Schemas of custom resources.
npm install --prefix .linters --no-save --no-audit --no-fund --loglevel=error \
  @kubernetes-models/cert-manager@6.0.0 @kubernetes-models/prometheus-operator@6.0.0

go_version=$(go env GOVERSION 2> /dev/null || true)
if [[ $go_version =~ ^go1\.([0-9]+) && ${BASH_REMATCH[1]} -ge 24 ]]; then
  GOBIN=$PWD/.linters/bin go install sigs.k8s.io/kustomize/kustomize/v5@v5.8.1
  GOBIN=$PWD/.linters/bin go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
else
  echo "kustomize and actionlint are left out: they need Go 1.24, and this is ${go_version:-no Go}" >&2
fi
