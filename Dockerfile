# syntax=docker/dockerfile:1
FROM python:3.13-slim AS environment
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/headroom
# docker build --build-arg PARTS="runtime sweeps otel" . leaves out images and PDF, and sends traces.
ARG PARTS="runtime images pdf sweeps"
COPY requirements/ /tmp/requirements/
RUN for part in $PARTS; do \
      /opt/headroom/bin/pip install --require-hashes --only-binary :all: -r /tmp/requirements/$part.txt \
      || exit 1; \
    done
# The service is run from its folder; what only installs packages stays behind.
RUN /opt/headroom/bin/pip uninstall --yes pip

FROM python:3.13-slim
LABEL org.opencontainers.image.title="headroom" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/headroom headroom
COPY --from=environment /opt/headroom /opt/headroom
WORKDIR /srv/headroom
COPY LICENSE ./
COPY migrations/ migrations/
COPY hardware_catalog/ hardware_catalog/
COPY docs/ docs/
COPY service/ service/
ENV PATH=/opt/headroom/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HEADROOM_HOST=0.0.0.0 \
    HEADROOM_PORT=8000 \
    HEADROOM_DATA_DIRECTORY=/var/lib/headroom/data
# Compiled here, because a read-only container could not keep the byte code.
RUN python -m compileall -q service migrations
USER 10001:10001
VOLUME /var/lib/headroom
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request; urllib.request.urlopen(f\"http://127.0.0.1:{os.environ['HEADROOM_PORT']}/readyz\", timeout=2)"]
ENTRYPOINT ["python", "-m", "service.cli"]
CMD ["serve"]
