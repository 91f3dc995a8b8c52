# Runs `coc serve` as an unprivileged user. docs/deploy.md describes its use, and what the sandbox needs in a container.

FROM python:3.12-slim-bookworm AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/coc
WORKDIR /source
# Installed before the source is copied, so that a change to the source does not reinstall everything. pip checks the
# hash of each file.
COPY deploy/image.txt ./deploy/image.txt
RUN /opt/coc/bin/pip install --require-hashes --requirement deploy/image.txt
COPY pyproject.toml README.md LICENSE requirements.txt ./
COPY src ./src
COPY examples ./examples
# Additional extras, at locked versions but without hashes: docker build --build-arg EXTRAS=local,js
ARG EXTRAS=""
RUN /opt/coc/bin/pip install --no-build-isolation --constraint requirements.txt ".[server,mcp,openai,anthropic,schema,yaml,tables,telemetry${EXTRAS:+,$EXTRAS}]"

FROM python:3.12-slim-bookworm
# A user id that is unlikely to exist on the host. It owns only the data directory.
RUN groupadd --gid 10001 coc \
    && useradd --uid 10001 --gid coc --home-dir /data --no-create-home --shell /usr/sbin/nologin coc \
    && install --directory --owner coc --group coc --mode 0700 /data
# The base image has no compiled standard library; on a read-only file system, each start would compile it again.
RUN python -m compileall -q -x '/(site-packages|lib2to3|idlelib|ensurepip|turtledemo)/' /usr/local/lib/python3.12
COPY --from=build /opt/coc /opt/coc
ENV PATH=/opt/coc/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    XDG_CACHE_HOME=/data/cache
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8321
# After SIGTERM, runs have 30 seconds to finish.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8321/healthz', timeout=4)"]
# The server refuses to start without a token: set COC_TOKEN, or add a token with `coc tokens`.
CMD ["coc", "serve", "--host", "0.0.0.0", "--port", "8321", "--data", "/data/runs"]
