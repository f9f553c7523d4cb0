# Proctor with its web application, signatures and stores in PostgreSQL.
# docker build -t proctor . && docker run --rm -v "$PWD:/project" proctor run suites/ --target openai:gpt-5.2
FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN python -m venv /opt/proctor && /opt/proctor/bin/pip install --no-cache-dir '.[web,sign,postgres]'

FROM python:3.13-slim
RUN useradd --uid 10001 --create-home proctor && mkdir /project /data && chown proctor /project /data
COPY --from=build /opt/proctor /opt/proctor
ENV PATH=/opt/proctor/bin:$PATH
USER proctor
WORKDIR /project
VOLUME /data
# Runs are kept in the volume, also those of a project that is mounted read-only.
ENV PROCTOR_STORE=/data/proctor.db
EXPOSE 7357
ENTRYPOINT ["proctor"]
CMD ["--help"]
