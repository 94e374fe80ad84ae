# Strandline's server. No container engine has run this file yet: tests/wheel/test_dockerfile.py runs
# its RUN lines, its health check and its entry point in clean roots, which is not the same.

FROM python:3.13-slim AS build
WORKDIR /src
COPY requirements-build.lock ./
RUN pip install --no-cache-dir --require-hashes -r requirements-build.lock
COPY . .
# Through the sdist: a wheel built straight from the tree would carry ignored files along.
RUN python -m build --no-isolation --outdir /dist .

FROM python:3.13-slim
# Debian's own SQLite has the WAL-reset bug; the locked pysqlite3 brings a repaired one (x86_64).
COPY requirements.lock /tmp/
RUN pip install --no-cache-dir --require-hashes -r /tmp/requirements.lock
COPY --from=build /dist/*.whl /tmp/
RUN pip install --no-cache-dir --no-deps /tmp/*.whl && rm /tmp/*.whl /tmp/requirements.lock
RUN useradd --uid 10001 --create-home strandline && install -d -m 0700 -o strandline -g strandline /data

USER strandline
ENV STRANDLINE_DATA=/data
VOLUME ["/data"]
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/livez', timeout=2)"]
# Serving beyond loopback needs STRANDLINE_TOKEN in the environment, else the server refuses to start.
ENTRYPOINT ["strandline"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8000"]
