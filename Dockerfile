# Stoker's one image: operator, sidecar and CLI are commands on its PATH; the chart says which one runs.
# Debian bookworm, since its kernel-facing parts (Python 3.11, libfuse 3.14) are what the FUSE hand-over was tried on.

# Dependencies: they change seldom, so this stage is taken from the cache when only code changed.
FROM debian:bookworm-slim AS dependencies
# Two builds give the same files: wheels have this time (1980, the oldest in a zip), and bytecode has a fixed order.
ENV SOURCE_DATE_EPOCH=315532800 PYTHONHASHSEED=0
# pyfuse3 is published as source only: it needs a compiler and libfuse's headers.
RUN apt-get update \
 && apt-get install -y --no-install-recommends gcc libc6-dev libfuse3-dev pkg-config python3-dev python3-venv \
 && rm -rf /var/lib/apt/lists/*
# Two environments: what builds stays in /opt/build, what runs goes to /opt/stoker and has no pip.
RUN python3 -m venv /opt/build \
 && python3 -m venv --without-pip /opt/stoker
WORKDIR /src
COPY requirements/build.txt requirements/image.txt requirements/
# Every file by its hash, also of what builds from source: pip's own isolated environment would take any version.
# pyfuse3 without debug symbols, which name pip's temporary folder.
RUN /opt/build/bin/pip install --no-cache-dir --require-hashes -r requirements/build.txt \
 && CFLAGS=-g0 /opt/build/bin/pip wheel --no-cache-dir --no-build-isolation --require-hashes -r requirements/image.txt -w /tmp/image \
 && /opt/build/bin/pip --python /opt/stoker/bin/python install --no-index --no-deps --no-compile /tmp/image/*.whl \
 && rm -r /tmp/image
# botocore describes some 400 services; Stoker speaks to S3, and to the three that credentials come from. Of the
# Kubernetes client it uses the configuration: generated models and APIs have 115 MB, and three models are imported.
# Bytecode is made here, since at run time the file system is read-only; by hash, since times of files differ.
RUN cd /opt/stoker/lib/python3.11/site-packages \
 && find botocore/data -mindepth 1 -maxdepth 1 -type d \
      ! -name s3 ! -name sts ! -name sso ! -name sso-oidc -exec rm -r {} + \
 && find kubernetes/client kubernetes/aio/client \( -path '*/api/*' -o -path '*/models/*' \) -type f \
      ! -name __init__.py ! -name v1_managed_fields_entry.py ! -name v1_object_meta.py ! -name v1_owner_reference.py \
      -delete \
 && /opt/stoker/bin/python -m compileall -q --invalidation-mode unchecked-hash .

# Our own code: no network needed.
FROM dependencies AS code
COPY pyproject.toml README.md LICENSE ./
COPY tuning tuning
COPY plugins plugins
COPY orders orders
COPY crds/stoker_api crds/stoker_api
COPY kube kube
COPY operator operator
COPY sidecar sidecar
COPY cli cli
RUN /opt/build/bin/pip wheel --no-build-isolation --no-deps -w /tmp/wheels . \
 && /opt/build/bin/pip --python /opt/stoker/bin/python install --no-index --no-deps --no-compile --root /out /tmp/wheels/*.whl \
 && /opt/stoker/bin/python -m compileall -q --invalidation-mode unchecked-hash -s /out /out/opt/stoker/lib

FROM debian:bookworm-slim
# No ca-certificates: botocore trusts certifi's list, the API server's CA comes with the service account,
# and a private store's CA comes with its Secret.
RUN apt-get update \
 && PYTHONHASHSEED=0 apt-get install -y --no-install-recommends e2fsprogs libfuse3-3 python3 \
 && apt-get clean \
 && rm -rf /var/lib/apt/lists/*
# 65532: the number that distroless images made customary for "nonroot". The operator runs as this user, and so do
# the sidecar's fetcher and FUSE servers; the sidecar's keeper needs root to mount, which the chart asks for.
RUN groupadd --gid 65532 stoker \
 && SOURCE_DATE_EPOCH=315532800 useradd --uid 65532 --gid 65532 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin --no-log-init stoker
COPY --from=dependencies /opt/stoker /opt/stoker
COPY --from=code /out /
ENV PATH=/opt/stoker/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 65532:65532
CMD ["stoker", "--help"]
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="stoker" \
      org.opencontainers.image.description="Keeps training data warm next to the GPUs: a Kubernetes operator and a CSI caching sidecar" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
